"""Thresholds for a false-positive rate, with a guarantee, or for F1; on conversations as they are or weighted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np

from turnwise.errors import UsageError
from turnwise.stats.bootstrap import Floats

LEAST_RATE = 1e-9
"""A rate below this is refused: no study has the conversations to tell it from 0."""


def threshold_for(scores: Sequence[float], alpha: float, confidence: float | None = None) -> float:
    """Return a threshold for a false-positive rate, from the scores of benign calibration conversations.

    Without a confidence it flags a further benign conversation with probability at most alpha, over the
    calibration conversations too: (number of scores at or above the threshold + 1) / (n + 1) ≤ alpha, which holds
    in expectation if they and the further one are exchangeable. Source: V. Vovk, A. Gammerman and G. Shafer,
    "Algorithmic Learning in a Random World", 2005, in its one-sided form.

    With one its rate is at most alpha in that share of calibration sets: with k scores at or above the threshold,
    P(Binomial(n, alpha) ≤ k) ≤ 1 - confidence. Source: the exact binomial bound of C. J. Clopper and E. S.
    Pearson, Biometrika 26 (1934).

    Args:
        scores: highest score of each benign calibration conversation; minus infinity without evidence.
        alpha: false-positive rate, in (0, 1).
        confidence: probability with which the rate is kept, in (0, 1); None for on average.

    Returns:
        A threshold that lies between two scores that occurred, or above them all.

    Raises:
        UsageError: an argument out of range, or too few conversations; the message says how many are needed.

    >>> threshold_for([0.1, 0.2, 0.3, 0.4], alpha=0.4)
    0.35
    >>> threshold_for([0.0] * 298, alpha=0.01, confidence=0.95)
    Traceback (most recent call last):
        ...
    turnwise.errors.UsageError: 298 benign conversations are too few for a false-positive rate of 0.01 with 95 % \
confidence: at least 299 are needed
    """
    needed, count = needed_benign(alpha, confidence), len(scores)
    whole = np.array([float(count)])
    if allowed_above(whole, alpha, confidence)[0] < 0:
        sure = "" if confidence is None else f" with {100 * confidence:g} % confidence"
        raise UsageError(
            f"{count} benign conversations are too few for a false-positive rate of {alpha:g}{sure}: at least "
            f"{needed} are needed"
        )
    falling = np.sort(np.asarray(scores, dtype=float))[::-1]
    return float(weighted_thresholds(falling, np.ones((count, 1)), whole, alpha, confidence)[0])


def needed_benign(alpha: float, confidence: float | None = 0.95) -> int:
    """Return how many benign conversations a threshold needs, if none of them may be flagged.

    Args:
        alpha: false-positive rate, in (0, 1).
        confidence: probability with which the rate is kept, in (0, 1); None where it is kept on average.

    Raises:
        UsageError: an argument out of range.

    >>> needed_benign(0.01), needed_benign(0.01, None)
    (299, 99)
    """
    check_rate("alpha", alpha)
    if confidence is None:
        return math.ceil(1 / alpha - 1e-9) - 1
    check_rate("confidence", confidence)
    return math.ceil(math.log1p(-confidence) / math.log1p(-alpha))


def check_rate(name: str, value: float) -> None:
    """Check that a rate or confidence lies in (0, 1), and is not so small that it could never be measured."""
    if not LEAST_RATE <= value < 1:
        raise UsageError(f"{name} must lie in (0, 1), at least {LEAST_RATE:g}, not {value:g}")


def strictest_threshold(scores: Sequence[float]) -> float:
    """A threshold just above all scores, which ranks detectors where there are too few for a rate.

    >>> strictest_threshold([0.25, 0.5]) > 0.5
    True
    """
    highest = max((score for score in scores if score > -math.inf), default=0.0)
    return highest + max(abs(highest), 1.0) * 1e-6


def threshold_between(low: float, high: float) -> float:
    """The threshold halfway between two scores; just below the higher where the lower is no evidence."""
    return (low + high) / 2 if low > -math.inf else high - abs(high) * 1e-6


def weighted_thresholds(
    scores: Floats, weights: Floats, total: Floats, rate: float, confidence: float | None = None
) -> Floats:
    """The threshold of `threshold_for`, had each benign conversation counted `weights` times.

    NaN where the benign conversations are too few. `scores` fall, and are minus infinity without evidence; the
    lowest may be left out as long as the rest suffices. `weights` are whole numbers, of shape (scores, resamples);
    `total` is the weight of all, those left out included.

    >>> import numpy as np
    >>> weighted_thresholds(np.array([0.4, 0.3, 0.2, 0.1]), np.ones((4, 1)), np.array([4.0]), 0.4)
    array([0.35])
    """
    allowed = allowed_above(total, rate, confidence)
    columns = np.arange(weights.shape[1])
    below = (weights.cumsum(axis=0) > allowed).argmax(axis=0)
    # Of equal scores all are flagged or none: what lies above is above the first of them.
    first = np.searchsorted(-scores, -scores[below], side="left")
    places = np.arange(len(scores))[:, None]
    present = np.maximum.accumulate(np.where(weights > 0, places, -1), axis=0)
    above = np.where(first > 0, present[np.maximum(first - 1, 0), columns], -1)
    highest, lowest_above = scores[below], scores[above]
    without = np.isneginf(highest)  # no evidence, which no threshold flags
    start = np.where(without, np.where(above >= 0, lowest_above, 0.0), highest)
    halfway = np.where(without, start - np.abs(start) * 1e-6, (lowest_above + highest) / 2)
    limits = np.where(above >= 0, halfway, start + np.maximum(np.abs(start), 1.0) * 1e-6)
    return np.where(allowed >= 0, limits, np.nan)


def allowed_above(total: Floats, rate: float, confidence: float | None = None) -> Floats:
    """How many of so many benign conversations may be flagged; below 0 where there are too few.

    >>> import numpy as np
    >>> allowed_above(np.array([98.0, 99.0, 299.0]), 0.01), allowed_above(np.array([298.0, 299.0]), 0.01, 0.95)
    (array([-1.,  0.,  2.]), array([-1.,  0.]))
    """
    if confidence is None:
        return np.floor(rate * (total + 1) + 1e-9) - 1
    from scipy.stats import binom

    sizes, place = np.unique(total, return_inverse=True)
    count = binom.ppf(1 - confidence, sizes, rate)
    count = np.where(binom.cdf(count, sizes, rate) <= 1 - confidence, count, count - 1)
    # A threshold above all scores flags none, and one below all of them is none.
    found: Floats = np.minimum(count, np.maximum(sizes - 1, -1))[place]
    return found


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
