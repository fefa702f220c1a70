"""Thresholds for a false-positive rate, with a guarantee; recall and false alarms at such a threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.study.stats.bootstrap import Interval, Resamples, interval
from turnwise.study.stats.verdicts import Judged, evaluated
from turnwise.study.stats.weighted import alarms_of, recall_at_of

LEAST_RATE = 1e-9
"""A rate below this is refused: no study has the conversations to tell it from 0."""


def threshold_for(scores: Sequence[float], alpha: float) -> float:
    """Return a threshold that flags a further benign conversation with probability at most alpha.

    The probability is over the calibration conversations too: (number of scores at or above the threshold + 1) /
    (n + 1) ≤ alpha, which holds in expectation if they and the further one are exchangeable. Source: V. Vovk, A.
    Gammerman and G. Shafer, "Algorithmic Learning in a Random World", 2005, in its one-sided form.

    Args:
        scores: highest score of each benign calibration conversation; minus infinity without evidence.
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
    """Return a threshold whose false-positive rate is at most alpha, with high probability over calibration sets.

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
    """A threshold just above all scores, which ranks detectors where there are too few for a rate.

    >>> strictest_threshold([0.25, 0.5]) > 0.5
    True
    """
    highest = max((score for score in scores if score > -math.inf), default=0.0)
    return highest + max(abs(highest), 1.0) * 1e-6


def threshold_between(low: float, high: float) -> float:
    """The threshold halfway between two scores; just below the higher where the lower is no evidence."""
    return (low + high) / 2 if low > -math.inf else high - abs(high) * 1e-6


def check_rate(name: str, value: float) -> None:
    """Check that a rate or confidence lies in (0, 1), and is not so small that it could never be measured."""
    if not LEAST_RATE <= value < 1:
        raise UsageError(f"{name} must lie in (0, 1), at least {LEAST_RATE:g}, not {value:g}")


def _above_all_but(scores: Sequence[float], count: int) -> float:
    """A threshold with at most `count` scores at or above it, as low as it can be."""
    ordered = sorted(scores, reverse=True)
    highest_below = ordered[count]
    above = [score for score in ordered if score > highest_below]
    if above:
        return threshold_between(highest_below, above[-1])
    return strictest_threshold(ordered)


@dataclass(frozen=True, slots=True)
class RecallAt:
    """Recall where the threshold is set for a false-positive rate on the same benign conversations.

    `recall` has the exact interval for that threshold alone. `interval` is a bootstrap that sets the threshold
    anew on each resample, so that it holds for that choice too. `reason` says why there is no number.
    """

    rate: float
    threshold: float | None
    recall: Rate | None
    interval: Interval | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class FalseAlarms:
    """How often a guard would cry wolf: alarms that began in benign conversations, by their evaluated turns."""

    alarms: int
    turns: int
    per_thousand: float | None
    low: float | None
    high: float | None
    method: str


def recall_at(judged: Sequence[Judged], rate: float, drawn: Resamples | None = None) -> RecallAt:
    """The recall at a false-positive rate, or the reason why the data can't tell.

    The threshold keeps (flagged benign + 1) / (benign + 1) ≤ rate on the conversations at hand, so that arms are
    compared at the same rate whatever their thresholds. It is not a threshold to deploy: that one is set on other
    conversations than it is tested on. `drawn` are resamples of the evaluated ones, in their order.

    >>> benign = [Judged(f"b{n}", f"b{n}", False, 3, n / 100) for n in range(99)]
    >>> attacks = [Judged(f"a{n}", f"a{n}", True, 3, score) for n, score in enumerate((0.5, 0.99, 0.995))]
    >>> print(recall_at([*benign, *attacks], 0.01).recall)
    2/3 = 66.7 % [9.4, 99.2]
    >>> recall_at([*benign, *attacks], 0.001).reason
    '99 benign conversations are too few for a false-positive rate of 0.001: at least 999 are needed'
    """
    if not 0 < rate < 1:
        raise UsageError(f"a false-positive rate must lie in (0, 1), not {rate:g}")
    attacks = [one.score for one in evaluated(judged, attack=True) if one.score is not None]
    benign = [one.score for one in evaluated(judged, attack=False) if one.score is not None]
    if not attacks:
        return RecallAt(rate, None, None, None, "there is no evaluated attack")
    try:
        threshold = threshold_for(benign, rate)
    except UsageError as error:
        return RecallAt(rate, None, None, None, str(error))
    found = Rate(sum(score >= threshold for score in attacks), len(attacks))
    around = None if drawn is None else interval(recall_at_of(evaluated(judged), rate), drawn)
    return RecallAt(rate, threshold, found, around)


def false_alarms(judged: Sequence[Judged], drawn: Resamples) -> FalseAlarms:
    """False alarms per 1,000 evaluated turns of benign conversations.

    An alarm is a turn that fires after one that did not. The interval is the cluster bootstrap's, for alarms of a
    conversation come together; without any alarm that has no width, and the exact Poisson limit stands in (F.
    Garwood, "Fiducial limits for the Poisson distribution", Biometrika 28, 1936). `drawn` are resamples of the
    evaluated conversations, in their order.

    >>> import numpy as np
    >>> from turnwise.study.stats.bootstrap import resamples
    >>> judged = [Judged(str(n), str(n), False, 10, 0.1) for n in range(100)]
    >>> drawn = resamples([one.group for one in judged], [False] * 100, np.random.default_rng(0), 100)
    >>> found = false_alarms(judged, drawn)
    >>> found.per_thousand, found.low, round(found.high, 3)
    (0.0, 0.0, 3.689)
    """
    benign = evaluated(judged, attack=False)
    alarms = sum(one.alarms for one in benign)
    turns = sum(one.turns - one.missing_turns for one in benign)
    if not turns:
        return FalseAlarms(alarms, turns, None, None, None, "no benign turn")
    if not alarms:
        high = -math.log((1 - 0.95) / 2) * 1000 / turns
        return FalseAlarms(0, turns, 0.0, 0.0, high, "Poisson")
    found = interval(alarms_of(evaluated(judged)), drawn)
    return FalseAlarms(alarms, turns, found.value, found.low, found.high, found.method)
