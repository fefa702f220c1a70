"""A running pipeline takes another configuration at once: sessions and limits live on, checks under way end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from turnwise import Conversation, GuardrailPipeline
from turnwise.errors import GuardError, UnknownNameError
from turnwise.guard import CLEAN, Check, Finding, Guardrail, SqliteStateStore, read_audit

NOON = datetime(2025, 1, 31, 12, tzinfo=UTC)
WORDS = {"guardrails": [{"keywords": {"keywords": ["project x"]}}]}
OTHER_WORDS = {"guardrails": [{"keywords": {"keywords": ["project y"]}}]}


def test_guardrails_are_switched_off_and_on() -> None:
    pipeline = GuardrailPipeline(WORDS)
    pipeline.disable("keywords")
    result = pipeline.check_input("About project x")
    assert not result.blocked and result.details["keywords"].reason == "not enabled"
    assert [step.enabled for step in pipeline.steps] == [False]
    pipeline.enable("keywords")
    assert pipeline.check_input("About project x").blocked
    with pytest.raises(UnknownNameError, match="did you mean 'keywords'"):
        pipeline.disable("keyword")


def test_another_configuration_holds_from_the_next_check_on() -> None:
    pipeline = GuardrailPipeline(WORDS)
    chat = Conversation("ann")
    assert pipeline.check_input("project x", chat).blocked
    pipeline.reload(OTHER_WORDS)
    assert not pipeline.check_input("project x", chat).blocked
    assert pipeline.check_input("project y", chat).blocked
    assert pipeline.config.entries[0].settings["keywords"] == ["project y"]


def test_files_are_read_again(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("project x", encoding="utf-8")
    (tmp_path / "guard.yaml").write_text("guardrails:\n  - keywords: {file: words.txt}", encoding="utf-8")
    pipeline = GuardrailPipeline(tmp_path / "guard.yaml")
    (tmp_path / "words.txt").write_text("project y", encoding="utf-8")
    pipeline.reload(tmp_path / "guard.yaml")
    assert pipeline.check_input("project y").blocked


@pytest.mark.parametrize(
    "bad",
    [
        {"guardrails": []},
        {"guardrails": [{"keywords": {"keywords": []}}]},
        {"guardrails": ["pii", "no_such_guardrail"]},
        {"guardrails": ["pii"], "audit": {"path": "/no/such/folder/audit.jsonl"}},
        "no such file.yaml",
    ],
)
def test_a_bad_configuration_changes_nothing(bad: Any) -> None:
    pipeline = GuardrailPipeline(WORDS)
    before = pipeline.steps
    with pytest.raises(GuardError):
        pipeline.reload(bad)
    assert pipeline.steps == before and pipeline.check_input("project x").blocked


def test_a_configuration_that_is_refused_leaves_its_state_store_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    monkeypatch.setattr(SqliteStateStore, "close", lambda store: closed.append(store.path))
    bad = WORDS | {
        "state": {"sqlite": str(tmp_path / "guard.db")},
        "audit": {"path": "/no/such/folder/audit.jsonl"},
    }
    with pytest.raises(GuardError):
        GuardrailPipeline(bad)
    assert closed == [str(tmp_path / "guard.db")]


@pytest.mark.parametrize("warn_share", [0.5, 0.9])
def test_sessions_live_on(warn_share: float) -> None:
    def config(share: float) -> dict[str, Any]:
        drift = {"observer": "scripted:0.99,0.99,0.99,0.99,0.99,0.99,0", "block_at": 0.5, "warn_share": share}
        return {"guardrails": [{"drift": drift}], "session_by": "initiator"}

    pipeline = GuardrailPipeline(config(0.5))
    chat = Conversation("mallory")
    for _ in range(5):
        before = pipeline.check_input("an attack", chat)
    assert before.stance is not None and before.stance.trust < 0.5
    pipeline.reload(config(warn_share))
    after = pipeline.check_input("an attack", chat)
    assert after.stance is not None and after.stance.trust <= before.stance.trust
    stranger = pipeline.check_input("hello", Conversation("alice"))
    assert stranger.stance is not None and stranger.stance.trust > after.stance.trust


@pytest.mark.parametrize("limits", [{"per_key": {"minute": 2}}, {"per_key": {"minute": 3, "hour": 90}}])
def test_what_rate_limits_counted_counts_on(limits: dict[str, Any]) -> None:
    pipeline = GuardrailPipeline({**WORDS, "rate_limits": {"per_key": {"minute": 2}}}, clock=lambda: NOON)
    for _ in range(2):
        pipeline.check_input("hello", key="ann")
    pipeline.reload({**WORDS, "rate_limits": limits})
    refused = [pipeline.check_input("hello", key="ann").rate_limited for _ in range(2)]
    assert refused == ([True, True] if limits["per_key"]["minute"] == 2 else [False, True])
    assert not pipeline.check_input("hello", key="ben").rate_limited


def test_the_audit_of_the_old_configuration_keeps_what_it_was_told(tmp_path: Path) -> None:
    def config(name: str) -> dict[str, Any]:
        return {**WORDS, "audit": {"path": str(tmp_path / name)}}

    with GuardrailPipeline(config("a.jsonl")) as pipeline:
        pipeline.check_input("one")
        pipeline.reload(config("a.jsonl"))
        pipeline.check_input("two")
        pipeline.reload(config("b.jsonl"))
        pipeline.check_input("three")
    texts = [[event["text"] for event in read_audit(tmp_path / name).events] for name in ("a.jsonl", "b.jsonl")]
    assert texts == [["one", "two"], ["three"]]


@dataclass(frozen=True)
class Gate(Guardrail):
    """Waits until it is let go on, and then says which configuration it is of."""

    says: str
    began: Event = field(default_factory=Event)
    go_on: Event = field(default_factory=Event)
    default_timeout = 60.0

    def check(self, check: Check) -> Finding:
        self.began.set()
        assert self.go_on.wait(60.0)
        return Finding(True, self.says, 1.0)


def test_a_check_under_way_ends_with_the_configuration_that_it_began_with() -> None:
    gate = Gate("the old one")
    steps = [{"use": gate, "name": "gate"}, {"keywords": {"keywords": ["project x"], "name": "after"}}]
    pipeline = GuardrailPipeline({"guardrails": steps, "short_circuit": False})
    results = []
    check = Thread(target=lambda: results.append(pipeline.check_input("project x")))
    check.start()
    assert gate.began.wait(60.0)
    pipeline.reload(OTHER_WORDS)
    assert not pipeline.check_input("project x").blocked  # the new one, while the old check waits
    gate.go_on.set()
    check.join(60.0)
    assert set(results[0].reasons) == {"gate: the old one", "after: 'project x'"}


def test_so_does_a_stream() -> None:
    pipeline = GuardrailPipeline(WORDS)
    stream = pipeline.stream_output()
    pipeline.reload(OTHER_WORDS)
    assert "".join(stream.guard(["It is about pro", "ject x."])) == "" and stream.blocked
    assert not pipeline.check_output("It is about project x.").blocked


@dataclass(frozen=True)
class Word(Guardrail):
    """Blocks one word."""

    word: str
    default_timeout = None

    def check(self, check: Check) -> Finding:
        return Finding(True, self.word, 1.0) if self.word in check.text else CLEAN


def test_every_check_runs_by_one_configuration_while_others_change_it() -> None:
    """Two guardrails always change together, so every result has both of one configuration."""

    def config(word: str) -> dict[str, Any]:
        return {
            "guardrails": [{"use": Word(word), "name": "first"}, {"use": Word(word), "name": "second"}],
            "short_circuit": False,
        }

    pipeline = GuardrailPipeline(config("a"))
    stop, wrong = Event(), []

    def checks() -> Iterator[None]:
        while not stop.is_set():
            reasons = {reason.split(": ")[1] for reason in pipeline.check_input("a b").reasons}
            if len(reasons) != 1:
                wrong.append(json.dumps(sorted(reasons)))
            yield

    threads = [Thread(target=lambda: list(checks())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(200):
        pipeline.reload(config("ab"[number % 2]))
        pipeline.disable("first")
        pipeline.enable("first")
    stop.set()
    for thread in threads:
        thread.join(60.0)
    assert wrong == []
