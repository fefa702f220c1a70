"""What curves are drawn from: corners of the ROC curve, rates asked and realised, mean scores over the turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from turnwise.errors import UsageError
from turnwise.rates import clopper_pearson
from turnwise.stats.examples import Example
from turnwise.stats.judged import Judged, evaluated
from turnwise.stats.thresholds import threshold_for

NOMINAL = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2)
"""False-positive rates at which calibration is looked at."""


def roc_points(judged: Sequence[Judged]) -> list[tuple[float, float]]:
    """The corners of the ROC curve as (false-positive rate, recall), from (0, 0) to (1, 1).

    >>> roc_points([Judged("a", "a", True, 1, 0.9), Judged("b", "b", False, 1, 0.1)])
    [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0)]
    """
    scores = sorted(((one.score, one.attack) for one in evaluated(judged) if one.score is not None), reverse=True)
    attacks = sum(attack for _, attack in scores)
    benign = len(scores) - attacks
    if not attacks or not benign:
        return []
    points = [(0.0, 0.0)]
    caught = flagged = 0
    for place, (score, attack) in enumerate(scores):
        caught += attack
        flagged += not attack
        if place + 1 == len(scores) or scores[place + 1][0] != score:
            points.append((flagged / benign, caught / attacks))
    return _corners(points)


def _corners(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Leave out points in the middle of a straight run."""
    kept = list(points[:1])
    for before, point, after in zip(points, points[1:], points[2:], strict=False):
        level = before[1] == point[1] == after[1]
        steep = before[0] == point[0] == after[0]
        if not (level or steep):
            kept.append(point)
    return [*kept, *points[1:][-1:]]


def realised_rates(calibrate: Sequence[float], test: Sequence[float]) -> list[dict[str, float]]:
    """Return false-positive rates as asked and as realised, the latter with exact 95 % intervals.

    A threshold is set for each rate of `NOMINAL` on some benign conversations and used on others; rates for which
    the former are too few are left out.

    Args:
        calibrate: highest score of each benign conversation that sets the thresholds.
        test: of each that they are used on.

    >>> [point] = realised_rates([n / 10 for n in range(5)], [0.1, 0.9])
    >>> point["asked"], point["realised"]
    (0.2, 0.5)
    """
    points = []
    for asked in NOMINAL:
        try:
            limit = threshold_for(calibrate, asked)
        except UsageError:  # too few calibration conversations for this rate
            continue
        flagged = sum(score >= limit for score in test)
        low, high = clopper_pearson(flagged, len(test))
        points.append({"asked": asked, "realised": flagged / max(1, len(test)), "low": low, "high": high})
    return points


FEWEST_AT_A_TURN = 10
"""Conversations that a mean at a turn needs."""

_Z = 1.959963984540054


def mean_scores(examples: Sequence[Example]) -> list[dict[str, Any]]:
    """Mean T, I and F turn by turn, by label and principle, with 95 % intervals of the mean."""
    values: dict[tuple[str, str, str, int], list[float]] = {}
    for example in examples:
        label = "attack" if example.attack else "benign"
        for turn in example.turns:
            for principle, score in turn.scores.items():
                for component in "TIF":
                    key = (label, principle, component, turn.turn)
                    values.setdefault(key, []).append(getattr(score, component))
    rows = []
    for (label, principle, component, number), found in sorted(values.items()):
        if len(found) < FEWEST_AT_A_TURN:
            continue
        mean = math.fsum(found) / len(found)
        error = math.sqrt(math.fsum((value - mean) ** 2 for value in found) / (len(found) - 1) / len(found))
        rows.append(
            {
                "label": label,
                "principle": principle,
                "component": component,
                "turn": number,
                "mean": round(mean, 6),
                "low": round(max(0.0, mean - _Z * error), 6),
                "high": round(min(1.0, mean + _Z * error), 6),
                "conversations": len(found),
            }
        )
    return rows
