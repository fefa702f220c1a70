"""Responses that come in pieces: what is shown was checked, and the verdict is that of the whole text."""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import json
import logging
from asyncio import CancelledError
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise import Conversation, GuardrailPipeline
from turnwise.errors import GuardError
from turnwise.guard import CLEAN, Check, Finding, Guardrail, Outcome


def examples(name: str) -> ModuleType:
    path = Path(__file__).with_name("guardrails") / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"stream_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LEAD = "We had a look at what you wrote, and there is nothing that we would add to it by now. " * 6
TAIL = " That is all that we know so far, and we hope that it helps you to go on with your work today." * 6
PII = [text for text, _ in examples("pii_examples").FOUND]
KEYS = [text for _, text in examples("test_secrets").KEYS]
CARD = "4111 1111 1111 1111"
OTHERS = [
    "the plans of Project\n  X are not for you, nor those of " + "Acme",
    "it says " + base64.b64encode(f"my card is {CARD}".encode() * 9).decode(),
    "it says " + " ".join(f"{code:02x}" for code in f"card {CARD}".encode() * 4),
    "in lines\n" + "\n".join([base64.b64encode(b"mail jane@example.com to us ok. " * 3).decode()[:64]] * 9),
    "number " + " ".join("4111111111111111"),
    "key " + " ".join("AKIA" + "QZ7XW2PLM4NB6VCK"),
    "card 41111111" + "\u200b" * 400 + "11111111",
    "write to jane dot doe at example dot com",
    "我的卡号是4111111111111111，谢谢。" * 9,
    "see http://evil.example/login and hxxp://evil[.]example/x",
]


@pytest.fixture(scope="module")
def redacting() -> GuardrailPipeline:
    return GuardrailPipeline(
        {
            "guardrails": [
                {"secrets": {"action": "redact"}},
                {"pii": {"action": "redact"}},
                {"keywords": {"keywords": ["project x", "Acme"], "action": "redact"}},
                {"urls": {"deny": ["evil.example"], "action": "redact"}},
            ]
        }
    )


def pieces_of(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


def assert_same(pipeline: GuardrailPipeline, whole: str, pieces: Iterable[str]) -> None:
    """Whatever is shown at any moment begins the checked text of the whole, and all of it is the checked text."""
    stream, shown = pipeline.stream_output(), ""
    for piece in pieces:
        shown += stream.feed(piece)
        assert whole.startswith(shown), shown[-60:]
    result = stream.end()
    assert shown + stream.rest == whole == result.text
    assert stream.exposed == 0


@pytest.mark.parametrize("value", [*PII, *KEYS, *OTHERS])
def test_a_value_in_pieces_is_never_shown(redacting: GuardrailPipeline, value: str) -> None:
    for text, size in ((LEAD + value + TAIL, 1 + len(value) % 11), (value + TAIL, 3)):
        assert_same(redacting, redacting.check_output(text).text, pieces_of(text, size))


@pytest.mark.parametrize("value", [*PII[::6], *KEYS[::4], OTHERS[0]])
def test_no_place_to_split_a_value_shows_it(redacting: GuardrailPipeline, value: str) -> None:
    text = f"It is {value} as I said." + TAIL[:300]
    whole = redacting.check_output(text).text
    for at in range(5, len(value) + 8):
        assert_same(redacting, whole, [text[:at], text[at:]])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([*PII, *KEYS, *OTHERS, LEAD, "so, ", "\n\n"]), max_size=6),
    st.lists(st.integers(1, 90), min_size=1, max_size=12),
)
def test_values_in_any_order_and_in_any_pieces(
    redacting: GuardrailPipeline, parts: list[str], sizes: list[int]
) -> None:
    text, pieces, at = " ".join(parts), [], 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size
    assert_same(redacting, redacting.check_output(text).text, pieces)


def test_prose_is_held_back_by_a_few_words_only(redacting: GuardrailPipeline) -> None:
    stream, came, shown = redacting.stream_output(), 0, 0
    for piece in pieces_of(LEAD * 10, 5):
        shown += len(stream.feed(piece))
        came += len(piece)
        assert came - shown <= 320


@dataclass(frozen=True)
class Counting(Guardrail):
    """Counts the characters that it looks at."""

    seen: list[int] = field(default_factory=list)
    default_timeout = None

    @property
    def reach(self) -> int:
        return 200

    def check(self, check: Check) -> Finding:
        self.seen.append(len(check.text))
        return CLEAN


