"""Results and what turns keep of them, as the libraries take them that people write JSON and YAML with."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy
import orjson
import pytest
import yaml
from fastapi import FastAPI
from fastapi.encoders import jsonable_encoder
from fastapi.testclient import TestClient
from guard_rails import Contains
from pydantic import BaseModel, TypeAdapter

from turnwise import Conversation, GuardrailPipeline
from turnwise.guard import Action, Finding, Guardrail, PipelineResult

CONFIG: dict[str, Any] = {
    "guardrails": [
        {"keywords": {"keywords": ["project x"], "action": "block"}},
        {"pii": {"action": "redact", "on": "all"}},
        {"drift": {"observer": "scripted:0.1,0.2"}},
    ]
}


class Holder(BaseModel):
    anything: Any
    mapping: dict[str, Any]


def web(value: Any, annotation: Any = dict[str, Any]) -> Any:
    """Return what a client reads of a value that a route returns."""
    app = FastAPI()

    def route() -> Any:
        return value

    route.__annotations__["return"] = annotation
    app.get("/")(route)
    with TestClient(app) as client:
        assert client.get("/openapi.json").status_code == 200
        return client.get("/").json()


LIBRARIES: dict[str, Callable[[Any], Any]] = {
    "json": lambda value: json.loads(json.dumps(value)),
    "json, indented": lambda value: json.loads(json.dumps({"a": [value]}, indent=1))["a"][0],
    "orjson": lambda value: orjson.loads(orjson.dumps(value)),
    "pydantic Any": lambda value: json.loads(TypeAdapter(Any).dump_json(value)),
    "pydantic, a field": lambda value: json.loads(Holder(anything=value, mapping=value).model_dump_json())[
        "anything"
    ],
    "pydantic, a mapping": lambda value: Holder(anything=None, mapping=value).model_dump()["mapping"],
    "pydantic, python": lambda value: Holder(anything=value, mapping={}).model_dump()["anything"],
    "FastAPI": web,
    "FastAPI Any": lambda value: web(value, Any),
    "FastAPI without a type": lambda value: web(value, None),
    "FastAPI jsonable_encoder": jsonable_encoder,
    "yaml.safe_dump": lambda value: yaml.safe_load(yaml.safe_dump(value)),
    "yaml.dump": lambda value: yaml.safe_load(yaml.dump(value)),
    "yaml, in C": lambda value: yaml.safe_load(yaml.dump(value, Dumper=yaml.CSafeDumper)),
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "pickle, protocol 2": lambda value: pickle.loads(pickle.dumps(value, 2)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "dict": dict,
    "unpacked": lambda value: {**value},
    "or": lambda value: value | {},
}


def talk() -> tuple[Conversation, dict[str, Any]]:
    """Return a conversation, and what checks of each kind gave."""
    pipeline = GuardrailPipeline(CONFIG)
    chat = Conversation.human_ai("ann", "m", rate_limit={"turns_per_minute": 3}, conversation_id="c1")
    results = {
        "redacted": pipeline.check_input("I am jane@example.com", chat),
        "passed": pipeline.check_output("Hello Jane", chat),
        "of a tool call": pipeline.check_tool_call("send", {"to": "jane@example.com"}, conversation=chat),
        "blocked": pipeline.check_input("About project x", chat),
    }
    pipeline.check_input("again", chat)
    results["rate limited"] = pipeline.check_input("once more", chat)
    results["joined"] = pipeline.check_messages(
        [
            {"role": "user", "content": "Mail her"},
            {
                "role": "assistant",
                "content": "Done",
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "send", "arguments": '{"a": "b@c.org"}'}}
                ],
            },
        ]
    )
    return chat, results


CHAT, RESULTS = talk()
VALUES: dict[str, Any] = {
    **{f"a result: {name}": result for name, result in RESULTS.items()},
    "details of a result": RESULTS["redacted"]["details"],
    "metadata of a turn": CHAT.turn(1).metadata,
    "what a turn keeps of its checks": CHAT.turn(1).metadata["guardrail_results"],
    "a conversation": CHAT.to_dict(),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", VALUES)
def test_a_result_is_written_as_itself(kind: str, library: str) -> None:
    value = VALUES[kind]
    expected = json.loads(json.dumps(value.to_dict() if isinstance(value, PipelineResult) else value))
    assert len(expected) > 1 and "to_dict" not in json.dumps(expected)
    assert LIBRARIES[library](value) == expected


def test_what_the_values_are() -> None:
    assert RESULTS["redacted"]["details"]["pii"]["redactions"][0]["placeholder"] == "[EMAIL]"
    assert RESULTS["redacted"]["details"]["drift"]["data"]["scores"].keys() >= {"reciprocity"}
    assert [part["pipeline_type"] for part in RESULTS["joined"]["parts"]] == ["output", "tool_call"]
    kept = CHAT.turn(1).metadata["guardrail_results"]
    assert kept["input"]["details"] == RESULTS["redacted"]["details"]
    assert CHAT.to_dict()["turns"][0]["metadata"]["guardrail_results"] == kept


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_a_copy_has_the_attributes_too(again: Callable[[Any], Any]) -> None:
    for result in RESULTS.values():
        copied = again(result)
        assert type(copied) is PipelineResult and copied == result
        assert copied.details == result.details and copied.outcome is result.outcome
        assert copied.parts == result.parts and repr(copied) == repr(result)


def test_a_pickle_holds_no_pipeline_and_no_text_that_was_redacted() -> None:
    for value in (*RESULTS.values(), CHAT):
        written = pickle.dumps(value)
        assert b"jane@example.com" not in written and b"b@c.org" not in written
        assert b"GuardrailPipeline" not in written and b"observers" not in written


def test_a_turn_and_its_conversation_are_pickled_and_copied_with_their_checks() -> None:
    for again in (copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))):
        chat = again(CHAT)
        assert chat.to_dict() == CHAT.to_dict()
        assert again(CHAT.turn(1)) == CHAT.turn(1)
    assert orjson.loads(orjson.dumps(CHAT.turn(1)))["metadata"] == CHAT.turn(1).metadata


def test_a_route_may_say_that_it_returns_a_result() -> None:
    assert web(RESULTS["blocked"], PipelineResult) == RESULTS["blocked"].to_dict()

    class Answer(BaseModel):
        result: PipelineResult

    answer = Answer(result=RESULTS["redacted"])
    assert answer.result is RESULTS["redacted"]
    assert json.loads(answer.model_dump_json())["result"] == RESULTS["redacted"].to_dict()


def test_metadata_follow_the_checks_of_their_turn() -> None:
    pipeline = GuardrailPipeline({"guardrails": [Contains("bad")]})
    chat = Conversation.human_ai("ann", "m")
    pipeline.check_input("Hello", chat, metadata={"page": 3})
    turn = chat.turn(1)
    assert turn.metadata["page"] == 3 and turn.metadata["guardrail_results"]["output"] is None
    turn.metadata["note"] = "mine"
    pipeline.check_output("so bad", chat)
    assert turn.metadata["guardrail_results"]["output"]["blocked"] is True
    assert (turn.metadata["note"], sorted(turn.metadata)) == ("mine", ["guardrail_results", "note", "page"])
    # What is written there is no verdict.
    turn.metadata["guardrail_results"]["output"]["blocked"] = False
    assert len(chat.to_messages()) == 1
    turn.metadata = {}
    assert chat.to_dict()["turns"][0]["metadata"] == {}


def test_data_of_a_guardrail_that_json_lacks_costs_no_verdict() -> None:
    class Odd(Guardrail):
        def check(self, check: Any) -> Finding:
            odd = {
                "what": object(),
                "how much": float("nan"),
                "in": {"a": (1, numpy.float64(2))},
                "by": Action.LOG,
            }
            return Finding(True, "odd", confidence=numpy.float64(0.5), data=odd)

    chat = Conversation()
    result = GuardrailPipeline({"guardrails": [Odd()]}).check_input("Hello", chat)
    (detail,) = orjson.loads(orjson.dumps(result))["details"].values()
    assert result.blocked and detail["data"] == {
        "what": "object",
        "how much": None,
        "in": {"a": [1, 2]},
        "by": "log",
    }
    assert yaml.safe_load(yaml.safe_dump(result)) == result
    assert chat.to_dict()["turns"][0]["metadata"]["guardrail_results"]["input"]["details"] == result["details"]


@pytest.mark.parametrize(
    ("which", "line"),
    [
        ("passed", "<PipelineResult: output passed>"),
        ("redacted", "<PipelineResult: input warned (redact by pii: 1 e-mail address)>"),
        ("of a tool call", "<PipelineResult: tool call warned (redact by pii: 1 e-mail address)>"),
        ("blocked", "<PipelineResult: input blocked (block by keywords: 'project x')>"),
        ("rate limited", "<PipelineResult: input limited (block by rate_limit: more than 3 turns per minute in"),
    ],
)
def test_a_result_prints_as_a_line(which: str, line: str) -> None:
    for text in (repr(RESULTS[which]), str(RESULTS[which]), f"{RESULTS[which]}"):
        assert text.startswith(line) and len(text.splitlines()) == 1
