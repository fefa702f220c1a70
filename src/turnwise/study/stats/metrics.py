"""Everything a study says of one detector at one threshold, and the tests that compare detectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from turnwise.errors import UsageError
from turnwise.study.stats.auc import Auc, AucTest, auc_with_interval, delong_test
from turnwise.study.stats.bootstrap import (
    REPLICATES,
    Interval,
    Resamples,
    difference,
    interval,
    interval_of,
    resamples,
)
from turnwise.study.stats.paired import McNemar, Missing, holm, mcnemar, missing_bounds
from turnwise.study.stats.survival import FirstFlag, first_flag
from turnwise.study.stats.thresholds import FalseAlarms, RecallAt, false_alarms, recall_at
from turnwise.study.stats.verdicts import Confusion, Judged, confusion, evaluated, matched
from turnwise.study.stats.weighted import auc_of, delay_of, f1_of, false_positive_rate_of, horizon_of, recall_of

if TYPE_CHECKING:
    import numpy as np

    from turnwise.study.stats.bootstrap import Floats, Statistic

RATES = (0.01, 0.001)
"""False-positive rates at which recalls are compared."""


@dataclass(frozen=True, slots=True)
class DetectorResult:
    """What a study says of one detector at one threshold; a figure is None without the label that it needs.

    `judged` has the missing conversations too. `ever` counts by whether it fired at any turn, `final` by whether
    it would at the last; their rates have exact intervals, and `recall`, `false_positive_rate`, `f1` and
    `auc_clustered` those of the cluster bootstrap. `auc` has DeLong's. Both areas are None with fewer than two of
    a label, or without any evidence. `delay` is the mean turn of the first flag, cut off at turn `horizon`.
    `cost_usd` and `latency_ms` are means of the conversations where they are known.
    """

    name: str
    run: str
    context: str
    threshold: float
    judged: tuple[Judged, ...]
    ever: Confusion
    final: Confusion
    recall: Interval | None
    false_positive_rate: Interval | None
    f1: Interval | None
    auc: Auc | None
    auc_clustered: Interval | None
    recall_at: tuple[RecallAt, ...]
    first_flag: FirstFlag | None
    delay: Interval | None
    horizon: int
    alarms: FalseAlarms
    missing: Missing
    cost_usd: float | None
    latency_ms: float | None


@dataclass(frozen=True, slots=True)
class PairTest:
    """Two detectors compared on the conversations that both evaluated. Differences are second less first.

    `a` and `b` are their places among the results. The first alone caught `b_count` attacks, the second alone
    `c_count`; `p` is the exact McNemar p-value of these, `p_group` the one with groups as the unit, and `p_holm`
    is `p` corrected for all comparisons made. Intervals are those of the cluster bootstrap. `delay` is below 0
    where the second is earlier. `left_out` counts conversations that only one of them, or none, evaluated.
    """

    a: int
    b: int
    b_count: int
    c_count: int
    p: float
    p_holm: float
    p_group: float
    benign: McNemar
    recall: Interval
    auc: Interval
    delong: AucTest | None
    delay: Interval
    conversations: int
    left_out: int


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
    >>> print(found.ever.recall, found.auc.value, found.first_flag.median, found.recall_at[0].reason, sep="; ")
    30/30 = 100.0 % [88.4, 100.0]; 1.0; 3; 40 benign conversations are too few for a false-positive rate of 0.01: \
at least 99 are needed
    """
    known = evaluated(judged)
    if not known:
        raise UsageError(f"{name}: no conversation was evaluated, so there is nothing to measure")
    if drawn is None:
        drawn = resamples([one.group for one in known], [one.attack for one in known], rng, replicates)
    attacks, benign = ([one.score for one in known if one.attack is label] for label in (True, False))
    areas = len(attacks) > 1 and len(benign) > 1 and any(one.score != -math.inf for one in known)
    ever = confusion(judged)
    return DetectorResult(
        name=name,
        run=run,
        context=context,
        threshold=threshold,
        judged=tuple(judged),
        ever=ever,
        final=confusion(judged, final=True),
        recall=interval(recall_of(known), drawn) if attacks else None,
        false_positive_rate=interval(false_positive_rate_of(known), drawn) if benign else None,
        f1=interval(f1_of(known), drawn) if attacks else None,
        auc=auc_with_interval(_scores(attacks), _scores(benign)) if areas else None,
        auc_clustered=interval(auc_of(known), drawn) if areas else None,
        recall_at=tuple(recall_at(judged, rate, drawn) for rate in rates),
        first_flag=first_flag(judged),
        delay=interval(delay_of(known), drawn) if attacks else None,
        horizon=horizon_of(known),
        alarms=false_alarms(judged, drawn),
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
    """Compare detectors two by two on the conversations that both evaluated, with Holm's correction over all.

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
    >>> test.b_count, test.c_count, round(test.p_holm, 5), round(test.recall.value, 4)
    (0, 10, 0.00195, 0.3333)
    """
    if reference is not None and not 0 <= reference < len(results):
        raise UsageError(f"there is no result at place {reference} to compare with")
    places = range(len(results))
    pairs = [
        (a, b)
        for a in places
        for b in places
        if (a < b if reference is None else a == reference and b != reference)
    ]
    values = _Values(seed, replicates, final)
    found = [_pair(results, a, b, values) for a, b in pairs]
    corrected = holm([test.p for test in found])
    return tuple(replace(test, p_holm=p) for test, p in zip(found, corrected, strict=True))


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
        import numpy as np

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
        raise UsageError(f"{results[a].name} and {results[b].name} have no evaluated attack in common")
    arms = [one for one, _ in pairs], [other for _, other in pairs]

    def test(label: bool) -> McNemar:
        chosen = [(one, other) for one, other in pairs if one.attack is label]
        return mcnemar(
            [one.final if values.final else one.fired for one, _ in chosen],
            [other.final if values.final else other.fired for _, other in chosen],
            [one.group for one, _ in chosen],
        )

    def less(what: str) -> Interval:
        (first, of_first, one), (second, of_second, other) = (
            values.of(what, place, arm) for place, arm in zip((a, b), arms, strict=True)
        )
        return interval_of(second - first, of_second - of_first, difference(one, other), values.drawn(arms[0]))

    attacks = test(True)
    scores = [
        [_scores([one.score for one in arm if one.attack is label]) for arm in arms] for label in (True, False)
    ]
    areas = len(scores[0][0]) > 1 and len(scores[1][0]) > 1
    everyone = {one.sequence_id for place in (a, b) for one in results[place].judged}
    return PairTest(
        a=a,
        b=b,
        b_count=attacks.b_count,
        c_count=attacks.c_count,
        p=attacks.p,
        p_holm=attacks.p,
        p_group=attacks.p_group,
        benign=test(False),
        recall=less("recall"),
        auc=less("auc"),
        delong=delong_test((scores[0][0], scores[0][1]), (scores[1][0], scores[1][1])) if areas else None,
        delay=less("delay"),
        conversations=len(pairs),
        left_out=len(everyone) - len(pairs),
    )


def _scores(scores: Sequence[float | None]) -> list[float]:
    return [score for score in scores if score is not None]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