def work(tokens: int) -> float:
    """Return how many characters are looked at for each that comes."""
    counting = Counting()
    stream = GuardrailPipeline({"guardrails": [counting]}).stream_output()
    for number in range(tokens):
        stream.feed(" word" if number % 9 else ". And")
    return sum(counting.seen) / (5 * tokens)


def test_the_work_for_a_token_does_not_grow() -> None:
    assert work(10_000) <= 1.05 * work(1_500) <= 60.0


@pytest.mark.parametrize(
    "text",
    ["x" * 20_000, "41 " * 2_500, " " * 20_000, "QUJD" * 5_000],
    ids=["a word", "numbers", "spaces", "encoded"],
)
def test_nor_does_it_where_nothing_can_be_shown_for_long(text: str) -> None:
    counting = Counting()
    stream = GuardrailPipeline({"guardrails": [counting]}).stream_output()
    for piece in pieces_of(text, 4):
        stream.feed(piece)
    assert sum(counting.seen) <= 60 * len(text)


def test_a_stream_is_one_turn_with_the_verdict_of_the_whole_text() -> None:
    steps = [
        {"length": {"max_tokens": 900}},
        {"pii": {"action": "redact"}},
        "secrets",
        {"toxicity": {"action": "warn"}},
    ]
    pipeline = GuardrailPipeline({"guardrails": steps})
    text = LEAD + "Mail jane@example.com. " + TAIL
    plain, streamed = Conversation.human_ai("ann", "m"), Conversation.human_ai("ann", "m")
    for chat in (plain, streamed):
        pipeline.check_input("Whom do I write to?", chat)
    expected = pipeline.check_output(text, plain)
    with pipeline.stream_output(streamed) as stream:
        shown = "".join(stream.guard(pieces_of(text, 7)))
    result = stream.result
    assert result is not None
    assert (result.blocked, result.warnings, result.reasons) == (False, expected.warnings, expected.reasons)
    assert [(name, each.status, each.reason) for name, each in result.details.items()] == [
        (name, each.status, each.reason) for name, each in expected.details.items()
    ]
    assert shown == expected.text == streamed.turn(1).response
    assert streamed.to_messages() == plain.to_messages()
    assert streamed.get_turn_count() == 1 and result.turn_number == 1
    assert streamed.turn(1).metadata["guardrail_results"]["output"]["warnings"] == expected.warnings


