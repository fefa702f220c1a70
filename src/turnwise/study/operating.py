"""Numbers at an operating point: recall at a matched false-positive rate, and false alarms per 1,000 turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.study.bootstrap import Interval, Resamples, interval
from turnwise.study.calibrate import threshold_for
from turnwise.study.verdicts import Judged, evaluated
from turnwise.study.weighted import alarms_of, recall_at_of


@dataclass(frozen=True, slots=True)
class RecallAt:
    """Recall where the threshold is set for a false-positive rate on the same benign conversations.

    Args:
        rate: the false-positive rate that is kept.
        threshold: the threshold; None where there is none.
        recall: share of the attacks at or above it, with the exact interval for that threshold; None likewise.
        interval: bootstrap interval with the threshold set anew on each resample, so that it holds for the choice
            of the threshold too; None where it was not asked for or there is none.
        reason: why there is no number; empty where there is one.
    """

    rate: float
    threshold: float | None
    recall: Rate | None
    interval: Interval | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class FalseAlarms:
    """How often a guard would cry wolf.

    Args:
        alarms: times that it began to fire in benign conversations.
        turns: evaluated turns of benign conversations.
        per_thousand: alarms per 1,000 such turns; None without turns.
        low: lower end of the interval; None likewise.
        high: upper end.
        method: how the interval was made.
    """

    alarms: int
    turns: int
    per_thousand: float | None
    low: float | None
    high: float | None
    method: str


def recall_at(judged: Sequence[Judged], rate: float, drawn: Resamples | None = None) -> RecallAt:
    """Return the recall at a false-positive rate, or the reason why the data can't tell.

    The threshold keeps (flagged benign + 1) / (benign + 1) ≤ rate on the conversations at hand, so that arms are
    compared at the same rate whatever their thresholds. It is not a threshold to deploy: that one is set on other
    conversations than it is tested on.

    Args:
        judged: the conversations; those not evaluated are left out.
        rate: false-positive rate, in (0, 1).
        drawn: resamples of the evaluated ones, in their order, for the interval.

    Raises:
        UsageError: a rate out of range.

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
    """Return false alarms per 1,000 evaluated turns of benign conversations.

    An alarm is a turn that fires after one that did not. The interval is the cluster bootstrap's, for alarms of a
    conversation come together; without any alarm that has no width, and the exact Poisson limit stands in (F.
    Garwood, "Fiducial limits for the Poisson distribution", Biometrika 28, 1936).

    Args:
        judged: the conversations; those not evaluated are left out.
        drawn: resamples of the evaluated ones, in their order.

    >>> import numpy as np
    >>> from turnwise.study.bootstrap import resamples
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
