"""Every kit takes an instance, or what makes one without arguments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turnwise.datasets import check_loader, get_loader
from turnwise.detectors import build_detector, check_detector
from turnwise.guard import Check, Finding, SqliteStateStore, build_guardrail, check_guardrail, check_state_store
from turnwise.observers import ScriptedObserver, check_observer
from turnwise.sessions import MemoryStateStore


@pytest.fixture
def example(tmp_path: Path) -> Path:
    path = tmp_path / "chats.jsonl"
    path.write_text(json.dumps({"id": "a", "label": "attack", "turns": [{"role": "user", "content": "Hi"}]}))
    return path


@pytest.mark.parametrize("made", ["instance", "factory"])
def test_every_kit_takes_an_instance_or_a_factory(made: str, example: Path, tmp_path: Path) -> None:
    alone = made == "instance"
    check_detector(build_detector("cusum") if alone else lambda: build_detector("cusum"))
    check_observer(ScriptedObserver("0.1,0.9") if alone else lambda: ScriptedObserver("0.1,0.9"))
    check_guardrail(
        build_guardrail("length", max_characters=9)
        if alone
        else lambda: build_guardrail("length", max_characters=9)
    )
    check_loader(get_loader("turnwise") if alone else lambda: get_loader("turnwise"), example)
    check_state_store(SqliteStateStore(tmp_path / "s.db") if alone else MemoryStateStore)


@pytest.mark.parametrize("kit", [check_detector, check_observer, check_guardrail, check_state_store])
def test_what_is_neither_is_told(kit) -> None:
    with pytest.raises(AssertionError, match=r"'cusum' has no \w+, and makes nothing that has"):
        kit("cusum")


def test_a_store_that_takes_limits_is_tried_at_them() -> None:
    class Forgetful(MemoryStateStore):
        def __init__(self, *, limit=10, ttl=None, clock=None) -> None:
            super().__init__(limit=10_000)  # it keeps more than it was told

    with pytest.raises(AssertionError, match="of a, b, c, a, b, d it keeps"):
        check_state_store(Forgetful)
    check_state_store(Forgetful())


def test_the_kit_of_guardrails_takes_plain_functions() -> None:
    def shouting(check: Check) -> Finding:
        return Finding(check.text.isupper(), "capitals")

    async def later(check: Check) -> Finding:
        return shouting(check)

    def wrong(check: Check) -> Finding:
        return check.text.isupper()  # type: ignore[return-value]

    check_guardrail(shouting)
    check_guardrail(later)
    with pytest.raises(AssertionError, match="it returned bool, not a Finding"):
        check_guardrail(wrong)
