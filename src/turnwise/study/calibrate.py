"""Thresholds for a conversation-level false-positive rate, with a guarantee or with the reason why there is
none."""

from __future__ import annotations

import math
from collections.abc import Sequence

from turnwise.errors import UsageError

LEAST_RATE = 1e-9
"""A rate below this is refused: no study has the conversations to tell it from 0."""


def threshold_for(scores: Sequence[float], alpha: float) -> float:
    """Return a threshold that flags a further benign conversation with probability at most alpha.

    The probability is over the calibration conversations too: (number of scores at or above the threshold + 1) /
    (n + 1) ≤ alpha, which holds in expectation if they and the further one are exchangeable. Source: V. Vovk, A.
    Gammerman and G. Shafer, "Algorithmic Learning in a Random World", 2005, in its one-sided form.

    Args:
        scores: highest score of each benign calibration conversation.
        alpha: false-positive rate, in (0, 1).

    Returns:
        A threshold that lies between two scores that occurred, or above them all.

    Raises:
        UsageError: alpha out of range, or too few conversations for it; the message says how many are needed.

    >>> threshold_for([0.1, 0.2, 0.3, 0.4], alpha=0.4)
    0.35
    """
    check_rate("alpha", alpha)
    allowed = math.floor(alpha * (len(scores) + 1) + 1e-9) - 1
    if allowed < 0:
        raise UsageError(
            f"{len(scores)} benign conversations are too few for a false-positive rate of {alpha:g}: at least "
            f"{math.ceil(1 / alpha - 1e-9) - 1} are needed"
        )
    return _above_all_but(scores, allowed)


def threshold_with_confidence(scores: Sequence[float], alpha: float, confidence: float = 0.95) -> float:
    """Return a threshold whose false-positive rate is at most alpha with high probability over the calibration
    data.

    With k scores at or above the threshold, P(Binomial(n, alpha) ≤ k) ≤ 1 - confidence. Source: the exact binomial
    bound of C. J. Clopper and E. S. Pearson, Biometrika 26 (1934).

    Args:
        scores: highest score of each benign calibration conversation.
        alpha: false-positive rate, in (0, 1).
        confidence: probability with which the rate is kept, in (0, 1).

    Raises:
        UsageError: an argument out of range, or too few conversations; the message says how many are needed.

    >>> threshold_with_confidence([0.0] * 298, alpha=0.01)
    Traceback (most recent call last):
        ...
    turnwise.errors.UsageError: 298 benign conversations are too few for a false-positive rate of 0.01 with 95 % \
confidence: at least 299 are needed
    """
    from scipy.stats import binom

    needed = needed_benign(alpha, confidence)
    if len(scores) < needed:
        raise UsageError(
            f"{len(scores)} benign conversations are too few for a false-positive rate of {alpha:g} with "
            f"{100 * confidence:g} % confidence: at least {needed} are needed"
        )
    allowed = 0
    while allowed + 1 < len(scores) and binom.cdf(allowed + 1, len(scores), alpha) <= 1 - confidence:
        allowed += 1
    return _above_all_but(scores, allowed)


def needed_benign(alpha: float, confidence: float = 0.95) -> int:
    """Return how many benign conversations a threshold with this confidence needs, if none of them may be flagged.

    Args:
        alpha: false-positive rate, in (0, 1).
        confidence: probability with which the rate is kept, in (0, 1).

    Raises:
        UsageError: an argument out of range.

    >>> needed_benign(0.01)
    299
    """
    check_rate("alpha", alpha)
    check_rate("confidence", confidence)
    return math.ceil(math.log1p(-confidence) / math.log1p(-alpha))


def strictest_threshold(scores: Sequence[float]) -> float:
    """Return a threshold just above all scores: what ranks detectors where there are too few for a rate.

    Args:
        scores: highest score of each benign conversation; none at all gives a threshold just above 0.

    >>> strictest_threshold([0.25, 0.5]) > 0.5
    True
    """
    highest = max(scores, default=0.0)
    return highest + max(abs(highest), 1.0) * 1e-6


def check_rate(name: str, value: float) -> None:
    """Check that a rate or confidence lies in (0, 1), and is not so small that it could never be measured.

    Args:
        name: what it is called, for the message.
        value: the rate.

    Raises:
        UsageError: it does not.
    """
    if not LEAST_RATE <= value < 1:
        raise UsageError(f"{name} must lie in (0, 1), at least {LEAST_RATE:g}, not {value:g}")


def _above_all_but(scores: Sequence[float], count: int) -> float:
    """Return a threshold with at most `count` scores at or above it, as low as it can be."""
    ordered = sorted(scores, reverse=True)
    highest_below = ordered[count]
    above = [score for score in ordered if score > highest_below]
    if above:
        return (above[-1] + highest_below) / 2
    return strictest_threshold(ordered)
