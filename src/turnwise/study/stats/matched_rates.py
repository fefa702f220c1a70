"""Two arms at equal false-positive rates: partial AUC and recall, beside recall at the thresholds used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.study.stats.bootstrap import FEW_GROUPS, TAILS, Difference, Floats, resamples
from turnwise.study.stats.split_gains import REPLICATES
from turnwise.study.stats.thresholds import check_rate

RATES = (0.01, 0.03, 0.05)
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
    rates: Sequence[float] = RATES,
    replicates: int = REPLICATES,
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
    few = min(len(np.unique(drawn.place[labels == label])) for label in (True, False)) < FEW_GROUPS
    note = f"fewer than {FEW_GROUPS} groups of a label: the interval is likely too narrow" if few else ""

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
