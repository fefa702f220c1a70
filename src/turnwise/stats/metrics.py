"""Everything a study says of one detector at one threshold, each figure with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.stats.auc import Auc, auc_with_interval
from turnwise.stats.bootstrap import (
    REPLICATES,
    Floats,
    Interval,
    Resamples,
    ResampleWeights,
    Statistic,
    interval,
    resamples,
)
from turnwise.stats.judged import Confusion, Judged, Missing, confusion, evaluated, missing_bounds
from turnwise.stats.survival import FirstFlag, delay_of, first_flag, horizon_of
from turnwise.stats.thresholds import threshold_for, weighted_thresholds


def recall_of(judged: Sequence[Judged], final: bool = False) -> Statistic:
    """Recall as a statistic; here and below the conversations are all evaluated, in the order of the weights."""
    return _ratio(
        [float(one.attack and _flag(one, final)) for one in judged], [float(one.attack) for one in judged]
    )


def fpr_of(judged: Sequence[Judged], final: bool = False) -> Statistic:
    """The false-positive rate as a statistic."""
    return _ratio(
        [float(not one.attack and _flag(one, final)) for one in judged], [float(not one.attack) for one in judged]
    )


def precision_of(judged: Sequence[Judged], final: bool = False) -> Statistic:
    """Precision as a statistic."""
    return _ratio(
        [float(one.attack and _flag(one, final)) for one in judged], [float(_flag(one, final)) for one in judged]
    )


def f1_of(judged: Sequence[Judged], final: bool = False) -> Statistic:
    """F1 = 2 caught / (attacks + flagged) as a statistic."""
    return _ratio(
        [2.0 * (one.attack and _flag(one, final)) for one in judged],
        [float(one.attack) + float(_flag(one, final)) for one in judged],
    )


def alarms_of(judged: Sequence[Judged]) -> Statistic:
    """False alarms per 1,000 benign turns as a statistic."""
    return _ratio(
        [0.0 if one.attack else 1000.0 * one.alarms for one in judged],
        [0.0 if one.attack else float(one.turns - one.missing_turns) for one in judged],
    )


def auc_of(judged: Sequence[Judged]) -> Statistic:
    """The area under the ROC curve as a statistic; ties count half."""
    order, starts, attack = _by_score(judged)

    def area(weights: ResampleWeights) -> Floats:
        each = weights.each()[:, order]
        attacks = np.add.reduceat(each * attack, starts, axis=1)
        benign = np.add.reduceat(each * ~attack, starts, axis=1)
        below = np.cumsum(benign, axis=1) - benign / 2
        return _divided((attacks * below).sum(axis=1), attacks.sum(axis=1) * benign.sum(axis=1))

    return area


def recall_at_of(judged: Sequence[Judged], rate: float) -> Statistic:
    """The recall at a false-positive rate as a statistic; the threshold is set anew on every resample.

    The rate is kept as `threshold_for` keeps it; NaN where the benign conversations are too few.
    """
    scores = np.array([one.score for one in judged], dtype=float)
    attack = np.array([one.attack for one in judged], dtype=bool)
    falling = np.flatnonzero(~attack)[np.argsort(-scores[~attack], kind="stable")]

    def recall(weights: ResampleWeights) -> Floats:
        each = weights.each().T
        if not len(falling):
            return np.full(each.shape[1], np.nan)
        benign, attacks = each[falling], each[attack]
        limit = weighted_thresholds(scores[falling], benign, benign.sum(axis=0), rate)
        caught = (attacks * (scores[attack][:, None] >= limit)).sum(axis=0)
        return np.where(np.isfinite(limit), _divided(caught, attacks.sum(axis=0)), np.nan)

    return recall


def _flag(one: Judged, final: bool) -> bool:
    return one.final if final else one.fired


def _ratio(above: Sequence[float], below: Sequence[float]) -> Statistic:
    columns = np.column_stack([above, below]).astype(float)

    def ratio(weights: ResampleWeights) -> Floats:
        sums = weights.sums(columns)
        return _divided(sums[:, 0], sums[:, 1])

    return ratio


def _divided(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)


def _by_score(judged: Sequence[Judged]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]:
    """The order by score, where each distinct score begins in it, and the labels in that order."""
    scores = np.array([np.nan if one.score is None else one.score for one in judged])
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return order, starts, np.array([one.attack for one in judged], dtype=bool)[order]


RECALL_RATES = (0.01, 0.001)
"""False-positive rates at which recalls are compared."""


@dataclass(frozen=True, slots=True)
class RecallAt:
    """Recall where the threshold is set for a false-positive rate on the same benign conversations.

    `recall` has the exact interval for that threshold alone. `by_group` is a bootstrap that sets the threshold
    anew on each resample, so that it holds for that choice too. `reason` says why there is no number.
    """

    rate: float
    threshold: float | None
    recall: Rate | None
    by_group: Interval | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class FalseAlarms:
    """How often a guard would cry wolf: alarms that began in benign conversations, per 1,000 evaluated turns."""

    value: float | None
    low: float | None
    high: float | None
    alarms: int
    turns: int
    method: str


@dataclass(frozen=True, slots=True)
class DetectorResult:
    """What a study says of one detector at one threshold; a figure is None without the label that it needs.

    `judged` has the missing conversations too. `counts` are by whether it fired at any turn, `final` by whether it
    would at the last; their rates have exact intervals, and what is `by_group` those of the cluster bootstrap.
    `auc` has DeLong's. Both areas are None with fewer than two of a label, or without any evidence. `mean_turn` is
    that of the first flag, cut off at turn `mean_turn_horizon`. `cost_usd` and `latency_ms` are means of the
    conversations where they are known.
    """

    name: str
    run: str
    context: str
    threshold: float
    judged: tuple[Judged, ...]
    counts: Confusion
    final: Confusion
    recall_by_group: Interval | None
    fpr_by_group: Interval | None
    f1_by_group: Interval | None
    auc: Auc | None
    auc_by_group: Interval | None
    recall_at: tuple[RecallAt, ...]
    first_flag: FirstFlag | None
    mean_turn: Interval | None
    mean_turn_horizon: int
    alarms_per_thousand_benign_turns: FalseAlarms
    missing: Missing
    cost_usd: float | None
    latency_ms: float | None


def measure(
    judged: Sequence[Judged],
    rng: np.random.Generator,
    *,
    name: str,
    threshold: float,
    run: str = "",
    context: str = "",
    replicates: int = REPLICATES,
    drawn: Resamples | None = None,
) -> DetectorResult:
    """Everything a study says of one detector; its threshold was set on other conversations.

    `drawn` are resamples of the evaluated conversations, in their order, where they are there already.

    >>> import numpy as np
    >>> attacks = [Judged(f"a{n}", f"a{n}", True, 5, 0.6 + n / 100, fired=True, turn=3) for n in range(30)]
    >>> benign = [Judged(f"b{n}", f"b{n}", False, 5, n / 100) for n in range(40)]
    >>> found = measure([*attacks, *benign], np.random.default_rng(0), name="cusum", threshold=0.5, replicates=100)
    >>> print(found.counts.recall, found.auc.value, found.first_flag.median, found.recall_at[0].reason, sep="; ")
    30/30 = 100.0 % [88.4, 100.0]; 1.0; 3; 40 benign conversations are too few for a false-positive rate of 0.01: \
