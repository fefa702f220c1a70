"""Where a conversation began to drift, from what the drift guardrail kept with each turn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from turnwise.guard.metadata import INITIATOR, KeptCheck, KeptDrift, kept_drift

METHOD: Final = (
    "the turn after the last one at which the detector's score was lowest before it rose to its first alarm; "
    "Page's estimate of the change point of a cumulative sum (Biometrika 41, 1954), used for every detector"
)
"""How the turn where drift began is found."""

_EQUAL = 1e-9
"""Scores that differ by no more count as equal."""


@dataclass(frozen=True, slots=True)
class DriftPoint:
    """What a drift guardrail kept of one side of a turn, ``input`` or ``output``."""

    turn: int
    side: str
    kept: KeptDrift


def drift_points(checks: Iterable[KeptCheck]) -> dict[str, list[DriftPoint]]:
    """What each drift guardrail kept, turn by turn.

    Trajectories of the responder's texts have names of their own, such as ``drift (responder)``.
    """
    found: dict[str, list[DriftPoint]] = {}
    for check in checks:
        for name, kept in kept_drift(check).items():
            whose = name if kept.trajectory == INITIATOR else f"{name} ({kept.trajectory})"
            found.setdefault(whose, []).append(DriftPoint(check.turn, check.side, kept))
    return found


def drift_summary(name: str, points: Sequence[DriftPoint]) -> dict[str, Any]:
    """What a drift guardrail saw of a conversation, as JSON values; needs at least one point."""
    last = points[-1].kept
    return {
        "guardrail": name,
        "detector": last.detector,
        "threshold": last.threshold,
        "warn": last.warn,
        "scores": [
            {"turn": point.turn, "side": point.side, "score": point.kept.score, "active": point.kept.active}
            for point in points
        ],
        "alarms": sorted({point.turn for point in points if point.kept.active}),
        "began": began(points),
    }


def began(points: Sequence[DriftPoint]) -> dict[str, Any] | None:
    """Where drift began: its turn, the alarm or peak that it led to, and how that was found (`METHOD`).

    A cumulative sum is zero before the first turn, so one that rises from the start began at turn 1. Without an
    alarm the same is told of the highest score, which need not mean anything; None where the score never rose.

    >>> def at(turn, score, active=False):
    ...     return DriftPoint(turn, "input", KeptDrift("cusum", score, 0.5, None, active, {}))
    >>> began([at(1, 0.0), at(2, 0.2), at(3, 0.0), at(4, 0.3), at(5, 0.7, True)])["turn"]
    4
    """
    alarm = next((place for place, point in enumerate(points) if point.kept.active), None)
    peak = max(range(len(points)), key=lambda place: points[place].kept.score, default=None)
    end = alarm if alarm is not None else peak
    if end is None:
        return None
    before = [point.kept.score for point in points[:end]]
    lowest = min(before, default=math.inf)
    if alarm is None and not points[end].kept.score > lowest + _EQUAL:
        return None
    # A cumulative sum that is above zero from the first turn on began with the conversation.
    from_start = not before or (points[0].kept.detector.startswith("cusum") and lowest > _EQUAL)
    place = 0
    if not from_start:
        place = 1 + max(at for at, score in enumerate(before) if score <= lowest + _EQUAL)
    return {
        "turn": points[place].turn,
        "led_to": points[end].turn,
        "alarm": alarm is not None,
        "score": points[end].kept.score,
        "method": METHOD,
    }
