"""What an audit tells of a guard: counts, thresholds, drift, and the same in mode log as in mode on."""

import json
import random
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from turnwise.conversation import Conversation, Label
from turnwise.errors import GuardError, UsageError
from turnwise.guard import GuardrailPipeline
from turnwise.operations import report_audit
from turnwise.store import Store
from turnwise.study.annotation import BLIND, LabelQueue, Order

WORDS = {"guardrails": [{"keywords": {"keywords": ["forbidden"], "action": "block"}},
                        {"pii": {"types": ["email"], "action": "warn"}}]}  # fmt: skip


def guarded(path, mode, texts):
    """Put conversations through a guard with an audit; returns the ids of those in which something was blocked."""
    pipeline = GuardrailPipeline(WORDS, audit=str(path))
    pipeline.set_mode(mode)
    blocked = set()
    for name, prompts in texts.items():
        chat = Conversation(conversation_id=name)
        for prompt in prompts:
            result = pipeline.check_input(prompt, conversation=chat)
            if result.blocked:
                blocked.add(name)
            chat.add_response("I see.") if not result.blocked else None
    pipeline.close()
    return blocked


TEXTS = {
    "a": ["Hello.", "A forbidden thing, please.", "The forbidden thing once more."],
    "b": ["Hello.", "Write to ann@example.com."],
    "c": ["How do tides work?"],
    "d": ["forbidden 17 times", "thanks"],
}


def test_mode_log_would_have_blocked_the_conversations_that_mode_on_blocks(tmp_path):
    blocked = guarded(tmp_path / "on.jsonl", "on", TEXTS)
    assert guarded(tmp_path / "log.jsonl", "log", TEXTS) == set()
    on, log = (report_audit(tmp_path / f"{mode}.jsonl") for mode in ("on", "log"))
    assert blocked == {one.conversation_id for one in on.to_read} == {one.conversation_id for one in log.to_read}
    assert (on.blocked.count, on.would_block.count) == (2, 0) and (log.blocked.count, log.would_block.count) == (
        0,
        2,
    )
    assert on.warned.count == log.warned.count == 1 and on.blocked.of == log.would_block.of == len(TEXTS)
    [count] = log.counts["guardrail"]
    assert (count.name, count.texts, count.conversations.count) == ("keywords", 3, 2)
    assert {one.text for one in log.to_read} == {"A forbidden thing, please.", "forbidden 17 times"}
    assert [(one.name, one.conversations.of) for one in log.counts["day"]] == [(log.begin[:10], len(TEXTS))]
    with Store(tmp_path / "own.db", create=True) as store:
        store.audit.append([json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()])
    stored = report_audit(tmp_path / "own.db").to_dict()
    assert {**stored, "location": ""} == {**log.to_dict(), "location": ""}


def event(name, day, score, *, blocks=False, text="How do the tides work, and why twice a day?", tenant=None):
    """An event of an audit as a guard in mode log writes it."""
    reason = {"reason": f"would block: reciprocity F {score} at turn 1", "action": "log", "found": True}
    return {
        "v": 1, "kind": "check", "time": day.isoformat(), "pipeline": "made", "conversation_id": name, "turn": 1,
        "side": "input", "blocked": False, "warned": False, "rate_limited": False, "reasons": [], "warnings": [],
        "guardrails": {"drift": {"status": "evaluated", "seconds": 0.01, **(reason if blocks else {}),
                                 "data": {"score": score, "threshold": 0.5}}},
        "seconds": 0.01, "text": text, "characters": len(text), **({"tenant": tenant} if tenant else {}),
    }  # fmt: skip


BEGIN = datetime(2026, 1, 5, 12, tzinfo=UTC)


def write(path, events):
    path.write_text("".join(json.dumps(one) + "\n" for one in events), encoding="utf-8")
    return path


def test_a_threshold_is_told_with_what_it_adds_and_spares(tmp_path):
    events = [event(f"c{n}", BEGIN + timedelta(minutes=n), n / 100, blocks=n >= 50) for n in range(100)]
    found = report_audit(write(tmp_path / "a.jsonl", events), threshold=0.6, alarms=0.05)
    assert (found.what_if.flagged.count, found.what_if.now, found.what_if.added, found.what_if.spared) == (
        40, 50, 0, 10,
    )  # fmt: skip
    assert found.alarms.flagged.count == 5 and found.alarms.threshold == pytest.approx(0.945)
    lower = report_audit(tmp_path / "a.jsonl", threshold=0.4).what_if
    assert (lower.flagged.count, lower.added, lower.spared) == (60, 10, 0)
    assert sum(found.histogram) == 100 and found.histogram[0] == 5


def test_a_tie_at_the_threshold_flags_no_more_than_was_allowed(tmp_path):
    events = [event(f"c{n}", BEGIN, 0.9 if n < 10 else 0.1) for n in range(100)]
    found = report_audit(write(tmp_path / "a.jsonl", events), alarms=0.05).alarms
    assert found.flagged.count == 0 and found.threshold > 0.9


