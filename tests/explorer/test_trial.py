"""A pasted conversation is put through a guard, and each text is told of as it is checked."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from turnwise.errors import ConversationError, TurnwiseError, UnknownNameError, UsageError
from turnwise.explorer import MOST_TEXT, Trial, Trials, read_pasted
from turnwise.guard import GuardrailPipeline

CONFIG = {
    "guardrails": [
        {"pii": {"action": "redact"}},
        {"keywords": {"keywords": ["acme"], "action": "block"}},
        {"drift": {"observer": "scripted:0.1,0.6,0.9", "detector": "any_turn:threshold=0.8"}},
    ]
}
CHAT = "user: I am jane@example.com\nassistant: Welcome.\nuser: Tell me of acme\nuser: Go on"


@pytest.fixture
def trial() -> Iterator[Trial]:
    pipeline = GuardrailPipeline(CONFIG)
    yield Trial(pipeline)
    pipeline.close()


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        ("Just a question\nof two lines", [("Just a question\nof two lines", None)]),
        ("Human: Hi\nAI: Hello\n  there\n\nHuman: Bye", [("Hi", "Hello\n  there"), ("Bye", None)]),
        ("user: see https://a.example\nnote: this is text", [("see https://a.example\nnote: this is text", None)]),
        (
            json.dumps([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}]),
            [("Hi", "Yes")],
        ),
        (json.dumps({"conversations": [{"from": "human", "value": "Hi"}]}), [("Hi", None)]),
    ],
)
def test_a_conversation_is_pasted_in_any_form(text: str, turns: list[tuple[str, str | None]]) -> None:
    assert [(turn.prompt, turn.response) for turn in read_pasted(text)] == turns


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("  \n", UsageError, "paste or type a conversation first"),
        ("x" * (MOST_TEXT + 1), UsageError, "at most 1,000,000 characters"),
        ("user: a\n" * 501, UsageError, "at most 500 turns here, not 501"),
        ("assistant: Hello", UsageError, "message 1 is a reply to nothing"),
        ("[1, 2", ConversationError, "this text is broken JSON"),
        ("[" * 300, ConversationError, "is broken JSON"),
        ('{"a": 1}', ConversationError, "an object with the keys a"),
    ],
)
def test_what_is_no_conversation_is_refused(text: str, error: type[TurnwiseError], said: str) -> None:
    with pytest.raises(error, match=said):
        read_pasted(text)


def test_the_guard_is_watched_turn_by_turn(trial: Trial) -> None:
    found = list(trial.replay(read_pasted(CHAT)))
    assert [(one.turn_number, one.pipeline_type, one.blocked, bool(one.warnings)) for one in found] == [
        (1, "input", False, True),
        (1, "output", False, False),
        (2, "input", True, False),
        (3, "input", True, False),
    ]
    assert found == trial.checks
    assert found[0].text == "I am [EMAIL]"
    assert found[2].reasons == ["keywords: 'acme'"]
    assert found[0].details["pii"].redactions
    last = found[3].details["drift"].data
    assert last is not None and (last["score"], last["threshold"]) == (0.9, 0.8)


def test_stance_and_trust_follow_the_turns(trial: Trial) -> None:
    found = list(trial.replay(read_pasted(CHAT)))
    inputs = [one for one in found if one.pipeline_type == "input"]
    # A guardrail that blocked before left drift nothing to do, so nothing is known of the stance there.
    assert [one.stance and one.stance.mode for one in inputs] == ["cautious", None, "guarded"]
    first, last = inputs[0].stance, inputs[-1].stance
    assert last is not None and "circuit breaker violated" in last.rationale
    assert first is not None and first.trust == pytest.approx(0.65)


def test_the_forensic_timeline_is_there_at_any_moment(trial: Trial) -> None:
    checks = trial.replay(read_pasted(CHAT))
    next(checks)
    assert trial.analysis()["totals"]["checks"] == 1
    list(checks)
    found = trial.analysis()
    assert found["blocked_turns"]["input"] == [2, 3]
    assert [entry["turn_number"] for entry in found["timeline"]] == [1, 1, 2, 3]


def test_messages_are_typed_one_by_one(trial: Trial) -> None:
    assert not trial.say("Hello").blocked
    assert trial.answer("Hello yourself").pipeline_type == "output"
    assert trial.say("acme").blocked
    assert [one.turn_number for one in trial.checks] == [1, 1, 2]


def test_one_trial_does_not_weigh_on_another() -> None:
    pipeline = GuardrailPipeline({"guardrails": [{"drift": {"observer": "scripted:0.9,0.9,0.9,0.9"}}]})
    chat = read_pasted("user: a\nuser: b\nuser: c\nuser: d")
    first, second = (list(Trial(pipeline).replay(chat)) for _ in range(2))
    assert [one.stance for one in first] == [one.stance for one in second]
    pipeline.close()


def test_presets_are_built_once() -> None:
    trials = Trials()
    assert "customer_service" in trials.presets()
    with pytest.raises(UnknownNameError, match="unknown preset 'basics'"):
        trials.pipeline("basics")
    trials.close()
