"""Everything a study says of one detector at one threshold, each figure with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.study.stats.auc import Auc, AucTest, auc_with_interval, delong_test
from turnwise.study.stats.bootstrap import (
    REPLICATES,
    Floats,
    Interval,
    Resamples,
    Statistic,
    Weights,
    difference,
    interval,
    interval_of,
    resamples,
)
from turnwise.study.stats.judged import Confusion, Judged, Missing, confusion, evaluated, matched, missing_bounds
from turnwise.study.stats.significance import McNemar, mcnemar
from turnwise.study.stats.survival import FirstFlag, first_flag
from turnwise.study.stats.thresholds import threshold_for, weighted_thresholds

SHARE_AT_HORIZON = 0.1
"""Share of the attacks that must last up to the turn at which a mean delay is cut off."""


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

    def area(weights: Weights) -> Floats:
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

    def recall(weights: Weights) -> Floats:
        each = weights.each().T
        if not len(falling):
            return np.full(each.shape[1], np.nan)
        benign, attacks = each[falling], each[attack]
        limit = weighted_thresholds(scores[falling], benign, benign.sum(axis=0), rate)
        caught = (attacks * (scores[attack][:, None] >= limit)).sum(axis=0)
        return np.where(np.isfinite(limit), _divided(caught, attacks.sum(axis=0)), np.nan)

    return recall


def delay_of(judged: Sequence[Judged], horizon: int | None = None) -> Statistic:
    """The mean number of turns of an attack up to its first flag, cut off at a horizon, as a statistic.

    That is the area under the Kaplan-Meier curve of attacks not yet flagged, misses censored at their last turn:
    the restricted mean of P. Royston and M. K. B. Parmar, "Restricted mean survival time", BMC Medical Research
    Methodology 13 (2013). Unlike a median it exists for every detector, so that differences have intervals.
    """
    last = horizon_of(judged) if horizon is None else horizon
    columns = np.zeros((len(judged), 2 * last))
    for row, one in enumerate(judged):
        if one.attack:
            seen = one.turn if one.turn is not None else one.turns
            columns[row, : min(seen, last)] = 1.0
            if one.turn is not None and one.turn <= last:
                columns[row, last + one.turn - 1] = 1.0

    def mean(weights: Weights) -> Floats:
        sums = weights.sums(columns)
        at_risk, flagged = sums[:, :last], sums[:, last:]
        hazard = np.divide(flagged, at_risk, out=np.zeros_like(flagged), where=at_risk > 0)
        undetected = np.cumprod(1 - hazard, axis=1)
        total = 1 + undetected[:, :-1].sum(axis=1)
        return np.where(at_risk[:, 0] > 0, total, np.nan)

    return mean


def horizon_of(judged: Sequence[Judged]) -> int:
    """The last turn that at least a tenth of the evaluated attacks reach; 1 without attacks.

    >>> horizon_of([Judged(str(n), "g", True, turns, 0.1) for n, turns in enumerate([3] * 18 + [5, 9])])
    5
    """
    lengths = sorted((one.turns for one in judged if one.attack and one.evaluated), reverse=True)
    return lengths[max(1, -(-len(lengths) // round(1 / SHARE_AT_HORIZON))) - 1] if lengths else 1


def _flag(one: Judged, final: bool) -> bool:
    return one.final if final else one.fired


def _ratio(above: Sequence[float], below: Sequence[float]) -> Statistic:
    columns = np.column_stack([above, below]).astype(float)

    def ratio(weights: Weights) -> Floats:
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


RATES = (0.01, 0.001)
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


@dataclass(frozen=True, slots=True)
class PairTest:
    """Two detectors compared on the conversations that both evaluated. Differences are second less first.

    `a` and `b` are their places among the results. The first alone caught `a_alone` attacks, the second alone
    `b_alone`; `p` is the exact McNemar p-value of these, `p_group` the one with groups as the unit. Intervals are
    those of the cluster bootstrap. `mean_turn` is below 0 where the second is earlier. `left_out` counts
    conversations that only one of them, or none, evaluated.
    """

    a: int
    b: int
    a_alone: int
    b_alone: int
    p: float
    p_group: float
    recall: Interval
    auc: Interval
    delong: AucTest | None
    mean_turn: Interval
    benign: McNemar
    conversations: int
    left_out: int

    @property
    def auc_p_delong(self) -> float | None:
        """DeLong's p-value of the areas; None with fewer than two of a label."""
        return None if self.delong is None else self.delong.p


def measure(
    judged: Sequence[Judged],
    rng: np.random.Generator,
    *,
    name: str,
    threshold: float,
    run: str = "",
    context: str = "",
    replicates: int = REPLICATES,
    rates: Sequence[float] = RATES,
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
        recall_at=tuple(recall_at(judged, rate, drawn) for rate in rates),
        first_flag=first_flag(judged),
        mean_turn=around(delay_of(known), attacks),
        mean_turn_horizon=horizon_of(known),
        alarms_per_thousand_benign_turns=false_alarms(judged, drawn),
        missing=missing_bounds(judged),
        cost_usd=_mean([one.cost_usd for one in judged]),
        latency_ms=_mean([one.latency_ms for one in judged]),
    )


