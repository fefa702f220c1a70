"""Two detectors on the same conversations: paired tests, differences, and both at equal false-positive rates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.stats.auc import AucTest, delong_test
from turnwise.stats.bootstrap import (
    FEW,
    FEW_GROUPS,
    REPLICATES,
    TAILS,
    Difference,
    Floats,
    Interval,
    Resamples,
    Statistic,
    difference,
    interval_of,
    resamples,
)
from turnwise.stats.judged import Judged, evaluated, matched, paired_test
from turnwise.stats.metrics import DetectorResult, auc_of, recall_of
from turnwise.stats.significance import McNemar
from turnwise.stats.survival import delay_of
from turnwise.stats.thresholds import check_rate


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


def compare_pairs(
    results: Sequence[DetectorResult],
    seed: int = 0,
    *,
    reference: int | None = None,
    replicates: int = REPLICATES,
) -> tuple[PairTest, ...]:
    """Compare detectors two by two on the conversations that both evaluated; p-values are not corrected.

    A `reference` is the first of each pair; without one all pairs are compared. Pairs on the same conversations
    share their resamples.

    >>> from turnwise.stats import measure
    >>> import numpy as np
    >>> def judged(hits):
    ...     flags = [dict(fired=True, turn=2) if n < hits else {} for n in range(30)]
    ...     attacks = [Judged(f"a{n}", f"a{n}", True, 5, 0.5 + n % 7 / 20, **flag) for n, flag in enumerate(flags)]
    ...     return [*attacks, *(Judged(f"b{n}", f"b{n}", False, 5, n / 50) for n in range(30))]
    >>> few, many = (
    ...     measure(judged(hits), np.random.default_rng(0), name=str(hits), threshold=0.5, replicates=100)
    ...     for hits in (10, 20)
    ... )
    >>> [test] = compare_pairs([few, many], replicates=100)
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
    values = _Values(seed, replicates)
    return tuple(_pair(results, a, b, values) for a, b in pairs)


_STATISTICS: Mapping[str, Callable[[Sequence[Judged]], Statistic]] = {
    "recall": recall_of,
    "auc": auc_of,
    "delay": delay_of,
}


class _Values:
    """The resamples of each set of conversations and the statistics on them, worked out once for all pairs."""

    def __init__(self, seed: int, replicates: int) -> None:
        self._seed = seed
        self._replicates = replicates
        self._drawn: dict[frozenset[tuple[str, str]], Resamples] = {}
        self._known: dict[tuple[str, int, frozenset[tuple[str, str]]], tuple[float, Floats, Statistic]] = {}

    def of(self, what: str, place: int, judged: Sequence[Judged]) -> tuple[float, Floats, Statistic]:
        """A statistic on the data, on each resample, and itself."""
        key = (what, place, self._key(judged))
        if key not in self._known:
            drawn, statistic = self.drawn(judged), _STATISTICS[what](judged)
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


def _pair(results: Sequence[DetectorResult], a: int, b: int, values: _Values) -> PairTest:
    pairs = sorted(matched(results[a].judged, results[b].judged), key=lambda pair: pair[0].sequence_id)
    if not any(one.attack for one, _ in pairs):
        raise UsageError(f"{results[a].name} and {results[b].name} share no attack: evaluate the same with both")
    arms = [one for one, _ in pairs], [other for _, other in pairs]

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

    attacks, benign = (paired_test(pairs, attack=label) for label in (True, False))
    scores = [
        [[one.score for one in evaluated(arm, label) if one.score is not None] for arm in arms]
        for label in (True, False)
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
        benign=benign,
        conversations=len(pairs),
        left_out=len(everyone) - len(pairs),
    )


MATCHED_RATES = (0.01, 0.03, 0.05)
"""False-positive rates at which arms are compared."""

_HEAD = 256
"""Highest scores that a curve is begun with; twice as many where these do not reach the rate."""


@dataclass(frozen=True, slots=True)
class MatchedRates:
    """A second arm less a first on the same conversations, by false-positive rate.

    `partial_auc` is standardised and goes up to the rate; `recall` is read from the interpolated ROC curve at it.
    `thresholds_used` is the operational question, the recall at thresholds that other conversations set; its two
    arms need not have the same false-positive rate, and `fpr` has those rates.
    """

    partial_auc: Mapping[float, Difference]
    recall: Mapping[float, Difference]
    thresholds_used: Difference | None = None
    fpr: tuple[Rate, Rate] | None = None

    def __str__(self) -> str:
        lines = [str(one) for of in (self.partial_auc, self.recall) for one in of.values()]
        if self.thresholds_used is not None and self.fpr is not None:
            first, second = self.fpr
            lines.append(f"{self.thresholds_used}; false-positive rates {first} and {second}")
        return "\n".join(lines)


