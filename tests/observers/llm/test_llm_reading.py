"""Reading replies: a score in every form that a model may give it, and nothing where there is none."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest
from growth import grows_linearly
from hypothesis import given
from hypothesis import strategies as st

from turnwise.conversation import Side, Turn
from turnwise.observers import (
    ChatReply,
    ChatRequest,
    Context,
    LlmObserver,
    Message,
    Observation,
    Request,
    ScriptedClient,
)
from turnwise.principles import load_principle
from turnwise.scoring import MemoryJournal, Score

GOOD = '{"reasoning": "asked plainly", "T": 0.7, "I": 0.2, "F": 0.1}'


def read(text, *, finish_reason="stop", refusal=None, journal=None):
    client = ScriptedClient(lambda request: ChatReply(text, "m", finish_reason, refusal, 10, 5))
    observer = LlmObserver(
        "ollama/m", client=client, journal=journal, clock=lambda: datetime(2025, 1, 2, tzinfo=UTC)
    )
    state = observer.start("s", Context.parse("turn"))
    (outcome,) = observer.observe(state, Turn(1, "hello"), [Request(load_principle("reciprocity"), Side.PROMPT)])
    return outcome


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"  \n{GOOD}\n",
        f"\r\n\t{GOOD}\u00a0",
        f"```json\n{GOOD}\n```",
        f"```JSON\r\n{GOOD}\r\n```\n",
        f"\n```\n{GOOD}```",
        json.dumps(json.loads(GOOD), indent=4),
        f"<think>Perhaps {GOOD.replace('0.7', '0.3')}, no.</think>{GOOD}",
        f"\n<think>\n\n</think>\n\n```json\n{GOOD}\n```",
        GOOD.replace("}", ', "confidence": 0.4}'),
        GOOD.replace("0.7", "7e-1"),
        '{"F": 0.1, "I": 0.2, "T": 0.7, "reasoning": "asked plainly\\n"}',
    ],
)
def test_a_score_is_read_in_whatever_form_it_comes(text):
    outcome = read(text)
    assert isinstance(outcome, Observation)
    assert outcome.score == Score(0.7, 0.2, 0.1)
    assert outcome.reasoning == "asked plainly"
    assert outcome.raw_reply == text


def test_whole_numbers_are_numbers():
    assert read('{"reasoning": "x", "T": 1, "I": 0, "F": 0}').score == Score(1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the reply is empty"),
        ("  \n", "the reply is empty"),
        ("about 0.7, I would say", "the reply holds no JSON object: about 0.7"),
        ("[0.7, 0.2, 0.1]", "the reply holds no JSON object"),
        ("{'T': 0.7, 'I': 0.2, 'F': 0.1}", "JSON is broken"),
        ("{}", "the reply has no T, I, F, reasoning"),
        ('{"T": 0.7, "I": 0.2, "reasoning": "x"}', "the reply has no F"),
        ('{"t": 0.7, "i": 0.2, "f": 0.1, "reasoning": "x"}', "the reply has no T, I, F"),
        ('{"T": 0.7, "I": 0.2, "F": 0.1}', "the reply has no reasoning"),
        (GOOD.replace('"asked plainly"', '" "'), "reasoning is not text"),
        (GOOD.replace('"asked plainly"', "null"), "reasoning is not text"),
        (GOOD.replace('"asked plainly"', '["a", "b"]'), "reasoning is not text"),
        (GOOD.replace("0.1", "1.01"), "F is not a number from 0 to 1"),
        (GOOD.replace("0.7", "-0.1"), "T is not a number from 0 to 1"),
        (GOOD.replace("0.2", "NaN"), "NaN is not a number"),
        (GOOD.replace("0.2", "-Infinity"), "-Infinity is not a number"),
        (GOOD.replace("0.2", "1e999"), "I is not a number from 0 to 1"),
        (GOOD.replace("0.2", '"0.2"'), "I is not a number from 0 to 1"),
        (GOOD.replace("0.2", "true"), "I is not a number from 0 to 1"),
        (GOOD.replace("0.2", "null"), "I is not a number from 0 to 1"),
        (GOOD.replace("0.2", "[0.2]"), "I is not a number from 0 to 1"),
        (GOOD.replace("0.2", "9" * 5000), "digits"),
        (GOOD.replace("0.2", "9" * 400), "I is not a number from 0 to 1"),
        ('{"T": 0.9, ' + GOOD[1:], "the reply says one thing twice"),
        (f'{{"answer": {GOOD}}}', "an object inside its object"),
        (f'{{"answer": {GOOD}', "JSON is broken"),
        (f'{{"T": NaN, "x": {GOOD}', "JSON is broken"),
        (GOOD[:40], "JSON is broken"),
        (GOOD.replace(",", ",,"), "JSON is broken"),
        ('{"a": ' * 20_000, "nested too deeply|JSON is broken"),
        ("{" * 1_000_000, "JSON is broken"),
        ("{ " * 500_000 + GOOD, "JSON is broken"),
        (" {" * 500_000 + "```", "JSON is broken"),
        ("`" * 500_000 + "{", "there is text before it"),
        (f"<think>{GOOD}", "the reply is empty"),
    ],
)
def test_what_can_t_be_read_is_malformed_and_never_filled_in(text, message):
    outcome = read(text)
    if isinstance(outcome, Observation):
        pytest.fail(f"a score was read from {text[:60]!r}")
    assert outcome.reason == "malformed"
    assert re.search(message, outcome.message), outcome.message
    assert outcome.raw_reply == text


@pytest.mark.parametrize("text", [GOOD[:30], GOOD, f"<think>They wrote </think>{GOOD}"])
def test_a_reply_that_was_cut_off_is_not_whole_and_says_what_to_raise(text):
    outcome = read(text, finish_reason="length")
    assert outcome.reason == "malformed"
    assert "the limit that --max-tokens sets" in outcome.message


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "I can’t assist with this request.",
        "I cannot judge this conversation.",
        "Sorry, I won't do that.",
        "As an AI language model, I do not rate people.",
        "**I am unable to evaluate this.**",
        "Unfortunately, this is against my rules.",
    ],
)
def test_a_model_that_declines_in_words_refused(text):
    outcome = read(text)
    assert (outcome.reason, outcome.raw_reply) == ("refused", text)


def test_a_refusal_that_the_provider_marks_is_one_whatever_else_is_said():
    assert read("", refusal="I will not judge this.").reason == "refused"
    assert read(GOOD, refusal="I will not judge this.").reason == "refused"
    withheld = read("", finish_reason="content_filter")
    assert (withheld.reason, withheld.message) == ("refused", "the provider withheld the reply (content_filter)")


@given(
    st.text(max_size=200),
    st.dictionaries(
        st.sampled_from(["T", "I", "F", "reasoning", "x"]),
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    ),
)
def test_whatever_comes_is_a_score_in_range_or_a_failure(text, record):
    for reply in (text, json.dumps(record), text + json.dumps(record)):
        outcome = read(reply)
        if isinstance(outcome, Observation):
            assert all(0 <= value <= 1 for value in outcome.score.to_dict().values())
            assert outcome.reasoning
        else:
            assert outcome.reason in {"malformed", "refused"}
            assert outcome.message


def test_what_could_not_be_read_is_kept_all_the_same():
    journal = MemoryJournal()
    read("no score at all", journal=journal)
    assert [reply.text for reply in journal.replies] == ["no score at all"]


@pytest.mark.parametrize(
    "unit", ["<think>", "<think></think>", " ", "—", "`", "```json", "[", "{", '"', "I am ", "\ud800"]
)
@pytest.mark.parametrize("before", ["", "<think>", "```", "«"])
def test_a_long_reply_takes_linear_time(unit, before):
    assert grows_linearly(lambda text: read(before + text), unit)


def test_the_client_by_script_tells_requests_apart_that_no_mark_ends():
    one, other = (ChatRequest("m", (Message("user", text),)) for text in ("one", "other"))
    complete = ScriptedClient().complete
    assert complete(one).text == complete(one).text != complete(other).text
