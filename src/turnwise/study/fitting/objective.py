"""What tuning looks for: recall at a false-positive rate, or the highest F1."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import groupby
from typing import Literal

from turnwise.errors import UnknownNameError, UsageError

OBJECTIVES = ("recall", "f1")
"""Recall where few benign conversations are flagged; F1, for those who reproduce results that were tuned by it."""

Objective = Literal["recall", "f1"]


def check_objective(objective: str) -> None:
    """Raise an `UnknownNameError` where there is no such objective."""
    if objective not in OBJECTIVES:
        raise UnknownNameError("objective", objective, OBJECTIVES)


def f1(caught: int, flagged_benign: int, attacks: int) -> float:
    """F1, the harmonic mean of precision and recall; 0 where nothing is flagged.

    >>> f1(caught=8, flagged_benign=2, attacks=10)
    0.8
    """
    return 2 * caught / (attacks + caught + flagged_benign)


def threshold_for_f1(scores: Iterable[tuple[bool, float]]) -> float:
    """The threshold of the highest F1, of several the highest; halfway between two scores, or the lowest one.

    F1 hangs on the share of attacks among the conversations, so the threshold holds for such a mix alone. It is
    tuned on the very conversations that are given, and its F1 on these is flattered: Z. C. Lipton, C. Elkan and B.
    Naryanaswamy, "Optimal thresholding of classifiers to maximize F1 measure", ECML PKDD 2014.

    >>> threshold_for_f1([(True, 0.9), (True, 0.6), (False, 0.4), (True, 0.3), (False, 0.2)])
    0.25
    >>> threshold_for_f1([(True, 0.9), (False, 0.6), (False, 0.4), (False, 0.3)])
    0.75
    """
    ordered = sorted(scores, key=lambda one: -one[1])
    attacks = sum(attack for attack, _ in ordered)
    if not attacks:
        raise UsageError("a threshold for F1 needs attacks, and there are none")
    if ordered[0][1] == -math.inf:
        raise UsageError("a threshold for F1 needs evidence, and no conversation has any")
    told = (one for one in ordered if one[1] > -math.inf)
    levels = [(value, [attack for attack, _ in same]) for value, same in groupby(told, key=lambda one: one[1])]
    best, threshold = -1.0, 0.0
    caught = flagged = 0
    for place, (value, labels) in enumerate(levels):
        caught += sum(labels)
        flagged += len(labels) - sum(labels)
        reached = f1(caught, flagged, attacks)
        if reached > best:
            below = levels[place + 1][0] if place + 1 < len(levels) else value
            best, threshold = reached, (value + below) / 2
    return threshold
