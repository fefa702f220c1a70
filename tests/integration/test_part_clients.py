"""OpenAI's Responses and Anthropic's Messages behind the guard, with the real packages and a local server."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from guard_rails import Raises
from model_api import ModelServer, call, fine, text, thinking

from turnwise import GuardrailPipeline
from turnwise.errors import GuardError
from turnwise.guard import GuardrailBlocked, MemoryStateStore

pytest.importorskip("openai")
pytest.importorskip("anthropic")
pytestmark = pytest.mark.integration

from part_doors import WAYS, Door  # noqa: E402

CONFIG = {
    "guardrails": [
        {"pii": {"action": "redact", "on": "all"}},
        {"keywords": {"keywords": ["acme"], "action": "block", "on": "all"}},
    ]
}
REFUSAL = "I can't help with that."
APIS = ("responses", "messages")
Make = Callable[..., Door]


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer(fine) as server:
        yield server


@pytest.fixture
def door(model: ModelServer) -> Iterator[Make]:
    doors: list[Door] = []

    def make(api: str, pipeline: GuardrailPipeline | None = None, refusal: str | None = None) -> Door:
        doors.append(Door(api, model, pipeline or GuardrailPipeline(CONFIG), refusal))
        return doors[-1]

    yield make
    for one in doors:
        one.close()


def sent(model: ModelServer) -> str:
    """What reached the model in the last request."""
    body = model.requests[-1]
    return json.dumps(body.get("input", body.get("messages")))


# Both


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("api", APIS)
def test_texts_and_calls_are_redacted_on_both_ways_and_so_is_thinking(
    model: ModelServer, door: Make, api: str, way: str
) -> None:
    mail = call("mail", {"to": "bob@example.com", "n": 1})
    model.answer = lambda body: [thinking("Is it ann@example.com?"), text("I write to bob@example.com."), mail]
    told = door(api).ask("I am jane@example.com", way)
    assert "jane@" not in sent(model) and "I am [EMAIL]" in sent(model)
    assert told.text == "I write to [EMAIL]." and told.calls == [("mail", {"to": "[EMAIL]", "n": 1})]
    assert "bob@" not in told.raw and "ann@" not in told.raw
    assert told.result is not None and told.result.turn_number == 1
    assert [part.pipeline_type for part in told.result.parts] == ["output", "tool_call"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("api", APIS)
def test_what_is_clean_comes_as_it_was_said(model: ModelServer, door: Make, api: str, way: str) -> None:
    model.answer = lambda body: [thinking("A greeting."), text("Yes. " * 60), call("look", {"for": "splines"})]
    told = door(api).ask("Hello", way)
    assert told.text == "Yes. " * 60 and told.calls == [("look", {"for": "splines"})]
    assert "A greeting." in told.raw
    if way.endswith("stream"):
        assert told.raw.count("Yes") > 20  # it came in pieces
    if api == "messages":
        assert told.reply.content[0].signature == "c2lnbmVk"


BAD = {
    "reply": [text("Yes. " * 80 + "Buy acme. " + "No. " * 80)],
    "short reply": [text("Buy acme.")],
    "call": [text("I look."), call("search", {"for": "acme"})],
    "call alone": [call("search", {"for": "acme"})],
    "thinking": [thinking("They want acme."), text("Fine.")],
    "second text": [text("Fine."), {**text("Buy acme."), "joins": True}],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("api", APIS)
def test_what_is_blocked_never_reaches_the_caller(model: ModelServer, door: Make, api: str, way: str) -> None:
    for where, parts in BAD.items():
        model.answer = lambda body, parts=parts: parts
        with pytest.raises(GuardrailBlocked, match="keywords"):
            door(api).ask("Hello", way)
        told = door(api, refusal=REFUSAL).ask("Hello", way)
        assert "acme" not in told.raw and not told.calls, where
        assert told.result is not None and told.result.blocked
        shown = where == "reply" and not way.endswith("create")
        assert told.text.startswith("Yes.") if shown else told.text.endswith(REFUSAL), where
        told_end = told.reply.incomplete_details.reason if api == "responses" else told.reply.stop_reason
        assert told_end == ("content_filter" if api == "responses" else "refusal")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("api", APIS)
def test_a_blocked_prompt_never_reaches_the_model(model: ModelServer, door: Make, api: str, way: str) -> None:
    with pytest.raises(GuardrailBlocked, match="the input was blocked"):
        door(api).ask("Tell me about acme", way)
    told = door(api, refusal=REFUSAL).ask("Tell me about acme", way)
    assert told.text == REFUSAL and told.result is not None and told.result.blocked and not model.requests


@pytest.mark.parametrize("api", APIS)
def test_pieces_make_no_difference_to_the_verdict(model: ModelServer, door: Make, api: str) -> None:
    draw = random.Random(7)
    said = ["Yes, of course. ", "Write to bob@example.com. ", "Call +1 202-555-0143. ", "It is late. "]
    differing = []
    first, second = door(api, refusal=REFUSAL), door(api, refusal=REFUSAL)
    for seed in range(200):
        words = [
            draw.choice([*said, "Buy acme. "] if draw.random() < 0.3 else said) for _ in range(draw.randint(1, 9))
        ]
        parts = [text("".join(words))]
        if draw.random() < 0.3:
            parts.insert(0, thinking(draw.choice(said)))
        if draw.random() < 0.3:
            parts.append({**text(draw.choice(said)), "joins": draw.random() < 0.5})
        if draw.random() < 0.4:
            parts.append(
                call("mail", {"to": draw.choice(["bob@example.com", "Bob", "acme" if seed % 5 else "x"])})
            )
        model.answer = lambda body, parts=parts: parts
        model.cut.seed(seed)
        whole = first.ask(f"Hello {seed}", "create")
        pieces = second.ask(f"Hello {seed}", draw.choice(["stream", "helper", "async stream"]))
        assert whole.result is not None and pieces.result is not None
        verdicts = [
            (
                one.blocked,
                [] if one.blocked else one.warnings,
                {reason.partition(":")[0] for reason in one.reasons},
            )
            for one in (whole.result, pieces.result)
        ]
        same = verdicts[0] == verdicts[1] and whole.calls == pieces.calls
        shown = pieces.text == whole.text or (whole.result.blocked and "acme" not in pieces.raw)
        if not (same and shown and "bob@" not in pieces.raw):
            differing.append((seed, parts, whole, pieces))
    assert not differing, differing[0]


@pytest.mark.parametrize("api", APIS)
def test_a_guardrail_that_fails_takes_its_path(model: ModelServer, door: Make, api: str) -> None:
    for way in ("create", "stream", "helper"):
        for on_error in ("block", "allow"):
            rail = {"use": Raises(), "name": "odd", "on": "output", "on_error": on_error}
            pipeline = GuardrailPipeline({"guardrails": [rail]})
            if on_error == "block":
                with pytest.raises(GuardrailBlocked, match="odd"):
                    door(api, pipeline).ask("Hello", way)
            else:
                told = door(api, pipeline).ask("Hello", way)
                assert told.text == "Fine." and told.result is not None and told.result.failures


@pytest.mark.parametrize("way", ["stream", "async stream"])
@pytest.mark.parametrize("api", APIS)
def test_a_stream_that_breaks_off_is_recorded_and_shows_no_more(
    model: ModelServer, door: Make, api: str, way: str
) -> None:
    model.answer = lambda body: [text("Yes. " * 200), call("mail", {"to": "Bob"})]
    model.breaks_off = True
    part = getattr(door(api).client, api)
    with part.create(**door(api).given("Hello"), stream=True) as stream:
        events = list(stream)
    assert "mail" not in str(events)
    assert stream.turnwise_result is not None and stream.turnwise_result.failures[0].startswith("dropped")


@pytest.mark.parametrize("api", APIS)
def test_a_stream_that_nobody_reads_to_its_end_is_recorded_as_broken_off(
    model: ModelServer, door: Make, api: str
) -> None:
    model.answer = lambda body: [text("Yes. " * 400)]
    one = door(api)
    for part in (
        lambda: getattr(one.client, api).create(**one.given("Hello"), stream=True),
        lambda: getattr(one.client, api).stream(**one.given("Hello")),
    ):
        with part() as stream:
            for event in stream:
                if "delta" in event.type and "Yes" in str(event):
                    break
        result = getattr(stream, "guarded", stream).turnwise_result
        assert result is not None and result.failures[0].startswith("dropped")


@pytest.mark.parametrize("api", APIS)
def test_async_streams_can_be_left_early(model: ModelServer, door: Make, api: str) -> None:
    model.answer = lambda body: [text("Yes. " * 400)]
    one = door(api)

    async def leave(helper: bool) -> Any:
        async with one.later() as client:
            part = getattr(client, api)
            given = one.given("Hello")
            opened = part.stream(**given) if helper else await part.create(**given, stream=True)
            async with opened as stream:
                async for event in stream:
                    if "delta" in event.type and "Yes" in str(event):
                        break
            return getattr(stream, "guarded", stream).turnwise_result

    for helper in (False, True):
        assert asyncio.run(leave(helper)).failures[0].startswith("dropped")


@pytest.mark.parametrize("api", APIS)
def test_what_would_go_past_the_guard_is_refused(model: ModelServer, door: Make, api: str) -> None:
    one = door(api)
    client, part = one.client, getattr(one.client, api)
    past = {
        "responses": ("retrieve", "cancel", "compact", "connect", "input_items", "with_raw_response"),
        "messages": ("batches", "with_raw_response", "with_streaming_response"),
    }[api]
    for name in past:
        with pytest.raises(GuardError, match="not guarded"):
            getattr(part, name)
    with pytest.raises(GuardError, match="not guarded"):
        client.beta  # noqa: B018
    with pytest.raises(GuardError, match="extra_body"):
        one.ask("Hello", extra_body={"input": "acme", "messages": []})
    assert client.with_options(timeout=3).unguarded.timeout == 3 and not model.requests


@pytest.mark.parametrize("api", APIS)
def test_what_is_parsed_is_parsed_from_what_may_be_seen(model: ModelServer, door: Make, api: str) -> None:
    from pydantic import BaseModel

    class Person(BaseModel):
        mail: str

    model.answer = lambda body: [text('{"mail": "bob@example.com"}')]
    one = door(api)
    kind = {"text_format": Person} if api == "responses" else {"output_format": Person}
    reply = getattr(one.client, api).parse(**one.given("Who?"), **kind)
    parsed = reply.output_parsed if api == "responses" else reply.parsed_output
    assert parsed == Person(mail="[EMAIL]") and reply.turnwise_result.turn_number == 1


@pytest.mark.parametrize("page", ["openai", "anthropic"])
def test_the_examples_of_the_pages_run(
    model: ModelServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], page: str
) -> None:
    said = (Path(__file__).parents[2] / f"docs/{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", said, flags=re.DOTALL)
    for name, url in (("OPENAI", model.url), ("ANTHROPIC", model.root)):
        monkeypatch.setenv(f"{name}_BASE_URL", url)
        monkeypatch.setenv(f"{name}_API_KEY", "none")
    names: dict[str, Any] = {}
    if page == "openai":
        setup = blocks[0].partition("messages = ")[0]
        blocks = [setup, blocks[1]]
    exec(compile("\n".join(blocks), page, "exec"), names)
    names["client"].unguarded.close()
    assert capsys.readouterr().out == ("Fine. 2\n" if page == "openai" else "Fine. []\n")
    assert "jane@" not in json.dumps(model.requests) and "I am [EMAIL]" in json.dumps(model.requests)


# Responses


def test_input_that_is_clean_arrives_as_it_was_given(model: ModelServer, door: Make) -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}
    items = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "Look:"}, picture]},
    ]
    told = door("responses").ask(items, instructions="Be kind.")
    assert model.requests[-1]["input"] == items and model.requests[-1]["instructions"] == "Be kind."
    assert told.result is not None and told.result.turn_number == 1
    several = [{"role": "user", "content": [{"type": "input_text", "text": one} for one in ("I am", "a@b.com")]}]
    door("responses").ask(several)
    assert [part["text"] for part in model.requests[-1]["input"][0]["content"]] == ["I am", "[EMAIL]"]


@pytest.mark.parametrize("way", WAYS)
def test_a_chain_of_responses_goes_on_by_their_ids(model: ModelServer, door: Make, way: str) -> None:
    one = door("responses", GuardrailPipeline(CONFIG, state_store=MemoryStateStore()), refusal=REFUSAL)
    model.answer = lambda body: [text("Buy acme." if "Reply" in str(body["input"]) else "Fine.")]
    numbers, last = [], None
    for said in ("I am jane@example.com", "About acme", "Reply badly", "And now?"):
        more = {} if last is None else {"previous_response_id": last}
        told = one.ask(said, way, **more)
        assert told.result is not None
        numbers.append((told.result.turn_number, told.result.blocked, told.result.conversation_id))
        last = told.reply.id
    assert [one[:2] for one in numbers] == [(1, False), (2, True), (3, True), (4, False)]
    assert len({one[2] for one in numbers}) == 1
    history = model.history(last)
    assert "I am [EMAIL]" in history and "And now?" in history
    assert "acme" not in history and "jane@" not in history and "Reply badly" not in history


def test_after_an_exception_the_chain_goes_on_from_the_response_before(model: ModelServer, door: Make) -> None:
    one = door("responses")
    first = one.ask("Hello")
    with pytest.raises(GuardrailBlocked):
        one.ask("About acme", previous_response_id=first.reply.id)
    third = one.ask("And now?", previous_response_id=first.reply.id)
    assert first.result is not None and third.result is not None
    assert (third.result.conversation_id, third.result.turn_number) == (first.result.conversation_id, 3)


def test_a_response_of_another_process_is_known_by_the_state_store_or_told_of(
    model: ModelServer, door: Make
) -> None:
    store = MemoryStateStore()
    first = door("responses", GuardrailPipeline(CONFIG, state_store=store)).ask("Hello")
    shared = door("responses", GuardrailPipeline(CONFIG, state_store=store))
    told = shared.ask("And now?", previous_response_id=first.reply.id)
    assert told.result is not None and told.result.turn_number == 2
    apart = door("responses")
    with pytest.raises(GuardError, match=r"previous_response_id 'resp_1' is not known here.*state store"):
        apart.ask("And now?", previous_response_id=first.reply.id)
    begun = apart.ask("And now?", previous_response_id=first.reply.id, conversation_id="chat-7")
    assert begun.result is not None and begun.result.conversation_id == "chat-7"
    again = apart.ask("And then?", previous_response_id=begun.reply.id, conversation_id="chat-7")
    assert again.result is not None and again.result.turn_number == 2


@pytest.mark.parametrize("way", WAYS)
def test_a_blocked_reply_is_taken_out_of_a_conversation_that_the_server_keeps(
    model: ModelServer, door: Make, way: str
) -> None:
    one = door("responses", GuardrailPipeline(CONFIG, state_store=MemoryStateStore()), refusal=REFUSAL)
    model.answer = lambda body: [
        thinking("Hm."),
        text("Buy acme. " + "No. " * 99) if len(model.requests) == 2 else text("Ok."),
    ]
    results = [one.ask(said, way, conversation="conv_1").result for said in ("Hello", "Reply", "And now?")]
    assert [result.turn_number for result in results if result] == [1, 2, 3]
    assert [result.blocked for result in results if result] == [False, True, False]
    assert model.deleted == [f"/v1/conversations/conv_1/items/{name}" for name in ("rs_0", "msg_1")]


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_calls_and_their_outputs_go_round(model: ModelServer, door: Make, way: str, held: bool) -> None:
    one = door("responses", GuardrailPipeline(CONFIG, state_store=MemoryStateStore()))
    rounds = iter(["sent to jane@example.com", "acme says no", "done"])

    def answer(body: dict[str, Any]) -> list[Any]:
        n = len(model.requests)
        return (
            [thinking("Hm."), text("I mail."), call("mail", {"n": n}, f"call_{n}")] if n < 4 else [text("Done.")]
        )

    model.answer = answer
    items: list[Any] = [{"role": "user", "content": "Write to Jane."}]
    told = one.ask(items, way)
    for output in rounds:
        result = {"type": "function_call_output", "call_id": f"call_{len(model.requests)}", "output": output}
        if held:
            told = one.ask([result], way, previous_response_id=told.reply.id)
        else:
            items += [*told.reply.output, result]
            told = one.ask(items, way)
        assert told.result is not None and told.result.turn_number == 1
        assert "forged" not in told.result.details
    bodies = [
        item for body in model.requests for item in body["input"] if item.get("type") == "function_call_output"
    ]
    outputs = list(dict.fromkeys(item["output"] for item in bodies))
    assert outputs == ["sent to [EMAIL]", "[tool result withheld]", "done"] and told.text == "Done."
    if not held:
        kinds = [item.get("type") for item in model.requests[-1]["input"]]
        assert kinds == [None, *["reasoning", "message", "function_call", "function_call_output"] * 3]


def test_each_new_item_is_checked_where_the_server_has_the_rest(model: ModelServer, door: Make) -> None:
    one = door("responses")
    model.answer = lambda body: [call("look", {})] if len(model.requests) == 1 else [text("Fine.")]
    first = one.ask("Look it up")
    output = {"type": "function_call_output", "call_id": "call_1", "output": "acme, bob@example.com"}
    told = one.ask([output, {"role": "user", "content": "And?"}], previous_response_id=first.reply.id)
    assert [item.get("output") or item["content"] for item in model.requests[-1]["input"]] == [
        "[tool result withheld]",
        "And?",
    ]
    assert told.result is not None and told.result.turn_number == 2
    with pytest.raises(GuardrailBlocked):
        many = [{"role": "user", "content": said} for said in ("About acme", "Hello")]
        one.ask(many, previous_response_id=told.reply.id)


def test_items_that_are_no_messages_are_checked_too(model: ModelServer, door: Make) -> None:
    one = door("responses")
    shell = {
        "type": "shell_call_output",
        "call_id": "c",
        "output": [{"stdout": "ask bob@example.com please", "stderr": ""}],
    }
    one.ask([{"role": "user", "content": "Run it"}, shell])
    assert "ask [EMAIL] please" in sent(model) and "bob@" not in sent(model)
    with pytest.raises(GuardrailBlocked):
        one.ask("Hello", prompt={"id": "p", "variables": {"name": "the firm acme here"}})
    ran = {"type": "mcp_call", "id": "mcp_1", "name": "read", "server_label": "s", "arguments": "{}"}
    model.answer = lambda body: [{"kind": "item", "item": {**ran, "output": "it is acme again"}}, text("Fine.")]
    for way in ("create", "stream"):
        with pytest.raises(GuardrailBlocked, match="output"):
            one.ask("Read it", way)


def test_what_was_blocked_is_left_out_of_later_items(model: ModelServer, door: Make) -> None:
    one = door("responses", refusal=REFUSAL)
    replies = {"Reply badly": "Buy acme.", "Call badly": "acme"}

    def answer(body: dict[str, Any]) -> list[Any]:
        last = body["input"][-1]["content"]
        if last == "Call badly":
            return [thinking("Hm."), call("search", {"for": "acme"})]
        return [thinking("Hm."), text(replies.get(last, "Fine, bob@example.com."))]

    model.answer = answer
    items: list[Any] = []
    for said in (
        "I am jane@example.com",
        "About acme",
        "Reply badly",
        "Call badly",
        "I am bob@example.com",
        "Bye",
    ):
        items.append({"role": "user", "content": said})
        told = one.ask(items)
        items += told.reply.output
        assert "acme" not in sent(model) and "@" not in sent(model)
    assert told.result is not None and told.result.turn_number == 6
    asked = [item["content"] for item in model.requests[-1]["input"] if item.get("role") == "user"]
    assert asked[0] == "I am [EMAIL]" and asked[-2:] == ["I am [EMAIL]", "Bye"]


def test_a_list_that_begins_with_what_was_blocked_goes_on_without_it(model: ModelServer, door: Make) -> None:
    one = door("responses", refusal=REFUSAL)
    said: list[Any] = [{"role": "user", "content": "About acme"}]
    one.ask(said)
    refused = {"role": "assistant", "content": REFUSAL}
    one.ask([*said, refused, {"role": "user", "content": "I am jane@example.com"}])
    assert model.requests[-1]["input"] == [{"role": "user", "content": "I am [EMAIL]"}]


def test_a_reply_that_raised_is_left_out_before_what_is_redacted(model: ModelServer, door: Make) -> None:
    one = door("responses")
    said: list[Any] = [{"role": "user", "content": "Hello"}]
    model.answer = lambda body: [text("Buy acme.")]
    with pytest.raises(GuardrailBlocked):
        one.ask(said)
    model.answer = fine
    blocked = {"role": "assistant", "content": "Buy acme."}
    one.ask([*said, blocked, {"role": "user", "content": "I am jane@example.com"}])
    assert model.requests[-1]["input"] == [*said, {"role": "user", "content": "I am [EMAIL]"}]


@pytest.mark.parametrize("way", ["create", "stream"])
def test_a_reply_with_blocked_reasoning_is_refused_and_the_chain_goes_on(
    model: ModelServer, door: Make, way: str
) -> None:
    one = door("responses", refusal=REFUSAL)
    model.answer = lambda body: [thinking("It is acme." if len(model.requests) == 2 else "Hm."), text("Ok.")]
    last, results = None, []
    for said in ("Hello", "And?", "Now?"):
        told = one.ask(said, way, **({} if last is None else {"previous_response_id": last}))
        last = told.reply.id
        results.append((told.result and told.result.blocked, told.text))
    assert results == [(False, "Ok."), (True, REFUSAL), (False, "Ok.")] and told.result is not None
    assert told.result.turn_number == 3 and "acme" not in model.history(last)


@pytest.mark.parametrize("way", ["create", "stream", "helper"])
def test_probabilities_of_tokens_do_not_spell_what_was_replaced(model: ModelServer, door: Make, way: str) -> None:
    spelled = [{"token": "bob@example.com", "bytes": [], "logprob": 0.0, "top_logprobs": []}]
    model.answer = lambda body: [{**text("Ask bob@example.com."), "logprobs": spelled}]
    assert "bob@" not in door("responses").ask("Hello", way).raw


def test_a_response_in_the_background_is_refused(model: ModelServer, door: Make) -> None:
    with pytest.raises(GuardError, match="background"):
        door("responses").ask("Hello", background=True)
    with (
        pytest.raises(GuardError, match="not guarded"),
        door("responses").client.responses.stream(response_id="r"),
    ):
        pass


def test_a_refusal_of_the_model_is_checked(model: ModelServer, door: Make) -> None:
    model.answer = lambda body: [{"kind": "refusal", "text": "No, ask bob@example.com."}]
    for way in ("create", "stream", "helper"):
        told = door("responses").ask("Hello", way)
        assert "No, ask [EMAIL]." in told.raw and "bob@" not in told.raw


# Messages


@pytest.mark.parametrize("way", WAYS)
def test_tools_go_round_in_anthropics_shape(model: ModelServer, door: Make, way: str) -> None:
    one = door("messages")
    outputs = iter(["sent to jane@example.com", "acme says no", "done"])

    def answer(body: dict[str, Any]) -> list[Any]:
        n = len(model.requests)
        return [thinking("Hm."), text("I mail."), call("mail", {"n": n}, f"t{n}")] if n < 4 else [text("Done.")]

    model.answer = answer
    messages: list[Any] = [{"role": "user", "content": "Write to jane@example.com."}]
    told = one.ask(messages, way, system="Be kind.")
    for output in outputs:
        content = [
            {"type": "text", "text": output},
            {"type": "image", "source": {"type": "url", "url": "https://x.org/a.png"}},
        ]
        result = {"type": "tool_result", "tool_use_id": f"t{len(model.requests)}", "content": content}
        messages += [{"role": "assistant", "content": told.reply.content}, {"role": "user", "content": [result]}]
        told = one.ask(messages, way, system="Be kind.")
        assert told.result is not None and told.result.turn_number == 1
        assert "forged" not in told.result.details
    body = model.requests[-1]
    assert body["system"] == "Be kind." and body["messages"][0]["content"] == "Write to [EMAIL]."
    results = [message["content"][0]["content"] for message in body["messages"][2::2]]
    assert [[part.get("text") for part in one] for one in results] == [
        ["sent to [EMAIL]", None],
        ["[tool result withheld]"],
        ["done", None],
    ]
    for message in body["messages"][1::2]:
        assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use"]
        assert message["content"][0] == {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"}
    assert told.text == "Done."


def test_what_was_blocked_is_left_out_of_later_requests(model: ModelServer, door: Make) -> None:
    one = door("messages", refusal=REFUSAL)
    messages: list[Any] = []
    for said in ("I am jane@example.com", "About acme", "Hello again"):
        messages.append(
            {"role": "user", "content": [{"type": "text", "text": said, "cache_control": {"type": "ephemeral"}}]}
        )
        told = one.ask(messages)
        messages.append({"role": "assistant", "content": told.reply.content})
    assert [message["role"] for message in model.requests[-1]["messages"]] == ["user", "assistant", "user"]
    first = model.requests[-1]["messages"][0]["content"]
    assert first == [{"type": "text", "text": "I am [EMAIL]", "cache_control": {"type": "ephemeral"}}]
    assert "acme" not in sent(model) and REFUSAL not in sent(model)
    assert told.result is not None and told.result.turn_number == 3


def test_pictures_are_told_of_as_unread(model: ModelServer, door: Make) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    asked = [{"role": "user", "content": [{"type": "text", "text": "Look:"}, picture]}]
    door("messages").ask(asked)
    assert model.requests[-1]["messages"] == asked
    strict = GuardrailPipeline({**CONFIG, "on_unread": "block"})
    with pytest.raises(GuardrailBlocked, match="image"):
        door("messages", strict).ask(asked)
