"""What the analysis of a conversation says, live and after a way through JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from guard_rails import Contains, Raises

from turnwise import analyze_conversation_forensics
from turnwise.conversation import Conversation
from turnwise.forensics import in_words, replay, replay_pipeline
from turnwise.guard import Config, GuardrailPipeline, TextKind

Talk = Callable[..., Conversation]

KEYS = {
    "created_at",
    "duration",
    "total_turns",
    "guardrail_summary",
    "conversation_id",
    "participants",
    "model_info",
    "times",
    "totals",
    "blocked_turns",
    "warned_turns",
    "unchecked_turns",
    "timeline",
    "rate_limits",
    "trajectory",
    "drift",
    "stance",
    "evidence",
    "outcomes",
}


NO_TOOLS: dict[str, list[int]] = {str(kind): [] for kind in TextKind if kind not in ("input", "output")}


def came_back(conversation: Conversation) -> Conversation:
    return Conversation.from_dict(json.loads(json.dumps(conversation.to_dict())))


def test_live_and_from_json_say_the_same_in_json_values(talk: Talk) -> None:
    chat = talk([0.1, 0.4, 0.9, 0.1], rails=[{"pii": {"action": "redact"}}], prompts=["I am bob@example.com"])
    analysis = analyze_conversation_forensics(chat)
    assert set(analysis) == KEYS
    assert json.loads(json.dumps(analysis, allow_nan=False)) == analysis
    assert analyze_conversation_forensics(came_back(chat)) == analysis


def test_who_when_and_how_many(talk: Talk) -> None:
    analysis = analyze_conversation_forensics(talk([0.1, 0.1, 0.9, 0.1]))
    assert analysis["conversation_id"] == "c1"
    assert analysis["participants"]["initiator_type"] == "human"
    assert analysis["model_info"] == {"model_id": "gpt-4"}
    assert analysis["times"] == {
        "first": "2025-06-07T12:00:00+00:00",
        "last": "2025-06-07T12:03:00+00:00",
        "first_check": "2025-06-07T12:00:00+00:00",
        "last_check": "2025-06-07T12:03:00+00:00",
    }
    assert (analysis["created_at"], analysis["duration"]) == ("2025-06-07T12:00:00+00:00", 180.0)
    totals = analysis["totals"]
    assert (analysis["total_turns"], totals["complete"], totals["checks"]) == (4, 3, 7)
    assert (totals["input_checks"], totals["output_checks"]) == (4, 3)
    assert analysis["blocked_turns"] == {**NO_TOOLS, "input": [3], "output": []}
    assert (totals["blocked_turns"], totals["unchecked"]) == (1, 0)


@pytest.mark.shows("PLAN-5")
def test_input_and_output_are_counted_apart() -> None:
    rails = [Contains("bad"), {"use": Contains("odd"), "action": "warn", "name": "odd"}]
    pipeline = GuardrailPipeline({"guardrails": rails})
    chat = Conversation("ann", "bot")
    pipeline.check_input("bad and odd", conversation=chat)
    pipeline.check_input("fine", conversation=chat)
    pipeline.check_output("odd", conversation=chat)
    pipeline.check_input("fine", conversation=chat)
    pipeline.check_output("bad", conversation=chat)
    analysis = analyze_conversation_forensics(chat)
    assert analysis["blocked_turns"] == {**NO_TOOLS, "input": [1], "output": [3]}
    assert analysis["warned_turns"] == {**NO_TOOLS, "input": [1], "output": [2]}
    odd = analysis["guardrail_summary"]["odd"]
    assert (odd["evaluated"], odd["total_firings"], odd["blocks"], odd["warnings"]) == (5, 2, 0, 2)
    assert (odd["input"]["total_firings"], odd["output"]["total_firings"]) == (1, 1)
    assert (odd["first_firing"], odd["last_firing"]) == (1, 2)
    assert (odd["input"]["evaluated"], odd["output"]["evaluated"]) == (3, 2)
    assert odd["mean_seconds"] <= odd["longest_seconds"]


def test_failed_and_skipped_are_neither_clean_nor_found() -> None:
    rails = [
        {"use": Raises(), "on_error": "allow", "name": "open"},
        {"use": Raises(), "on_error": "block", "name": "closed"},
        {"use": Contains("x"), "enabled": False},
    ]
    pipeline = GuardrailPipeline({"guardrails": rails})
    chat = Conversation("ann", "bot")
    pipeline.check_input("x", conversation=chat)
    analysis = analyze_conversation_forensics(chat)
    opened, closed, skipped = (analysis["guardrail_summary"][name] for name in ("open", "closed", "contains"))
    assert (opened["failed"], closed["failed"]) == (1, 1)
    assert (opened["failed_open"], closed["failed_closed"], closed["blocks"], closed["total_firings"]) == (
        1,
        1,
        1,
        0,
    )
    assert (skipped["skipped"], skipped["evaluated"], skipped["mean_seconds"]) == (1, 0, None)
    assert analysis["totals"]["failures"] == 2
    assert any("2 checks failed, by" in line for line in in_words(analysis))


def test_redactions_by_kind() -> None:
    pipeline = GuardrailPipeline({"guardrails": [{"pii": {"action": "redact"}}]})
    chat = Conversation("ann", "bot")
    pipeline.check_input("bob@example.com, eve@example.com, 123-45-6789", conversation=chat)
    analysis = analyze_conversation_forensics(chat)
    assert analysis["guardrail_summary"]["pii"]["redactions"] == {"email": 2, "ssn": 1}
    assert analysis["timeline"][0]["redacted"] == ["pii"]


@pytest.mark.shows("PLAN-5")
def test_the_timeline_is_in_order_of_time_with_refused_prompts_in_it(talk: Talk) -> None:
    now = datetime(2025, 6, 7, tzinfo=UTC)

    def clock() -> datetime:
        return now

    pipeline = GuardrailPipeline({"guardrails": [Contains("bad")]}, clock=clock)
    chat = Conversation("ann", "bot", rate_limit={"turns_per_minute": 1}, clock=clock)
    pipeline.check_input("one", conversation=chat)
    now += timedelta(seconds=5)
    pipeline.check_input("secret words", conversation=chat)
    now += timedelta(seconds=60)
    pipeline.check_input("two", conversation=chat)
    now += timedelta(seconds=5)
    pipeline.check_output("late answer to one", conversation=chat)
    for given in (chat, came_back(chat)):
        analysis = analyze_conversation_forensics(given)
        kinds = [
            (entry["kind"], entry.get("turn_number"), entry.get("pipeline_type")) for entry in analysis["timeline"]
        ]
        assert kinds == [
            ("check", 1, "input"),
            ("rate_limit", None, None),
            ("check", 2, "input"),
            ("check", 1, "output"),
        ]
        refused = analysis["timeline"][1]
        assert (refused["scope"], refused["after_turn"]) == ("conversation", 1)
        assert analysis["rate_limits"]["count"] == analysis["totals"]["rate_limited"] == 1
        assert "secret words" not in json.dumps(analysis)


def test_a_conversation_that_no_guard_looked_at() -> None:
    chat = Conversation.from_turns([("Hello", "Hi"), ("Bye", None)], conversation_id="c1")
    analysis = analyze_conversation_forensics(chat)
    assert analysis["unchecked_turns"] == [1, 2]
    assert analysis["totals"]["checks"] == 0
    assert analysis["times"]["first"] is None
    assert analysis["timeline"] == analysis["drift"] == analysis["stance"] == analysis["trajectory"] == []
    assert in_words(analysis) == ["No guard looked at this conversation: not checked is not clean."]
    assert analyze_conversation_forensics(Conversation(conversation_id="empty"))["total_turns"] == 0


def test_some_turns_unchecked_are_said(talk: Talk) -> None:
    chat = talk([0.1, 0.1])
    chat.add_exchange("behind the guard's back", "yes")
    chat.add_exchange("and again", "yes")
    analysis = analyze_conversation_forensics(chat)
    assert analysis["unchecked_turns"] == [3, 4]
    assert "No guard looked at turns 3–4: not checked is not clean." in in_words(analysis)


def test_stance_over_time(talk: Talk) -> None:
    analysis = analyze_conversation_forensics(talk([0.1, 0.1, 0.1]))
    prompts = [one for one in analysis["stance"] if one["side"] == "input"]
    assert [one["turn"] for one in prompts] == [1, 2, 3]
    trust = [one["trust"] for one in prompts]
    assert trust == sorted(trust)
    assert {"mode", "trajectory", "phase", "rationale", "time"} <= set(prompts[0])


def test_without_session_memory_there_is_no_stance(talk: Talk) -> None:
    analysis = analyze_conversation_forensics(talk([0.1], session=None))
    assert analysis["stance"] == []
    assert analysis["timeline"][0]["stance"] is None


def test_ten_thousand_turns_are_no_trouble() -> None:
    chat = Conversation("ann", "bot")
    pipeline = GuardrailPipeline({"guardrails": [Contains("bad")]})
    for number in range(10_000):
        pipeline.check_input("bad" if number % 100 == 0 else "good", conversation=chat)
    analysis = analyze_conversation_forensics(chat)
    assert analysis["totals"]["blocked_turns"] == 100
    assert len(analysis["timeline"]) == 10_000


def test_replay_checks_a_recorded_conversation_and_leaves_it_alone() -> None:
    told = datetime(2025, 1, 1, tzinfo=UTC)
    chat = Conversation("ann", "bot", conversation_id="c1", metadata={"kind": "test"})
    chat.add_turn("bad", "fine", timestamp=told)
    chat.add_turn("fine", None, timestamp=told)
    config = Config.read(
        {"guardrails": [Contains("bad")], "rate_limits": {"everyone": {"day": 1}}, "audit": {"path": "no/where"}}
    )
    checked, results = replay(replay_pipeline(config), chat)
    assert [(result.turn_number, str(result.pipeline_type), result.blocked) for result in results] == [
        (1, "input", True),
        (1, "output", False),
        (2, "input", False),
    ]
    assert checked.turn(1).timestamp == told
    assert checked.turn(1).response == "fine"
    assert checked.metadata == {"kind": "test"}
    assert "guardrail_results" not in chat.turn(1).metadata
    assert analyze_conversation_forensics(checked)["blocked_turns"] == {**NO_TOOLS, "input": [1], "output": []}


def test_replayed_turns_without_times_have_none() -> None:
    chat = Conversation.from_turns([("hello", "hi")])
    checked, _ = replay(GuardrailPipeline({"guardrails": [Contains("bad")]}), chat)
    assert (checked.turn(1).timestamp, checked.turn(1).response_timestamp) == (None, None)


def answered(*falsities: float, **drift: object) -> Conversation:
    """Return a conversation whose replies were scored as such, after a prompt that was warned of at turn 1."""
    judge = {"observer": f"scripted:{','.join(map(str, falsities))}", "judge": "replies", "session": None, **drift}
    pipeline = GuardrailPipeline(
        {"guardrails": [{"drift": judge}, {"keywords": {"keywords": ["bomb"], "action": "warn"}}]}
    )
    chat = Conversation.human_ai("ann", "gpt-4", conversation_id="c1")
    for number, _ in enumerate(falsities, start=1):
        pipeline.check_input("a bomb" if number == 1 else "go on", conversation=chat)
        pipeline.check_output("I can't help with that." if number == 1 else f"Step {number}", conversation=chat)
    return chat


def test_it_says_where_the_model_gave_way_and_what_was_held_back() -> None:
    analysis = analyze_conversation_forensics(came_back(answered(0.1, 0.4, 0.7)))
    found = analysis["outcomes"]
    assert found["by_turn"] == {"1": "refused", "2": "partly", "3": "gave way"}
    assert (found["broke"], found["alarm"], found["lead"], found["held"]) == (3, 1, 2, [3])
    assert found["nearest"] == 3
    said = in_words(analysis)
    assert (
        "The model gave way first at turn 3; first alarm 2 turns before. Refused: 1; partly: 2; gave way: 3."
        in said
    )
    assert "Held back: the reply of turn 3." in said


def test_what_was_only_told_was_not_held_back() -> None:
    analysis = analyze_conversation_forensics(answered(0.1, 0.7, action="log"))
    assert analysis["outcomes"]["held"] == []
    assert not any("Held back" in line for line in in_words(analysis))


def test_without_scored_replies_there_is_no_outcome(talk: Talk) -> None:
    assert analyze_conversation_forensics(talk([0.1, 0.9]))["outcomes"] is None
