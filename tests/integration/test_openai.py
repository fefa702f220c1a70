"""Clients of the real `openai` package behind the guard, in front of a model on the loopback interface."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from model_api import CALL, ModelServer, client_of, echo

from turnwise import Conversation, GuardrailPipeline
from turnwise.errors import GuardError
from turnwise.guard import GuardrailBlocked, MemoryStateStore

openai = pytest.importorskip("openai")
pytestmark = pytest.mark.integration

from turnwise.integrations.openai import guard  # noqa: E402

CONFIG = {
    "guardrails": [
        {"pii": {"action": "redact", "on": "all"}},
        {"keywords": {"keywords": ["acme"], "action": "block", "on": "all"}},
        {"drift": {"observer": "scripted:0.1,0.2,0.95,0.1,0.1,0.1", "block_at": 0.9}},
    ]
}
CLIENTS: list[Any] = []
"""Clients that are closed after a test."""

REFUSAL = "I can't help with that."


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer(echo) as server:
        yield server
        while CLIENTS:
            CLIENTS.pop().close()


def plain(model: ModelServer) -> Any:
    CLIENTS.append(client_of(openai.OpenAI, model.url))
    return CLIENTS[-1]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def asked(client: Any, messages: list[Any], **more: Any) -> Any:
    return client.chat.completions.create(model="m", messages=messages, **more)


def test_prompts_arrive_redacted_and_replies_come_back_redacted_with_the_verdict(model: ModelServer) -> None:
    client = guard(plain(model), GuardrailPipeline(CONFIG))
    model.answer = lambda body: {"role": "assistant", "content": "Ask bob@example.com."}
    reply = asked(client, [{"role": "system", "content": "Be brief."}, user("I am jane@example.com")])
    assert [message["content"] for message in model.requests[-1]["messages"]] == ["Be brief.", "I am [EMAIL]"]
    assert reply.choices[0].message.content == "Ask [EMAIL]."
    assert reply.turnwise_result.pipeline_type == "output" and reply.turnwise_result.turn_number == 1
    assert "turnwise_result" not in reply.model_dump()


def test_what_was_redacted_or_blocked_is_kept_from_the_model_later_too(model: ModelServer) -> None:
    client = guard(plain(model), GuardrailPipeline({"guardrails": CONFIG["guardrails"][:2]}), refusal=REFUSAL)
    messages: list[Any] = [user("I am jane@example.com")]
    for text in ("About acme", "How do splines work?"):
        messages.append(asked(client, messages).choices[0].message)
        messages.append(user(text))
    reply = asked(client, messages)
    told = [message["content"] for message in model.requests[-1]["messages"]]
    assert told == ["I am [EMAIL]", "You said: I am [EMAIL]", "How do splines work?"]
    assert "forged" not in reply.turnwise_result.details and reply.turnwise_result.turn_number == 3


def test_a_blocked_prompt_never_reaches_the_model(model: ModelServer) -> None:
    client = guard(plain(model), GuardrailPipeline(CONFIG))
    for more in ({}, {"stream": True}):
        with pytest.raises(GuardrailBlocked, match="keywords") as caught:
            asked(client, [user("Tell me about acme")], **more)
        assert caught.value.result.pipeline_type == "input"
    refusing = guard(plain(model), GuardrailPipeline(CONFIG), refusal=REFUSAL)
    reply = asked(refusing, [user("Tell me about acme")])
    assert (reply.choices[0].message.content, reply.choices[0].finish_reason) == (REFUSAL, "content_filter")
    assert reply.turnwise_result.blocked and not model.requests


def test_a_blocked_reply_is_an_exception_or_the_refusal(model: ModelServer) -> None:
    model.answer = lambda body: {"role": "assistant", "content": "Buy acme."}
    with pytest.raises(GuardrailBlocked, match="output was blocked"):
        asked(guard(plain(model), GuardrailPipeline(CONFIG)), [user("Hello")])
    reply = asked(guard(plain(model), GuardrailPipeline(CONFIG), refusal=REFUSAL), [user("Hello")])
    assert reply.choices[0].message.content == REFUSAL and reply.turnwise_result.blocked


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("store", [None, MemoryStateStore])
def test_a_drifting_conversation_is_stopped_where_the_library_stops_it(
    model: ModelServer, stream: bool, store: Any
) -> None:
    library, chat = GuardrailPipeline(CONFIG), Conversation()
    client = guard(plain(model), GuardrailPipeline(CONFIG, state_store=store and store()))
    messages: list[Any] = []
    own, guarded = [], []
    for turn in range(1, 6):
        checked = library.check_input(f"question {turn}", conversation=chat)
        own.append(checked.blocked)
        if not checked.blocked:
            library.check_output(f"You said: question {turn}", conversation=chat)
        messages.append(user(f"question {turn}"))
        try:
            reply = asked(client, messages, stream=stream)
            text = "".join(piece.choices[0].delta.content or "" for piece in reply) if stream else None
            messages.append({"role": "assistant", "content": text or reply.choices[0].message.content})
            guarded.append(False)
        except GuardrailBlocked as blocked:
            assert blocked.result.turn_number == turn
            messages.pop()
            guarded.append(True)
    assert guarded == own == [False, False, True, False, False]
    assert len(model.requests) == 4


def test_a_stream_shows_what_may_be_shown_as_it_comes(model: ModelServer) -> None:
    client = guard(plain(model), GuardrailPipeline(CONFIG))
    model.answer = lambda body: {"role": "assistant", "content": "Yes. " * 100 + "Write to bob@example.com."}
    with asked(client, [user("Whom?")], stream=True) as stream:
        pieces = [piece.choices[0] for piece in stream]
    assert "".join(piece.delta.content or "" for piece in pieces) == "Yes. " * 100 + "Write to [EMAIL]."
    assert len(pieces) > 8 and pieces[0].delta.role == "assistant" and pieces[-1].finish_reason == "stop"
    assert stream.turnwise_result.text.endswith("[EMAIL].")


def test_a_stream_that_is_blocked_ends_there(model: ModelServer) -> None:
    pipeline = GuardrailPipeline(CONFIG)
    model.answer = lambda body: {"role": "assistant", "content": "Yes. " * 100 + "Buy acme. " + "No. " * 100}
    stream = asked(guard(plain(model), pipeline), [user("Hello")], stream=True, conversation_id="c")
    shown = ""
    with pytest.raises(GuardrailBlocked):
        for piece in stream:
            shown += piece.choices[0].delta.content or ""
    assert shown.startswith("Yes.") and "acme" not in shown and stream.turnwise_result.blocked
    model.answer = lambda body: {"role": "assistant", "content": "Buy acme."}
    pieces = list(asked(guard(plain(model), pipeline, refusal=REFUSAL), [user("Hi")], stream=True))
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == REFUSAL
    assert pieces[-1].turnwise_result.blocked


def test_a_stream_that_nobody_reads_to_its_end_is_recorded_as_broken_off(model: ModelServer) -> None:
    pipeline = GuardrailPipeline(CONFIG)
    model.answer = lambda body: {"role": "assistant", "content": "Yes. " * 200}
    with asked(guard(plain(model), pipeline), [user("Hello")], stream=True) as stream:
        for piece in stream:
            if piece.choices[0].delta.content:
                break
    assert stream.turnwise_result.failures[0].startswith("dropped")


@pytest.mark.parametrize("text", [None, "I look."])
@pytest.mark.parametrize("stream", [False, True])
def test_calls_of_tools_and_their_results_are_checked(model: ModelServer, stream: bool, text: str | None) -> None:
    client = guard(plain(model), GuardrailPipeline(CONFIG))

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        if body["messages"][-1]["role"] == "tool":
            return dict(echo(body))
        mail = {**CALL, "function": {"name": "mail", "arguments": '{"to": "jane@example.com"}'}}
        return {"role": "assistant", "content": text, "tool_calls": [mail]}

    model.answer = answer
    messages: list[Any] = [user("Write to Jane.")]
    reply = asked(client, messages, stream=stream)
    if stream:
        pieces = [piece.choices[0] for piece in reply]
        calls = [call for piece in pieces for call in piece.delta.tool_calls or ()]
        assert "".join(piece.delta.content or "" for piece in pieces) == (text or "")
        assert pieces[-1].finish_reason == "tool_calls"
    else:
        calls = reply.choices[0].message.tool_calls
    assert [(call.id, call.function.arguments) for call in calls] == [("call_1", '{"to": "[EMAIL]"}')]
    kinds = [part.pipeline_type for part in reply.turnwise_result.parts] or [reply.turnwise_result.pipeline_type]
    assert kinds == (["output", "tool_call"] if text else ["tool_call"])
    raw = {"name": "mail", "arguments": '{"to": "[EMAIL]"}'}
    called = [{"id": "call_1", "type": "function", "function": raw}]
    messages.append({"role": "assistant", "content": text, "tool_calls": called})
    messages.append({"role": "tool", "tool_call_id": "call_1", "content": "sent to jane@example.com"})
    reply = asked(client, messages)
    assert model.requests[-1]["messages"][-1]["content"] == "sent to [EMAIL]"
    assert reply.turnwise_result.turn_number == 1 and "forged" not in reply.turnwise_result.details
    messages[-1]["content"] = "sent by acme"
    asked(client, messages)
    assert model.requests[-1]["messages"][-1]["content"] == "[tool result withheld]"
    assert model.requests[-1]["messages"][-2]["tool_calls"] == called


def test_a_call_with_what_is_blocked_in_it_is_withheld(model: ModelServer) -> None:
    raw = {"name": "search", "arguments": '{"for": "acme"}'}
    model.answer = lambda body: {"role": "assistant", "content": None, "tool_calls": [{**CALL, "function": raw}]}
    client = guard(plain(model), GuardrailPipeline(CONFIG), refusal=REFUSAL)
    reply = asked(client, [user("Look it up")])
    assert reply.choices[0].message.tool_calls is None and reply.choices[0].message.content == REFUSAL
    with pytest.raises(GuardrailBlocked, match="tool call"):
        list(asked(guard(plain(model), GuardrailPipeline(CONFIG)), [user("Look it up")], stream=True))


def test_several_replies_are_checked_each(model: ModelServer) -> None:
    client = guard(plain(model), GuardrailPipeline(CONFIG))
    reply = asked(client, [user("I am jane@example.com")], n=3)
    assert len(reply.turnwise_result.parts) == 3
    with pytest.raises(GuardError, match="n is 2"):
        asked(client, [user("Hello")], n=2, stream=True)


def test_async_clients_go_the_same_way(model: ModelServer) -> None:
    async def run() -> None:
        inner = client_of(openai.AsyncOpenAI, model.url)
        pipeline = GuardrailPipeline(CONFIG, state_store=MemoryStateStore())
        async with guard(inner, pipeline, refusal=REFUSAL) as client:
            messages: list[Any] = [user("I am jane@example.com")]
            reply = await asked(client, messages)
            assert reply.choices[0].message.content == "You said: I am [EMAIL]"
            messages += [reply.choices[0].message, user("Thanks")]
            stream = await asked(client, messages, stream=True)
            text = "".join([piece.choices[0].delta.content or "" async for piece in stream])
            assert text == "You said: Thanks" and stream.turnwise_result.turn_number == 2
            assert (await asked(client, [user("acme")])).choices[0].message.content == REFUSAL
            async with await asked(client, [user("Again")], stream=True) as stream:
                await anext(stream)
            assert stream.turnwise_result is None or stream.turnwise_result.blocked

    asyncio.run(run())


def test_what_is_parsed_is_parsed_from_what_may_be_seen(model: ModelServer) -> None:
    from pydantic import BaseModel

    class Person(BaseModel):
        mail: str

    model.answer = lambda body: {"role": "assistant", "content": '{"mail": "bob@example.com"}'}
    client = guard(plain(model), GuardrailPipeline(CONFIG))
    reply = client.chat.completions.parse(model="m", messages=[user("Who?")], response_format=Person)
    assert reply.choices[0].message.parsed == Person(mail="[EMAIL]")


def test_the_example_of_the_page_runs(
    model: ModelServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs/openai.md").read_text(encoding="utf-8")
    block, _ = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    monkeypatch.setenv("OPENAI_BASE_URL", model.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    names: dict[str, Any] = {}
    exec(compile(block, "docs/openai.md", "exec"), names)
    CLIENTS.append(names["client"].unguarded)
    assert "You said: I am [EMAIL]. Where is my order?" in capsys.readouterr().out


def test_what_would_go_past_the_guard_is_refused_and_the_rest_is_there(model: ModelServer) -> None:
    client = guard(plain(model), GuardrailPipeline(CONFIG))
    for past in (
        "client.responses.retrieve",
        "client.completions",
        "client.post",
        "client.chat.completions.stream",
    ):
        with pytest.raises(GuardError, match="not guarded"):
            eval(past, {"client": client})
    assert client.models.list().data == [] and client.api_key == "none"
    assert client.with_options(timeout=3).unguarded.timeout == 3
    with pytest.raises(GuardError, match="extra_body has messages"):
        asked(client, [user("Hello")], extra_body={"messages": [user("acme")]})
    with pytest.raises(GuardError, match="no client of openai"):
        guard(object(), GuardrailPipeline(CONFIG))  # type: ignore[call-overload]