at least 99 are needed
    """
    known = evaluated(judged)
    if not known:
        raise UsageError(f"{name}: no conversation was evaluated: it needs at least one")
    if drawn is None:
        drawn = resamples([one.group for one in known], [one.attack for one in known], rng, replicates)
    attacks, benign = ([one.score for one in known if one.attack is label] for label in (True, False))
    areas = len(attacks) > 1 and len(benign) > 1 and any(one.score != -math.inf for one in known)

    def around(statistic: Statistic, known_label: Sequence[object]) -> Interval | None:
        return interval(statistic, drawn, conditions_on_threshold=True) if known_label else None

    return DetectorResult(
        name=name,
        run=run,
        context=context,
        threshold=threshold,
        judged=tuple(judged),
        counts=confusion(judged),
        final=confusion(judged, final=True),
        recall_by_group=around(recall_of(known), attacks),
        fpr_by_group=around(fpr_of(known), benign),
        f1_by_group=around(f1_of(known), attacks),
        auc=auc_with_interval(_scores(attacks), _scores(benign)) if areas else None,
        auc_by_group=interval(auc_of(known), drawn) if areas else None,
        recall_at=tuple(recall_at(judged, rate, drawn) for rate in RECALL_RATES),
        first_flag=first_flag(judged),
        mean_turn=around(delay_of(known), attacks),
        mean_turn_horizon=horizon_of(known),
        alarms_per_thousand_benign_turns=false_alarms(judged, drawn),
        missing=missing_bounds(judged),
        cost_usd=_mean([one.cost_usd for one in judged]),
        latency_ms=_mean([one.latency_ms for one in judged]),
    )


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
    >>> from turnwise.stats.bootstrap import resamples
    >>> judged = [Judged(str(n), str(n), False, 10, 0.1) for n in range(100)]
    >>> drawn = resamples([one.group for one in judged], [False] * 100, np.random.default_rng(0), 100)
    >>> found = false_alarms(judged, drawn)
    >>> found.value, found.low, round(found.high, 3)
    (0.0, 0.0, 3.689)
    """
    benign = evaluated(judged, attack=False)
    alarms = sum(one.alarms for one in benign)
    turns = sum(one.turns - one.missing_turns for one in benign)
    if not turns:
        return FalseAlarms(None, None, None, alarms, turns, "no benign turn")
    if not alarms:
        high = -math.log((1 - 0.95) / 2) * 1000 / turns
        return FalseAlarms(0.0, 0.0, high, 0, turns, "Poisson")
    found = interval(alarms_of(evaluated(judged)), drawn)
    return FalseAlarms(found.value, found.low, found.high, alarms, turns, found.method)


def _scores(scores: Sequence[float | None]) -> list[float]:
    return [score for score in scores if score is not None]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