class Listed:
    """An audit that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def write(self, event: Any) -> None:
        self.events.append(event)

    def close(self) -> None:
        pass


BLOCKING = {"guardrails": [{"keywords": {"keywords": ["project x"]}}, {"length": {"max_characters": 5000}}]}


def test_a_block_stops_the_stream_and_is_recorded_once(caplog: pytest.LogCaptureFixture) -> None:
    audit, chat = Listed(), Conversation.human_ai("ann", "m")
    pipeline = GuardrailPipeline(BLOCKING, audit=audit)
    pipeline.check_input("What is new?", chat)
    asked_for = []

    def pieces() -> Iterator[str]:
        for piece in pieces_of(LEAD + "It is about Project X. " + TAIL * 9, 11):
            asked_for.append(piece)
            yield piece

    stream = pipeline.stream_output(chat)
    with caplog.at_level(logging.INFO, "turnwise.guard"):
        shown = "".join(stream.guard(pieces()))
    assert stream.blocked and stream.result is not None and stream.result.blocked
    assert LEAD.startswith(shown) and shown == stream.shown
    assert len("".join(asked_for)) < len(LEAD) + 200  # the model need not go on
    assert stream.feed("more") == "" and stream.rest == ""
    assert [event.result.reasons for event in audit.events[1:]] == [["keywords: 'project x'"]]
    assert [record.message.split(":")[0] for record in caplog.records] == ["blocked"]
    assert chat.to_messages() == [{"role": "user", "content": "What is new?"}]
    assert chat.turn(1).metadata["guardrail_results"]["output"]["blocked"] is True


def test_too_long_a_response_ends_where_it_is() -> None:
    stream = GuardrailPipeline(BLOCKING).stream_output()
    came = 0
    while not stream.blocked:
        stream.feed("and so on ")
        came += 10
    assert came <= 5_100 and "at most 5,000" in stream.end().reasons[0]
    short = GuardrailPipeline({"max_characters": 100, "guardrails": ["pii"]}).stream_output()
    short.feed("x" * 101)
    assert short.blocked and "too_long" in short.end().details


def test_while_it_streams_nothing_of_a_response_is_in_the_messages(redacting: GuardrailPipeline) -> None:
    chat = Conversation.human_ai("ann", "m")
    redacting.check_input("Hello", chat)
    stream = redacting.stream_output(chat)
    stream.feed(LEAD)
    assert [message["role"] for message in chat.to_messages()] == ["user"]
    redacting.check_input("And another question", chat)  # meanwhile; the stream has its turn
    assert stream.end().turn_number == 1
    assert chat.turn(1).response == LEAD and chat.turn(2).response is None


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ConnectionError, Outcome.BROKEN_OFF),
        (TimeoutError, Outcome.STALLED),
        (CancelledError, Outcome.DISCONNECTED),
        (GeneratorExit, Outcome.DISCONNECTED),
    ],
)
def test_why_a_stream_broke_off_is_told_and_is_no_block(
    tmp_path: Path, error: type[BaseException], outcome: Outcome
) -> None:
    with GuardrailPipeline({"guardrails": ["pii"]}, audit=tmp_path / "audit.jsonl") as pipeline:
        with pytest.raises(error), pipeline.stream_output() as stream:
            raise error
        assert stream.result is not None and stream.result.outcome is outcome
        assert pipeline.check_output("Write to jane@example.com").outcome is Outcome.BLOCKED
        assert pipeline.check_output("Write to me").outcome is Outcome.PASSED
    written = map(json.loads, (tmp_path / "audit.jsonl").read_text().splitlines())
    told = [(event["outcome"], event["blocked"]) for event in written]
    assert told == [(outcome, False), ("blocked", True), ("passed", False)]


def test_a_stream_that_breaks_off_is_recorded_and_left_out(redacting: GuardrailPipeline) -> None:
    chat = Conversation.human_ai("ann", "m")
    redacting.check_input("Hello", chat)
    with pytest.raises(ConnectionError), redacting.stream_output(chat) as stream:
        stream.feed(LEAD + "jane@exam")
        raise ConnectionError
    assert (
        stream.blocked
        and stream.result is not None
        and stream.result.failures == ["dropped: failed: the response broke off before its end"]
    )
    assert chat.to_messages() == [{"role": "user", "content": "Hello"}]
    assert chat.turn(1).response == stream.shown and "jane" not in stream.shown
    # The next try names the turn, and both are in the record.
    with redacting.stream_output(chat, turn_number=1) as again:
        again.feed("Good morning.")
    assert [message["content"] for message in chat.to_messages()] == ["Hello", "Good morning."]
    assert [each["response"] for each in chat.turn(1).metadata["guardrail_attempts"]] == [stream.shown]


def test_pieces_that_fail_or_that_nobody_takes_drop_the_response(redacting: GuardrailPipeline) -> None:
    def failing() -> Iterator[str]:
        yield LEAD
        raise OSError("the model is gone")

    stream = redacting.stream_output()
    with pytest.raises(OSError, match="gone"):
        list(stream.guard(failing()))
    assert stream.blocked
    left = redacting.stream_output()
    shown = left.guard(pieces_of(LEAD * 2, 50))
    next(shown)
    shown.close()  # type: ignore[attr-defined]
    assert left.result is not None and left.result.failures


def test_a_response_that_the_user_stopped_is_ended(redacting: GuardrailPipeline) -> None:
    chat = Conversation.human_ai("ann", "m")
    redacting.check_input("Hello", chat)
    stream = redacting.stream_output(chat)
    stream.feed("Good morn")
    assert not stream.end().blocked and stream.end() is stream.result
    assert stream.rest == "Good morn"
    assert chat.to_messages()[-1] == {"role": "assistant", "content": "Good morn"}
    with pytest.raises(GuardError, match="has ended"):
        stream.feed("more")


@dataclass(frozen=True)
class Whole(Guardrail):
    """Needs the whole text: blocks it where it says so many times "no"."""

    seen: list[str] = field(default_factory=list)
    noes: int = 5
    default_timeout = None

    def check(self, check: Check) -> Finding:
        self.seen.append(check.text)
        return Finding(True, "too many noes", 1.0) if check.text.count("no") >= self.noes else CLEAN


def test_what_needs_the_whole_text_is_asked_at_its_end() -> None:
    whole = Whole()
    stream = GuardrailPipeline({"guardrails": [{"use": whole, "name": "whole"}]}).stream_output()
    shown = "".join(stream.feed("no ") for _ in range(20))
    assert shown == "no " * 20 and whole.seen == []  # nobody objected so far, so all of it was shown
    assert stream.end().blocked and stream.rest == "" and len(whole.seen) == 1


def test_or_after_every_so_many_characters() -> None:
    whole = Whole()
    steps = [{"pii": {"action": "redact"}}, {"use": whole, "name": "whole", "stream_every": 100}]
    stream = GuardrailPipeline({"guardrails": steps}).stream_output()
    for _ in range(50):
        stream.feed("yes jane@example.com ")
    assert not stream.blocked and len(whole.seen) == 10
    assert "jane" not in "".join(whole.seen)  # it sees what the guardrails before it left
    for _ in range(40):
        stream.feed("no ")
    assert stream.blocked and stream.end().reasons == ["whole: too many noes"]


@pytest.mark.parametrize(("setting", "message"), [(0, "from 1"), ("x", "use a whole number, not")])
def test_a_number_of_characters_that_can_not_be_is_refused(setting: object, message: str) -> None:
    with pytest.raises(GuardError, match=message):
        GuardrailPipeline({"guardrails": [{"length": {"max_characters": 9, "stream_every": setting}}]})


def test_what_remembers_texts_is_asked_once_about_each() -> None:
    with pytest.raises(GuardError, match="asked once"):
        GuardrailPipeline({"guardrails": [{"drift": {"observer": "scripted:0,0", "stream_every": 9}}]})


def test_async_streams_say_the_same(redacting: GuardrailPipeline) -> None:
    text = LEAD + f"card {CARD}" + TAIL

    async def go() -> tuple[str, str, bool]:
        async def pieces() -> object:
            for piece in pieces_of(text, 9):
                yield piece

        async with redacting.astream_output() as stream:
            shown = [each async for each in stream.guard(pieces())]  # type: ignore[arg-type]
        by_hand = redacting.astream_output()
        fed = [await by_hand.feed(piece) for piece in pieces_of(text, 9)]
        await by_hand.end()
        return "".join(shown), "".join(fed) + by_hand.rest, by_hand.blocked

    expected = redacting.check_output(text).text
    assert asyncio.run(go()) == (expected, expected, False)


def test_a_cancelled_stream_is_dropped(redacting: GuardrailPipeline) -> None:
    chat = Conversation.human_ai("ann", "m")

    async def go() -> None:
        redacting.check_input("Hello", chat)
        began = asyncio.Event()

        async def pieces() -> object:
            yield LEAD
            began.set()
            await asyncio.Event().wait()

        async def reply() -> None:
            async with redacting.astream_output(chat) as stream:
                async for _ in stream.guard(pieces()):  # type: ignore[arg-type]
                    pass

        task = asyncio.ensure_future(reply())
        await began.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(go())
    assert chat.turn(1).metadata["guardrail_results"]["output"]["blocked"] is True
    assert chat.to_messages() == [{"role": "user", "content": "Hello"}]


def test_chunks_of_a_model_may_be_empty_and_must_be_text(redacting: GuardrailPipeline) -> None:
    stream = redacting.stream_output()
    assert stream.feed(None) == stream.feed("") == ""
    with pytest.raises(GuardError, match="piece of a response is int"):
        stream.feed(5)  # type: ignore[arg-type]
    assert not stream.end().blocked and stream.result is not None and json.dumps(stream.result.to_dict())


def test_half_a_character_is_no_obstacle(redacting: GuardrailPipeline) -> None:
    stream = redacting.stream_output()
    shown = stream.feed("a \ud83d") + stream.feed("\ude00 b " + LEAD)
    stream.end()
    assert shown + stream.rest == "a \U0001f600 b " + LEAD
    alone = redacting.stream_output()
    alone.feed("a \ud83d")
    alone.end()
    assert alone.rest == "a \ufffd"
