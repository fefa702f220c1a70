"""Where a conversation began to drift, from what the drift guardrail kept with each turn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from turnwise.errors import ScoreError
from turnwise.guard.forensics.checks import KeptCheck
from turnwise.scoring import Score

METHOD: Final = (
    "the turn after the last one at which the detector's score was lowest before it rose to its first alarm; "
    "Page's estimate of the change point of a cumulative sum (Biometrika 41, 1954), used for every detector"
)
"""How the turn where drift began is found."""

_EQUAL = 1e-9
"""Scores that differ by no more count as equal."""


@dataclass(frozen=True, slots=True)
class Point:
    """What a drift guardrail kept of one check.

    Args:
        turn: number of the turn.
        side: ``input`` or ``output``.
        score: what the detector said.
        active: whether it was over its threshold.
        scores: T, I and F by principle.
        data: everything that it kept.
    """

    turn: int
    side: str
    score: float
    active: bool
    scores: Mapping[str, Score]
    data: Mapping[str, Any]


def courses(checks: Iterable[KeptCheck]) -> dict[str, list[Point]]:
    """Return by drift guardrail what it kept, turn by turn.

    A guardrail is one where its data say so (a detector with its score), whatever its name.
    """
    found: dict[str, list[Point]] = {}
    for check in checks:
        for name, detail in check.details.items():
            point = _point(check, detail.get("data"))
            if point is not None:
                found.setdefault(name, []).append(point)
    return found


def drift_of(name: str, points: Sequence[Point]) -> dict[str, Any]:
    """Return what a drift guardrail saw of a conversation, as JSON values.

    Args:
        name: the guardrail.
        points: what it kept, turn by turn; at least one.
    """
    last = points[-1].data
    return {
        "guardrail": name,
        "detector": str(last["detector"]),
        "threshold": _number(last.get("threshold")),
        "warn": _number(last.get("warn")),
        "scores": [
            {"turn": point.turn, "side": point.side, "score": point.score, "active": point.active}
            for point in points
        ],
        "alarms": sorted({point.turn for point in points if point.active}),
        "began": began(points),
    }


def began(points: Sequence[Point]) -> dict[str, Any] | None:
    """Return where drift began: its turn, the alarm or peak that it led to, and how that was found.

    A cumulative sum is zero before the first turn, so one that rises from the start began at turn 1. Where no
    alarm was given, the same is told of the highest score, which need not mean anything; None where the score
    never rose.

    Args:
        points: what a drift guardrail kept, turn by turn.

    >>> def at(turn, score, active=False):
    ...     return Point(turn, "input", score, active, {}, {"detector": "cusum"})
    >>> began([at(1, 0.0), at(2, 0.2), at(3, 0.0), at(4, 0.3), at(5, 0.7, True)])["turn"]
    4
    """
    alarm = next((place for place, point in enumerate(points) if point.active), None)
    peak = max(range(len(points)), key=lambda place: points[place].score, default=None)
    end = alarm if alarm is not None else peak
    if end is None:
        return None
    before = [point.score for point in points[:end]]
    lowest = min(before, default=math.inf)
    if alarm is None and not points[end].score > lowest + _EQUAL:
        return None
    # A cumulative sum that is above zero from the first turn on began with the conversation.
    from_start = not before or (str(points[0].data["detector"]).startswith("cusum") and lowest > _EQUAL)
    place = 0
    if not from_start:
        place = 1 + max(at for at, score in enumerate(before) if score <= lowest + _EQUAL)
    return {
        "turn": points[place].turn,
        "led_to": points[end].turn,
        "alarm": alarm is not None,
        "score": points[end].score,
        "method": METHOD,
    }


def _point(check: KeptCheck, data: object) -> Point | None:
    if not isinstance(data, Mapping) or not isinstance(data.get("detector"), str):
        return None
    score = _number(data.get("score"))
    if score is None:
        return None
    return Point(check.turn, check.side, score, data.get("active") is True, _scores(data.get("scores")), data)


def _scores(value: object) -> dict[str, Score]:
    """Return the scores that can be read; others are gaps."""
    found = {}
    for name, score in value.items() if isinstance(value, Mapping) else ():
        try:
            found[str(name)] = score if isinstance(score, Score) else Score.from_dict(score)
        except (ScoreError, TypeError):
            continue
    return found


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