def matched_rates(
    first: ArrayLike,
    second: ArrayLike,
    groups: Sequence[str],
    attack: Sequence[bool],
    *,
    limits: tuple[float, float] | None = None,
    rates: Sequence[float] = MATCHED_RATES,
    replicates: int = 1000,
    seed: int = 0,
) -> MatchedRates:
    """Compare two arms where both flag equally many benign conversations.

    The conversations are those of the test part, or all where nothing was fitted; `limits` are thresholds that
    others set. Scores are minus infinity where there was no evidence. Intervals and p-values are of the paired
    cluster bootstrap: the same groups are drawn for both arms. A p-value is twice the smaller share of resamples
    on either side of 0, (count + 1) / (resamples + 1), so that it agrees with the percentile interval. Sources: B.
    Efron and R. J. Tibshirani, "An Introduction to the Bootstrap", 1993, chapters 13 and 15; L. E. Dodd and M. S.
    Pepe, "Partial AUC estimation and regression", Biometrics 59 (2003).
    """
    scores, labels = np.array([first, second], dtype=float), np.asarray(attack, dtype=bool)
    if scores.ndim != 2 or not scores.shape[1] == len(labels) == len(groups):
        raise UsageError("two arms need one score each for every conversation, with its group and label")
    if np.isnan(scores).any():
        raise UsageError("a score is not a number: leave out what was not evaluated by both arms")
    if labels.all() or not labels.any():
        raise UsageError("matched false-positive rates need attacks and benign conversations")
    for rate in rates:
        check_rate("rate", rate)
    drawn = resamples(groups, attack, np.random.default_rng(seed), replicates)
    # The first column is of the data as they are.
    weights = np.column_stack([np.ones(drawn.groups), drawn.counts.T])[drawn.place]
    fewest = min(len(np.unique(drawn.place[labels == label])) for label in (True, False))
    note = FEW if fewest < FEW_GROUPS else ""

    def less(what: str, of: Floats, fixed: bool = False) -> Difference:
        return paired_difference(what, of[1] - of[0], drawn.groups, fixed, note)

    curves = [roc_heads(arm, labels, weights, rates) for arm in scores]
    areas, recalls = (np.array([curve[part] for curve in curves]) for part in (0, 1))
    thresholds_used, fpr = None, None
    if limits is not None:
        flags = scores >= np.array(limits)[:, None]
        of_attacks = weights[labels]
        caught = np.array(
            [(of_attacks * flag[labels][:, None]).sum(axis=0) / of_attacks.sum(axis=0) for flag in flags]
        )
        thresholds_used = less("gain in recall at the thresholds carried over", caught, True)
        counts = [int(flag[~labels].sum()) for flag in flags]
        fpr = (Rate(counts[0], int((~labels).sum())), Rate(counts[1], int((~labels).sum())))
    return MatchedRates(
        {
            rate: less(f"gain in partial AUC up to {100 * rate:g} % false positives", areas[:, row])
            for row, rate in enumerate(rates)
        },
        {
            rate: less(f"gain in recall at {100 * rate:g} % false positives", recalls[:, row])
            for row, rate in enumerate(rates)
        },
        thresholds_used,
        fpr,
    )


def roc_heads(
    scores: ArrayLike, attack: ArrayLike, weights: Floats, rates: Sequence[float]
) -> tuple[Floats, Floats]:
    """The standardised partial AUC up to each false-positive rate, and the recall at it.

    The ROC curve is linear between its points, so that equal scores of an attack and a benign conversation count
    half. An area A up to the rate f becomes (1 + (A − f²/2) / (f − f²/2)) / 2, which is 1/2 by chance and 1 at
    best: D. K. McClish, "Analyzing a portion of the ROC curve", Medical Decision Making 9 (1989). `weights` has
    shape (conversations, resamples), both results (rates, resamples), with NaN where a resample lacks a label.

    >>> areas, recalls = roc_heads([0.9, 0.8, 0.7, 0.6], [True, False, True, False], np.ones((4, 1)), [0.5])
    >>> areas.round(4).tolist(), recalls.tolist()
    ([[0.6667]], [[1.0]])
    """
    values, labels = np.asarray(scores, dtype=float), np.asarray(attack, dtype=bool)
    order = np.argsort(-values, kind="stable")
    last = np.flatnonzero(np.append(values[order][1:] != values[order][:-1], True))
    totals = [of.astype(float) @ weights for of in (~labels, labels)]
    head = _HEAD
    while True:
        # Nothing beyond the highest rate matters: the curve is cut where every resample has passed it.
        ends = last[: int(np.searchsorted(last, head)) + 1]
        kept = order[: ends[-1] + 1]
        each, of_attack = weights[kept], labels[kept][:, None]
        with np.errstate(invalid="ignore"):
            x, y = (
                np.vstack([np.zeros(each.shape[1]), counted.cumsum(axis=0)[ends]]) / total
                for counted, total in zip((each * ~of_attack, each * of_attack), totals, strict=True)
            )
        end = int(np.argmax((x > max(rates)).all(axis=1)))
        if end or len(kept) == len(order):
            break
        head *= 2
    end = end or len(x) - 1
    x, y = x[: end + 1], y[: end + 1]
    rise, run = np.diff(y, axis=0), np.diff(x, axis=0)
    areas, recalls = [], []
    for rate in rates:
        step = np.minimum(x[1:], rate) - np.minimum(x[:-1], rate)
        share = np.divide(step, run, out=np.zeros_like(run), where=run > 0)
        area = (step * (y[:-1] + rise * share / 2)).sum(axis=0)
        areas.append((1 + (area - rate**2 / 2) / (rate - rate**2 / 2)) / 2)
        # A vertical piece of the curve is climbed at once, as long as it begins within the rate.
        share[(run == 0) & (x[1:] <= rate)] = 1.0
        recalls.append((rise * share).sum(axis=0))
    return np.array(areas), np.array(recalls)


def paired_difference(what: str, values: Floats, groups: int, fixed: bool, note: str) -> Difference:
    """A difference with its interval and p-value; the first value is of the data, the others of the resamples."""
    drawn = values[1:][np.isfinite(values[1:])]
    if not len(drawn):
        return Difference(
            what, float(values[0]), np.nan, np.nan, fixed, "percentile", groups, note="no resample had both"
        )
    low, high = np.quantile(drawn, TAILS)
    sides = (np.sum(drawn <= 0), np.sum(drawn >= 0))
    p = min(1.0, (int(min(sides)) + 1) * least_p(len(drawn)))
    return Difference(what, float(values[0]), float(low), float(high), fixed, "percentile", groups, p, note=note)


def least_p(replicates: int) -> float:
    """The least p-value that so many resamples can give."""
    return 2 / (replicates + 1)
