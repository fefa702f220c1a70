"""Turns, times and sessions to test with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from turnwise.scoring import Score, TurnScores
from turnwise.sessions import SessionMemory, SessionState, Stance

NOW = datetime(2025, 3, 1, 12, tzinfo=UTC)
HERE = Path(__file__).parent
RECORDED = HERE / "session_memory_20.json"


@pytest.fixture
def now() -> datetime:
    return NOW


@pytest.fixture
def recorded_file() -> Path:
    return RECORDED


@pytest.fixture
def turn() -> Callable[..., TurnScores]:
    """Return a turn of one principle: F, and T and length where they matter."""

    def make(F: float, T: float = 0.8, length: int = 100, number: int = 1) -> TurnScores:
        return TurnScores(number, {"reciprocity": Score(T=T, I=0.3, F=F)}, length=length)

    return make


@pytest.fixture
def after(turn: Callable[..., TurnScores]) -> Callable[..., tuple[SessionState, Stance]]:
    """Run a session over turns, given as F or as scores, a minute apart."""

    def run(memory: SessionMemory, turns: Iterable[Any], state: SessionState | None = None, **more: Any) -> Any:
        stance = None
        state = state or memory.start("user-1", NOW)
        for item in turns:
            scores = item if isinstance(item, TurnScores) else turn(item)
            state, stance = memory.update(state, scores, state.last_at + timedelta(minutes=1), **more)
        return state, stance

    return run
