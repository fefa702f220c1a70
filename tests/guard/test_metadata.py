"""What the guard kept, read back: live, from a file, and from a file that somebody changed."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from guard_rails import Contains

from turnwise import analyze_conversation_forensics
from turnwise.cli.guard_replay import print_analysis
from turnwise.conversation import Conversation
from turnwise.errors import GuardError, TurnwiseError
from turnwise.forensics import forensics_page, in_words
from turnwise.guard import GuardrailPipeline

CHECK = {"blocked": False, "timestamp": "2025-01-01T12:00:00", "details": {}}
DRIFT = {"status": "evaluated", "data": {"detector": "cusum", "score": 1, "scores": {}}}


def checked() -> dict[str, Any]:
    """Return a conversation as JSON values that has everything that a guard keeps."""
    drift = {"observer": "scripted:0.1,0.9,0.2", "detector": "cusum:drift=0.2", "block_at": 0.5, "on": "input"}
    pipeline = GuardrailPipeline(
        {"guardrails": [Contains("bad"), {"pii": {"action": "redact"}}, {"drift": drift}]}
    )
    chat = Conversation("ann", "bot", rate_limit={"turns_per_minute": 3}, conversation_id="c1")
    for text in ("I am bob@example.com", "a bad one", "fine", "one too many"):
        pipeline.check_input(text, conversation=chat)
    pipeline.check_output("well", conversation=chat)
    return json.loads(json.dumps(chat.to_dict()))


def with_results(value: Any) -> Conversation:
    chat = Conversation.from_turns([("Hello", None)])
    chat.turn(1).metadata["guardrail_results"] = value
    return chat


def changed(data: Any, key: str, value: Any) -> Any:
    """Return a copy with the value of a dotted key replaced."""
    data = copy.deepcopy(data)
    at = data
    *way, last = key.split(".")
    for part in way:
        at = at[part]
    at[last] = value
    return data


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("text", "turn 1: guardrail_results is 'text', not an object with keys"),
        ({"input": "text"}, "guardrail_results.input is 'text', not an object with keys"),
        ({"input": {}}, "guardrail_results.input.blocked is missing; it has to be true or false"),
        ({"input": {**CHECK, "blocked": "yes"}}, "input.blocked is 'yes', not true or false"),
        ({"input": {**CHECK, "timestamp": "yesterday"}}, "input.timestamp is 'yesterday', not a time such as"),
        ({"output": {**CHECK, "stance": 3}}, "output.stance is 3, not an object with keys"),
        ({"output": {**CHECK, "stance": {"mode": "odd"}}}, "output.stance.mode is 'odd', not 'normal', "),
        ({"input": {**CHECK, "details": {"a": {}}}}, "a.status is missing; it has to be 'evaluated', "),
        ({"input": {**CHECK, "details": {"a b": 1}}}, "input.details.'a b' is 1, not an object with keys"),
        (
            {"input": {**CHECK, "details": {"a": {"status": "evaluated", "redactions": [{"start": -1}]}}}},
            "input.details.a.redactions[0].start is -1, not greater than or equal to 0",
        ),
        (
            {"input": {**CHECK, "details": {"a": {"status": "evaluated", "confidence": 10**400}}}},
            "input.details.a.confidence is a whole number of more than 40 digits, not a number",
        ),
        (
            {"input": {**CHECK, "details": {"d": changed(DRIFT, "data.score", "high")}}},
            "input.details.d.data.score is 'high', not a number",
        ),
        (
            {"input": {**CHECK, "details": {"d": changed(DRIFT, "data.scores", {"a": {"T": 9}})}}},
            "input.details.d.data.scores.a.T is 9, not less than or equal to 1",
        ),
    ],
)
def test_what_can_not_be_read_is_one_error_that_says_what_and_where(value: Any, told: str) -> None:
    with pytest.raises(GuardError) as error:
        analyze_conversation_forensics(with_results(value))
    assert told in str(error.value)
    assert str(error.value).startswith("turn 1: guardrail_results")


@pytest.mark.parametrize("value", [None, {}, {"input": None, "output": None}])
def test_nothing_kept_is_no_check(value: Any) -> None:
    assert analyze_conversation_forensics(with_results(value))["totals"]["checks"] == 0


def test_live_checks_and_those_of_a_file_read_alike() -> None:
    analysis = analyze_conversation_forensics(Conversation.from_dict(checked()))
    checks = [one for one in analysis["timeline"] if one["kind"] == "check"]
    assert sorted((one["turn_number"], one["pipeline_type"], one["blocked"]) for one in checks) == [
        (1, "input", False),
        (1, "output", False),
        (2, "input", True),
        (3, "input", False),
    ]
    assert checks[0]["redacted"] == ["pii"]
    [latest] = analysis["rate_limits"]["latest"]
    assert (analysis["rate_limits"]["count"], latest["scope"], latest["after_turn"]) == (1, "conversation", 3)


def test_checks_of_a_file_stay_as_they_are_beside_a_later_one() -> None:
    data = checked()
    data["turns"] = data["turns"][:1]
    chat = Conversation.from_dict(data)
    GuardrailPipeline({"guardrails": [Contains("bad")]}).check_context("a document", conversation=chat)
    before, after = data["turns"][0]["metadata"]["guardrail_results"], chat.turn(1).metadata["guardrail_results"]
    assert len(after["document"]) == 1
    assert (after["input"], after["output"]) == (before["input"], before["output"])


@pytest.mark.parametrize("refused", ["text", {"latest": 3}, {"latest": [{"timestamp": 5}]}, {"count": "many"}])
def test_refused_prompts_that_can_not_be_read_are_told(refused: Any) -> None:
    chat = Conversation(metadata={"rate_limit_events": refused}, rate_limit={"turns_per_minute": 1})
    with pytest.raises(GuardError, match=r"^metadata\.rate_limit_events"):
        analyze_conversation_forensics(chat)
    # A live check goes on all the same.
    guard = GuardrailPipeline({"guardrails": [Contains("bad")]})
    assert [guard.check_input("hello", conversation=chat).rate_limited for _ in range(2)] == [False, True]


@pytest.mark.parametrize("before", ["text", {"input": 5}, {"input": {"blocked": False}}, {"input": CHECK}])
def test_a_response_is_checked_whatever_stands_there_of_its_prompt(before: Any) -> None:
    chat = with_results(before)
    GuardrailPipeline({"guardrails": [Contains("bad")]}).check_output("so bad", conversation=chat)
    results = chat.turn(1).metadata["guardrail_results"]
    assert results["blocked"] is results["output"]["blocked"] is True
    assert (results["input"] is None) == (before != {"input": CHECK})


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container with a key of it, from the outside in."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(inside):
        yield value, key
        yield from places(item)


FORGED: tuple[Callable[[Any], Any], ...] = (
    lambda _: None,
    lambda _: True,
    lambda _: -1,
    lambda _: 10**400,
    lambda _: 1e308,
    lambda _: "",
    lambda _: "\ud800\x1b[2J\u202e",
    lambda _: [],
    lambda _: {},
    lambda value: [value],
    lambda value: {"input": value, "kind": "check", "detector": "cusum", "score": value},
    str,
    lambda value: not value,
    lambda value: value * 2 if isinstance(value, str | list) else value,
)


def test_forged_json_never_gives_a_traceback() -> None:
    """Any field dropped, flipped or of another type: an analysis, or one clear error."""
    original, refused, drawn = checked(), 0, False
    pipeline = GuardrailPipeline({"guardrails": [Contains("bad")]})
    for case in range(250):
        rng = random.Random(f"forged {case}")
        data = copy.deepcopy(original)
        for _ in range(rng.choice((1, 1, 2, 5))):
            container, key = rng.choice(list(places(data)))
            if rng.random() < 0.25:
                del container[key]
            else:
                container[key] = rng.choice(FORGED)(container[key])
        try:
            chat = Conversation.from_dict(data)
            analysis = analyze_conversation_forensics(chat)
        except TurnwiseError as error:
            refused += 1
            assert len(str(error).splitlines()) == 1
            continue
        json.dumps(analysis, allow_nan=False)
        assert in_words(analysis)
        if case % 8 == 0:  # drawing tables takes longer than all the rest
            print_analysis(analysis)
        if not drawn and case > 7:
            drawn = bool(forensics_page(chat, analysis))
        pipeline.check_input("again", conversation=chat)
    assert 25 < refused < 235
    assert drawn