def compare(
    results: Sequence[DetectorResult],
    seed: int = 0,
    *,
    reference: int | None = None,
    final: bool = False,
    replicates: int = REPLICATES,
) -> tuple[PairTest, ...]:
    """Compare detectors two by two on the conversations that both evaluated; p-values are not corrected.

    A `reference` is the first of each pair; without one all pairs are compared. Pairs on the same conversations
    share their resamples.

    >>> import numpy as np
    >>> def judged(hits):
    ...     flags = [dict(fired=True, turn=2) if n < hits else {} for n in range(30)]
    ...     attacks = [Judged(f"a{n}", f"a{n}", True, 5, 0.5 + n % 7 / 20, **flag) for n, flag in enumerate(flags)]
    ...     return [*attacks, *(Judged(f"b{n}", f"b{n}", False, 5, n / 50) for n in range(30))]
    >>> few, many = (
    ...     measure(judged(hits), np.random.default_rng(0), name=str(hits), threshold=0.5, replicates=100)
    ...     for hits in (10, 20)
    ... )
    >>> [test] = compare([few, many], replicates=100)
    >>> test.a_alone, test.b_alone, round(test.p, 5), round(test.recall.value, 4)
    (0, 10, 0.00195, 0.3333)
    """
    if reference is not None and not 0 <= reference < len(results):
        raise UsageError(f"there is no result at place {reference}: reference must be 0 to {len(results) - 1}")
    places = range(len(results))
    pairs = [
        (a, b)
        for a in places
        for b in places
        if (a < b if reference is None else a == reference and b != reference)
    ]
    values = _Values(seed, replicates, final)
    return tuple(_pair(results, a, b, values) for a, b in pairs)


class _Values:
    """The resamples of each set of conversations and the statistics on them, worked out once for all pairs."""

    def __init__(self, seed: int, replicates: int, final: bool) -> None:
        self._seed = seed
        self._replicates = replicates
        self.final = final
        self._drawn: dict[frozenset[tuple[str, str]], Resamples] = {}
        self._known: dict[tuple[str, int, frozenset[tuple[str, str]]], tuple[float, Floats, Statistic]] = {}

    def of(self, what: str, place: int, judged: Sequence[Judged]) -> tuple[float, Floats, Statistic]:
        """A statistic on the data, on each resample, and itself."""
        key = (what, place, self._key(judged))
        if key not in self._known:
            drawn, statistic = self.drawn(judged), self._statistic(what, judged)
            self._known[key] = (drawn.value(statistic), drawn.replicates(statistic), statistic)
        return self._known[key]

    def drawn(self, judged: Sequence[Judged]) -> Resamples:
        """The resamples of a set of conversations, which have to come in order of their ids."""
        key = self._key(judged)
        if key not in self._drawn:
            rng = np.random.default_rng(self._seed)
            self._drawn[key] = resamples(
                [one.group for one in judged], [one.attack for one in judged], rng, self._replicates
            )
        return self._drawn[key]

    def _key(self, judged: Sequence[Judged]) -> frozenset[tuple[str, str]]:
        return frozenset((one.sequence_id, one.group) for one in judged)

    def _statistic(self, what: str, judged: Sequence[Judged]) -> Statistic:
        if what == "recall":
            return recall_of(judged, self.final)
        return auc_of(judged) if what == "auc" else delay_of(judged)


def _pair(results: Sequence[DetectorResult], a: int, b: int, values: _Values) -> PairTest:
    pairs = sorted(matched(results[a].judged, results[b].judged), key=lambda pair: pair[0].sequence_id)
    if not any(one.attack for one, _ in pairs):
        raise UsageError(f"{results[a].name} and {results[b].name} share no attack: evaluate the same with both")
    arms = [one for one, _ in pairs], [other for _, other in pairs]

    def test(label: bool) -> McNemar:
        chosen = [(one, other) for one, other in pairs if one.attack is label]
        return mcnemar(
            [one.final if values.final else one.fired for one, _ in chosen],
            [other.final if values.final else other.fired for _, other in chosen],
            [one.group for one, _ in chosen],
        )

    def less(what: str, fixed: bool = True) -> Interval:
        (first, of_first, one), (second, of_second, other) = (
            values.of(what, place, arm) for place, arm in zip((a, b), arms, strict=True)
        )
        return interval_of(
            second - first,
            of_second - of_first,
            difference(one, other),
            values.drawn(arms[0]),
            conditions_on_threshold=fixed,
        )

    attacks = test(True)
    scores = [
        [_scores([one.score for one in arm if one.attack is label]) for arm in arms] for label in (True, False)
    ]
    areas = len(scores[0][0]) > 1 and len(scores[1][0]) > 1
    everyone = {one.sequence_id for place in (a, b) for one in results[place].judged}
    return PairTest(
        a=a,
        b=b,
        a_alone=attacks.a_alone,
        b_alone=attacks.b_alone,
        p=attacks.p,
        p_group=attacks.p_group,
        recall=less("recall"),
        auc=less("auc", fixed=False),
        delong=delong_test((scores[0][0], scores[0][1]), (scores[1][0], scores[1][1])) if areas else None,
        mean_turn=less("delay"),
        benign=test(False),
        conversations=len(pairs),
        left_out=len(everyone) - len(pairs),
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
    >>> from turnwise.study.stats.bootstrap import resamples
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
