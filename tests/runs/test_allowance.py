"""What workers of a scan share: nothing where the observer is free, one budget and pace where it is paid for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turnwise.errors import UnknownNameError, UsageError
from turnwise.runs import InlineEngine, ProcessEngine, make_engine, plan_scan
from turnwise.runs.engines import shared_allowance


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    file = tmp_path / "chats.jsonl"
    file.write_text(json.dumps({"messages": [{"role": "user", "content": "Hello"}]}))
    return file


def test_workers_of_a_free_observer_share_nothing(chats: Path, tmp_path: Path) -> None:
    work = plan_scan(chats, tmp_path / "found", observer="scripted:0.1").work
    assert work.limits is None
    with shared_allowance(work) as shared:
        assert shared is work


def test_workers_of_a_paid_observer_share_budget_and_pace(
    chats: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
    work = plan_scan(
        chats,
        tmp_path / "found",
        observer="llm:openai/gpt-4.1-mini",
        settings={"budget_usd": 1.0, "requests_per_minute": 60},
    ).work
    assert work.limits == (1.0, 60)
    with shared_allowance(work) as shared:
        allowance = shared.allowance
        first, second = (allowance.call("take", 0.4).ticket for _ in range(2))
        assert first.delay == 0
        assert 0 < second.delay <= 1
        assert allowance.call("take", 0.4) == (None, None)


def test_engines_have_names_and_ray_alone_an_address() -> None:
    assert isinstance(make_engine("inline", 4), InlineEngine)
    assert isinstance(make_engine("process", 4), ProcessEngine)
    with pytest.raises(UnknownNameError, match="known: inline, process, ray"):
        make_engine("threads")
    with pytest.raises(UsageError, match="add --engine ray"):
        make_engine("process", 2, "auto")