def test_scores_and_languages_that_drift_are_named(tmp_path):
    generator, events = random.Random(1), []
    for week in range(8):
        for n in range(40):
            later = week >= 6
            text = "Wie funktionieren die Gezeiten, und warum zweimal am Tag?" if later and n % 2 else None
            score = round(generator.random() * 0.4 + (0.3 if later else 0.0), 3)
            when = BEGIN + timedelta(days=7 * week, minutes=n)
            made = event(f"w{week}-{n}", when, score, blocks=score >= 0.5, tenant="web" if n % 3 else "desk")
            events.append({**made, "text": text or made["text"]})
    found = report_audit(write(tmp_path / "a.jsonl", events))
    drifted = {(one.value, one.week.isoformat()) for one in found.weeks.weeks if one.drift}
    assert {("", "2026-02-16"), ("", "2026-02-23"), ("web", "2026-02-16")} <= drifted
    assert not [week for value, week in drifted if week < "2026-02-16"]
    assert {one.value for one in found.languages.weeks if one.drift} == {"de", "en"}
    assert {one.name for one in found.counts["tenant"]} == {"web", "desk"}


def test_a_bound_on_false_alarms_needs_labels_of_a_random_sample(tmp_path, cli):
    path = write(tmp_path / "a.jsonl", [event(f"c{n}", BEGIN, n / 160) for n in range(160)])
    assert cli("guard", "report", path, "--labels", tmp_path / "l.db").code == 0
    with Store(tmp_path / "l.db") as store:
        order = LabelQueue(store).order(Order.ALL)
        assert len(order) == 160
        with pytest.raises(UsageError, match="0 benign conversations are too few"):
            report_audit(path, labels=store, false_alarms=0.05)
        for name in order[40:]:  # not from the beginning of the order: no random sample
            store.people.correct_label(name, Label.BENIGN, "ann", BLIND)
        with pytest.raises(UsageError, match="0 benign conversations are too few"):
            report_audit(path, labels=store, false_alarms=0.05)
        for place, name in enumerate(order[:40]):
            store.people.correct_label(name, Label.ATTACK if place % 10 == 0 else Label.BENIGN, "ann", BLIND)
        found = report_audit(path, labels=store, false_alarms=0.05)
        assert found.benign == 156
        benign = [int(name[1:]) / 160 for place, name in enumerate(order) if place >= 40 or place % 10]
        above = sum(score >= found.bounded.threshold for score in benign)
        assert 0 < above < 0.05 * len(benign)


def test_what_can_not_be_told_is_said(tmp_path, cli):
    path = write(tmp_path / "a.jsonl", [event("a", BEGIN, 0.7, blocks=True)])
    with path.open("a", encoding="utf-8") as file:
        file.write('{"kind": "gap", "time": "2026-01-05T13:00:00+00:00", "dropped": 7}\n{"torn\n')
    found = report_audit(path)
    assert (found.missing, found.unreadable) == (7, 1)
    done = cli("guard", "report", path, "--threshold", "0.6")
    assert "7 checks were lost" in done.err
    (line,) = (line for line in done.out.splitlines() if "to switch on: " in line)
    (step,) = yaml.safe_load(line.partition("to switch on: ")[2].partition(" in the configuration")[0])
    assert step == {"drift": {"block_at": 0.6}}
    GuardrailPipeline({"guardrails": [step]}).close()
    (tmp_path / "b.jsonl").write_text("hello\n")
    with pytest.raises(GuardError, match="is not an audit"):
        report_audit(tmp_path / "b.jsonl")
    with pytest.raises(UsageError, match="alarms is 3"):
        report_audit(path, alarms=3.0)
    for option in (["--false-alarms", "0.01"], ["--since", "yesterday"]):
        assert cli("guard", "report", path, *option).code == 2


def test_replay_writes_what_it_would_have_done(tmp_path, cli):
    chats = [Conversation.from_turns([(text, "Yes.") for text in texts], conversation_id=name).to_dict()
             for name, texts in TEXTS.items()]  # fmt: skip
    (tmp_path / "chats.jsonl").write_text("".join(json.dumps(one) + "\n" for one in chats))
    (tmp_path / "guard.yaml").write_text(json.dumps(WORDS))
    told = []
    for jobs in ("1", "2"):
        audit = tmp_path / f"audit-{jobs}.jsonl"
        arguments = ["--config", tmp_path / "guard.yaml", "--audit", audit, "-j", jobs, "--json"]
        assert cli("guard", "replay", tmp_path / "chats.jsonl", *arguments).code == 0
        found = report_audit(audit)
        told.append((found.checks, found.would_block.count, {one.conversation_id for one in found.to_read}))
    assert told[0] == told[1] == (16, 2, {"a", "d"})
