"""How well F ranks single turns, and whether it is calibrated, where somebody flagged some of them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from turnwise.study.stats.bootstrap import Interval, Resamples, Weights, interval

if TYPE_CHECKING:
    from turnwise.study.stats.bootstrap import Floats

BINS = (0.0, 0.1, 0.2, 0.5, 0.8, 1.0)
"""Ends of the classes of F in which calibration is told."""


class Bin(NamedTuple):
    """Turns whose F is in a class: how many, their mean F, and how many of them somebody flags."""

    low: float
    high: float
    turns: int
    mean: float
    flagged: int


def area_of_turns(drawn: Resamples, scores: Sequence[float], flagged: Sequence[bool]) -> Interval:
    """The area under the ROC curve, turns weighted as their conversations are drawn."""
    import numpy as np

    values, positive = np.asarray(scores), np.asarray(flagged)
    gap = values[positive][:, None] - values[~positive][None, :]
    above = (gap > 0) + 0.5 * (gap == 0)

    def area(weights: Weights) -> Floats:
        each = weights.each()
        ours, others = each[:, positive], each[:, ~positive]
        pairs = ours.sum(1) * others.sum(1)
        value: Floats = np.divide(
            ((ours @ above) * others).sum(1), pairs, out=np.full(len(pairs), np.nan), where=pairs > 0
        )
        return value

    return interval(area, drawn)


def classes_of(scores: Sequence[float], flagged: Sequence[bool]) -> list[Bin]:
    """The classes of F that have turns, in order."""
    pairs = list(zip(scores, flagged, strict=True))
    found = []
    for low, high in pairwise(BINS):
        some = [(f, flag) for f, flag in pairs if low <= f < high or f == high == BINS[-1]]
        if some:
            mean = statistics.fmean(f for f, _ in some)
            found.append(Bin(low, high, len(some), mean, sum(flag for _, flag in some)))
    return found
