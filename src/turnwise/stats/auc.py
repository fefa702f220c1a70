"""Areas under ROC curves, with intervals, and whether scores are calibrated."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.errors import UsageError
from turnwise.rates import clopper_pearson
from turnwise.stats.bootstrap import Floats, Interval, Resamples, ResampleWeights, interval

Scale = Literal["plain", "logit"]
"""Scale on which the interval of an area is symmetric."""


@dataclass(frozen=True, slots=True)
class Auc:
    """The chance that an attack scores above a benign conversation, ties counted half, with its interval.

    `se` is DeLong's standard error, 0 where the scores separate the labels.
    """

    value: float
    low: float
    high: float
    se: float
    attacks: int
    benign: int
    confidence: float = 0.95


@dataclass(frozen=True, slots=True)
class AucTest:
    """A test of two areas, second less first; `z` is the difference over its error, 0 where both are 0."""

    first: float
    second: float
    difference: float
    low: float
    high: float
    z: float
    p: float


def auc_with_interval(attack: Sequence[float], benign: Sequence[float], scale: Scale = "logit") -> Auc:
    """The area under the ROC curve with DeLong's interval; scores are minus infinity where there was no evidence.

    The variance is DeLong's. The interval is symmetric on the logit scale by default, as M. S. Pepe, "The
    Statistical Evaluation of Medical Tests", 2003, section 5.2, advises: it stays inside [0, 1] and keeps its
    coverage near 1, where the plain one (value ± z standard errors, as most software prints) does not. If every
    attack scores above every benign conversation (or below), the variance is zero and says nothing; then the
    interval is the Clopper-Pearson one of min(attacks, benign) disjoint pairs, all ordered alike, which is exact
    but wide.

    Sources: E. R. DeLong, D. M. DeLong and D. L. Clarke-Pearson, Biometrics 44 (1988); X. Sun and W. Xu, "Fast
    implementation of DeLong's algorithm", IEEE Signal Processing Letters 21 (2014), for the O(n log n) form.

    >>> area = auc_with_interval([0.4, 0.8, 0.9, 0.7], [0.1, 0.4, 0.6])
    >>> round(area.value, 4), round(area.se, 4), round(area.low, 3), round(area.high, 3)
    (0.875, 0.1443, 0.345, 0.989)
    """
    from scipy.stats import norm

    values, covariance = auc_covariance([attack], [benign])
    value, error = float(values[0]), float(np.sqrt(max(covariance[0, 0], 0.0)))
    if error == 0:
        low, high = _without_variance(value, min(len(attack), len(benign)))
    else:
        z = float(norm.isf((1 - 0.95) / 2))
        if scale == "plain" or not 0 < value < 1:
            low, high = value - z * error, value + z * error
        else:
            centre, spread = np.log(value / (1 - value)), z * error / (value * (1 - value))
            low, high = (float(1 / (1 + np.exp(-(centre + sign * spread)))) for sign in (-1, 1))
    return Auc(value, max(0.0, low), min(1.0, high), error, len(attack), len(benign))


def delong_test(
    attack: tuple[Sequence[float], Sequence[float]],
    benign: tuple[Sequence[float], Sequence[float]],
) -> AucTest:
    """Test whether two detectors have the same area on the same conversations, given in the same order.

    Source: as for `auc_with_interval`. It takes conversations for independent; where they come in groups, read the
    bootstrap interval beside it.

    >>> test = delong_test(([4, 7, 8, 9], [3, 8, 9, 9]), ([1, 4, 6], [1, 2, 3]))
    >>> round(test.difference, 4), round(test.z, 3), round(test.p, 3)
    (0.0833, 0.894, 0.371)
    """
    from scipy.stats import norm

    values, covariance = auc_covariance(attack, benign)
    difference = float(values[1] - values[0])
    error = float(np.sqrt(max(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1], 0.0)))
    spread = float(norm.isf((1 - 0.95) / 2)) * error
    if error < 1e-12:
        z = 0.0 if abs(difference) < 1e-12 else float(np.copysign(np.inf, difference))
    else:
        z = difference / error
    return AucTest(
        first=float(values[0]),
        second=float(values[1]),
        difference=difference,
        low=max(-1.0, difference - spread),
        high=min(1.0, difference + spread),
        z=z,
        p=float(2 * norm.sf(abs(z))),
    )


def auc_covariance(
    attack: Sequence[Sequence[float]], benign: Sequence[Sequence[float]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The areas of several detectors, and DeLong's covariance matrix of them.

    Each has a row of scores of the same conversations in the same order; shapes (detectors, attacks) and
    (detectors, benign).

    >>> values, covariance = auc_covariance([[3.0, 4.0, 5.0]], [[1.0, 2.0, 3.0]])
    >>> round(float(values[0]), 6), round(float(covariance[0, 0]), 6)
    (0.944444, 0.006173)
    """
    from scipy.stats import rankdata

    if len({len(row) for row in attack}) != 1 or len({len(row) for row in benign}) != 1:
        raise UsageError("areas on the same conversations need one score a conversation of each detector")
    above, below = np.asarray(attack, dtype=float), np.asarray(benign, dtype=float)
    attacks, others = above.shape[1], below.shape[1]
    if attacks < 2 or others < 2:
        raise UsageError(
            f"an area with an interval needs at least 2 attacks and 2 benign conversations, "
            f"not {attacks} and {others}"
        )
    if np.isnan(above).any() or np.isnan(below).any():
        raise UsageError("a score is not a number: leave out what was not evaluated")
    # The midrank among all, less the midrank among one's own, counts the other label below, ties half.
    together = rankdata(np.hstack([above, below]), axis=1)
    of_attack = (together[:, :attacks] - rankdata(above, axis=1)) / others
    of_benign = 1 - (together[:, attacks:] - rankdata(below, axis=1)) / attacks
    covariance = np.cov(of_attack) / attacks + np.cov(of_benign) / others
    return of_attack.mean(axis=1), np.atleast_2d(covariance)


def _without_variance(value: float, pairs: int) -> tuple[float, float]:
    if value == 1:
        return clopper_pearson(pairs, pairs)
    if value == 0:
        return clopper_pearson(0, pairs)
    half = clopper_pearson(round(value * pairs), pairs)
    return min(half[0], value), max(half[1], value)


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
    values, positive = np.asarray(scores), np.asarray(flagged)
    gap = values[positive][:, None] - values[~positive][None, :]
    above = (gap > 0) + 0.5 * (gap == 0)

    def area(weights: ResampleWeights) -> Floats:
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
