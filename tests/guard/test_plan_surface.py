"""The names under which turns, conversations, results and analyses are known elsewhere, and what the guard answers
where it refuses."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Cli

from turnwise import Conversation, GuardrailPipeline, analyze_conversation_forensics
from turnwise.conversation import from_messages
from turnwise.errors import ConversationError, GuardError, UnknownNameError
from turnwise.guard import AuditQuestion, read_audit

NOON = datetime(2025, 1, 31, 12, tzinfo=UTC)
REDACTING = {"guardrails": [{"pii": {"action": "redact"}}, {"keywords": {"keywords": ["project x"]}}]}


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture(scope="module")
def pipeline() -> GuardrailPipeline:
    return GuardrailPipeline(REDACTING)


# Turns and conversations


@pytest.mark.shows("PLAN-1")
def test_a_turn_says_who_speaks_to_whom() -> None:
    chat = Conversation.bot_to_bot("sales", "support")
    turn = chat.add_turn("Hello", "Hi")
    assert (turn.speaker, turn.listener, turn.speaker_type, turn.listener_type) == (
        "sales",
        "support",
        "bot",
        "bot",
    )
    back = Conversation.from_dict(json.loads(json.dumps(chat.to_dict()))).turn(1)
    assert (back.speaker, back.listener_type) == ("sales", "bot")
    assert Conversation().add_prompt("Hello").speaker == "unknown"


@pytest.mark.shows("PLAN-2")
def test_a_conversation_says_when_it_began_and_when_it_was_last_used() -> None:
    clock = Clock()
    chat = Conversation("ann", clock=clock)
    assert chat.created_at == chat.last_activity == NOON
    clock.now += timedelta(minutes=5)
    chat.add_turn("Hello", "Hi")
    assert (chat.created_at, chat.last_activity) == (NOON, clock.now)
    back = Conversation.from_dict(json.loads(json.dumps(chat.to_dict())))
    assert (back.created_at, back.last_activity) == (NOON, clock.now)
    stored = chat.to_dict()
    del stored["created_at"]  # as it was written before
    assert Conversation.from_dict(stored).created_at == clock.now
    assert Conversation.from_turns([("Hello", "Hi")]).created_at is None


def test_prompts_that_count_against_the_limit_can_be_seen() -> None:
    clock = Clock()
    chat = Conversation("ann", rate_limit={"turns_per_minute": 5}, clock=clock)
    chat.add_prompt("a")
    clock.now += timedelta(seconds=40)
    chat.add_prompt("b")
    assert chat.limits.arrivals == [NOON, clock.now]
    clock.now += timedelta(seconds=30)
    assert chat.limits.arrivals == [NOON + timedelta(seconds=40)]
    assert Conversation("ann").limits.arrivals == []


@pytest.mark.shows("PLAN-2")
def test_further_keys_of_the_participants_are_kept() -> None:
    given = {"initiator": "ann", "responder": "m", "initiator_role": "customer", "tags": ["a"]}
    chat = Conversation(participants=given)
    assert chat.participants == {**given, "initiator_type": "unknown", "responder_type": "unknown"}
    assert Conversation.from_dict(json.loads(json.dumps(chat.to_dict()))).participants == chat.participants
    with pytest.raises(ConversationError, match="did you mean 'initiator_type'"):
        Conversation(participants={"initator_type": "bot"})
    with pytest.raises(ConversationError, match="JSON values only"):
        Conversation(participants={"since": NOON})


def test_further_keys_of_the_participants_are_not_written_to_the_audit(tmp_path: Path) -> None:
    with GuardrailPipeline(REDACTING, audit=tmp_path / "a.jsonl") as pipeline:
        pipeline.check_input("Hello", Conversation(participants={"initiator": "ann", "mail": "ann@example.com"}))
    (event,) = read_audit(tmp_path / "a.jsonl").events
    assert set(event["participants"]) == {"initiator", "responder", "initiator_type", "responder_type"}


# Checks and results


@pytest.mark.shows("PLAN-4")
def test_the_conversation_may_be_given_by_place(pipeline: GuardrailPipeline) -> None:
    chat = Conversation.human_ai("ann", "m")
    assert pipeline.check_input("Hello", chat).turn_number == 1
    assert asyncio.run(pipeline.acheck_output("Hi", chat)).turn_number == 1
    assert pipeline.check_input("And now?", conversation=chat).turn_number == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda result: result.update(blocked=False),
        lambda result: result.__setitem__("blocked", False),
        lambda result: result.pop("blocked"),
        lambda result: result.clear(),
        lambda result: setattr(result, "blocked", False),
    ],
)
def test_a_result_can_not_be_changed(pipeline: GuardrailPipeline, change: Any) -> None:
    result = pipeline.check_input("About project x")
    with pytest.raises((TypeError, AttributeError)):
        change(result)
    assert result.blocked and result["blocked"]


def test_a_blocked_response_can_be_replaced(pipeline: GuardrailPipeline) -> None:
    chat = Conversation.human_ai("ann", "m")
    asked = pipeline.check_input("What do you work on?", chat)
    assert pipeline.check_output("On project x", chat).blocked
    good = pipeline.check_output("That is not public.", chat, turn_number=asked.turn_number)
    assert (good.blocked, good.turn_number, chat.get_turn_count()) == (False, 1, 1)
    assert [each["content"] for each in chat.to_messages()] == ["What do you work on?", "That is not public."]
    turn = chat.turn(1)
    assert turn.metadata["guardrail_results"]["output"]["blocked"] is False
    (attempt,) = turn.metadata["guardrail_attempts"]
    assert (attempt["response"], attempt["output"]["reasons"]) == ("On project x", ["keywords: 'project x'"])
    with pytest.raises(ConversationError, match="already has a response"):
        pipeline.check_output("Another one", chat, turn_number=1)
    back = Conversation.from_dict(json.loads(json.dumps(chat.to_dict())))
    for each in (chat, back):
        timeline = analyze_conversation_forensics(each)["timeline"]
        assert [(entry["pipeline_type"], entry["blocked"]) for entry in timeline] == [
            ("input", False),
            ("output", True),
            ("output", False),
        ]


def test_replacing_a_response_of_a_list_of_messages_takes_the_old_one_out(pipeline: GuardrailPipeline) -> None:
    asked, said = (
        {"role": "user", "content": "Hi", "name": "ann"},
        {"role": "assistant", "content": "On project x"},
    )
    chat = from_messages([asked])
    pipeline.check_output(said["content"], chat)
    pipeline.check_output("Good.", chat, turn_number=1)
    assert "project x" not in json.dumps(chat.to_messages())


@pytest.mark.shows("PLAN-5")
def test_the_summary_of_an_analysis_has_the_usual_names(pipeline: GuardrailPipeline) -> None:
    chat = Conversation.human_ai("ann", "m", clock=Clock())
    pipeline.check_input("I am jane@example.com", chat)
    found = analyze_conversation_forensics(chat)
    assert (found["created_at"], found["duration"], found["total_turns"]) == (NOON.isoformat(), 0.0, 1)
    summary = found["guardrail_summary"]["pii"]
    assert (summary["total_firings"], summary["blocks"], summary["warnings"]) == (1, 0, 1)
    (entry,) = found["timeline"]
    assert (entry["turn_number"], entry["speaker"], entry["listener"]) == (1, "ann", "m")
    assert (entry["speaker_type"], entry["listener_type"], entry["pipeline_type"]) == (
        "human",
        "ai_model",
        "input",
    )
    assert entry["timestamp"] == NOON.isoformat() and entry["prompt"] is None
    with_texts = analyze_conversation_forensics(chat, texts=True)["timeline"][0]
    assert (with_texts["prompt"], with_texts["response"]) == ("I am [EMAIL]", None)
    json.dumps(found)


# Refusals


@pytest.mark.parametrize("limits", [{"everyone": {"minute": 2}}, {"per_key": {"minute": 2}}, {}])
def test_a_refusal_says_when_to_try_again(limits: dict[str, Any]) -> None:
    clock = Clock()
    pipeline = GuardrailPipeline({**REDACTING, "rate_limits": limits}, clock=clock)
    own = None if limits else {"turns_per_minute": 2, "turns_per_day": 9}
    chat = Conversation("ann", rate_limit=own, clock=clock)
    assert pipeline.check_input("a", chat, key="ann").retry_after is None
    clock.now += timedelta(seconds=15)
    pipeline.check_input("b", chat, key="ann")
    clock.now += timedelta(seconds=5)
    refused = pipeline.check_input("c", chat, key="ann")
    assert refused.rate_limited and refused.retry_after == 40.0 == json.loads(json.dumps(refused))["retry_after"]
    clock.now += timedelta(seconds=refused.retry_after)
    assert not pipeline.check_input("c", chat, key="ann").rate_limited


# Presets, files, logs, the audit of a person


def test_settings_of_a_preset_can_be_set_by_guardrail(tmp_path: Path) -> None:
    audit = tmp_path / "a.jsonl"
    with GuardrailPipeline.from_preset(
        "basic", audit=str(audit), overrides={"pii": {"action": "block"}}
    ) as pipeline:
        assert pipeline.check_input("I am jane@example.com").blocked
    assert [event["blocked"] for event in read_audit(audit).events] == [True]
    with pytest.raises(UnknownNameError, match="did you mean 'pii'"):
        GuardrailPipeline.from_preset("basic", overrides={"pi": {"action": "block"}})
    with pytest.raises(GuardError, match="give settings"):
        GuardrailPipeline.from_preset("basic", overrides={"pii": "block"})  # type: ignore[dict-item]
    with pytest.raises(GuardError, match="did you mean 'action'"):
        GuardrailPipeline.from_preset("basic", overrides={"pii": {"acton": "block"}})


def test_files_that_a_configuration_names_are_relative_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "list.txt").write_text("project x\n", encoding="utf-8")
    (tmp_path / "mine.yaml").write_text("patterns: {}\n", encoding="utf-8")
    config = tmp_path / "guard.yaml"
    config.write_text("guardrails:\n  - keywords: {file: words/list.txt}\n", encoding="utf-8")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert GuardrailPipeline(config).check_input("About project x").blocked
    assert GuardrailPipeline("../guard.yaml").check_input("About project x").blocked
    config.write_text("guardrails:\n  - keywords: {file: gone.txt}\n", encoding="utf-8")
    with pytest.raises(GuardError, match=r"gone\.txt"):
        GuardrailPipeline(config)
    with pytest.raises(GuardError, match=r"list\.txt"):  # a mapping lies nowhere
        GuardrailPipeline({"guardrails": [{"keywords": {"file": "words/list.txt"}}]})


def test_blocks_and_failures_are_logged_without_any_text(
    pipeline: GuardrailPipeline, caplog: pytest.LogCaptureFixture
) -> None:
    chat = Conversation("ann", conversation_id="talk of ann")
    with caplog.at_level(logging.INFO, "turnwise.guard"):
        pipeline.check_input("Hello", chat)
        pipeline.check_input("About project x", chat)
    (line,) = caplog.records
    name = f"sha256:{sha256(b'talk of ann').hexdigest()[:32]}"
    told = f"blocked: conversation={name} turn=2 kind=input guardrail=keywords action=block"
    assert (line.name, line.levelname, line.message) == ("turnwise.guard", "INFO", told)


def test_the_audit_can_be_asked_by_person(tmp_path: Path, cli: Cli) -> None:
    audit = tmp_path / "audit.jsonl"
    with GuardrailPipeline(REDACTING, audit=audit) as pipeline:
        for person in ("ann@example.com", "ben", "ann@example.com"):
            pipeline.check_input("Hello", Conversation(person))
    assert "ann@" not in audit.read_text(encoding="utf-8")
    assert len(read_audit(audit, AuditQuestion(person="ann@example.com")).events) == 2
    done = cli("guard", "audit", audit, "--person", "ben", "--json")
    assert done.code == 0 and done.json["count"] == 1
