"""The turn of the first flag, with attacks that were never flagged censored at their last turn."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from turnwise.errors import UsageError
from turnwise.rates import clopper_pearson
from turnwise.stats.bootstrap import Floats, ResampleWeights, Statistic
from turnwise.stats.judged import Judged


@dataclass(frozen=True, slots=True)
class Survival:
    """The share of attacks not yet flagged, as a step function over turns.

    `turns` are those at which some attack was flagged, rising. Before each, `at_risk` attacks were not flagged and
    still going on; at it, `flagged` were. `undetected` is the share left after it, with a pointwise interval.
    """

    turns: tuple[int, ...]
    at_risk: tuple[int, ...]
    flagged: tuple[int, ...]
    undetected: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    attacks: int
    caught: int
    confidence: float = 0.95

    def at(self, turn: int) -> float:
        """The share not yet flagged after a turn."""
        share = 1.0
        for when, left in zip(self.turns, self.undetected, strict=True):
            if when <= turn:
                share = left
        return share

    def quantile(self, share: float) -> int | None:
        """The first turn by which at least a share in (0, 1) is flagged; None where it is never reached."""
        for when, left in zip(self.turns, self.undetected, strict=True):
            if left <= 1 - share + 1e-12:
                return when
        return None

    @property
    def median(self) -> int | None:
        """The turn by which half of the attacks are flagged; None where fewer ever are."""
        return self.quantile(0.5)

    @property
    def quartiles(self) -> tuple[int | None, int | None]:
        """The turns by which a quarter and three quarters are flagged."""
        return self.quantile(0.25), self.quantile(0.75)


@dataclass(frozen=True, slots=True)
class FirstFlag:
    """When attacks were flagged first.

    `median` and `quartiles` are of all attacks, misses censored, None where fewer are ever flagged;
    `median_of_caught` and `lead` are of the flagged ones. `lead` counts turns from the first flag to the last
    turn: lower quartile, median, upper quartile.
    """

    survival: Survival
    median: int | None
    quartiles: tuple[int | None, int | None]
    median_of_caught: float | None
    lead: tuple[float, float, float] | None


def kaplan_meier(turns: Sequence[int], flagged: Sequence[bool], confidence: float = 0.95) -> Survival:
    """The product-limit estimate of the share not yet flagged, from first flags or else last turns.

    Sources: E. L. Kaplan and P. Meier, JASA 53 (1958); the interval is Greenwood's on the log(-log) scale, as in
    J. D. Kalbfleisch and R. L. Prentice, "The Statistical Analysis of Failure Time Data", 1980. Where nobody is
    left it has no variance, and the Clopper-Pearson limit of the attacks still at risk stands in.

    >>> curve = kaplan_meier([2, 3, 3, 5, 6], [True, True, False, True, False])
    >>> curve.turns, [round(share, 4) for share in curve.undetected], curve.median
    ((2, 3, 5), [0.8, 0.6, 0.3], 5)
    """
    if not turns or len(turns) != len(flagged) or min(turns) < 1:
        raise UsageError(
            "a survival curve needs, for at least one attack, a turn from 1 on and whether it was flagged"
        )
    from scipy.stats import CensoredData, ecdf

    caught = [turn for turn, hit in zip(turns, flagged, strict=True) if hit]
    missed = [turn for turn, hit in zip(turns, flagged, strict=True) if not hit]
    curve = ecdf(CensoredData(uncensored=caught, right=missed)).sf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # where all or none are flagged it has no variance
        ends = curve.confidence_interval(confidence, method="log-log")
    rows: list[tuple[int, int, int, float, float, float]] = []
    for turn in sorted(set(caught)):
        at_risk = sum(other >= turn for other in turns)
        share, low, high = (float(one.evaluate(turn)) for one in (curve, ends.low, ends.high))
        hits = caught.count(turn)
        if hits == at_risk:
            share, low, high = 0.0, 0.0, clopper_pearson(0, at_risk, confidence)[1]
        rows.append((turn, at_risk, hits, share, low, high))
    at, at_risk_all, hits_all, left, lows, highs = zip(*rows, strict=True) if rows else ((),) * 6
    return Survival(at, at_risk_all, hits_all, left, lows, highs, len(turns), sum(flagged), confidence)


def first_flag(judged: Iterable[Judged]) -> FirstFlag | None:
    """When the evaluated attacks were flagged first; None where there is no attack.

    >>> caught = [Judged(str(n), "g", True, 6, 0.9, fired=True, turn=turn) for n, turn in enumerate((2, 4, 4))]
    >>> found = first_flag([*caught, Judged("missed", "g", True, 5, 0.1)])
    >>> found.median, found.median_of_caught, found.lead
    (4, 4.0, (2.0, 2.0, 3.0))
    """
    attacks = [one for one in judged if one.attack and one.evaluated]
    if not attacks:
        return None
    curve = kaplan_meier(
        [one.turns if one.turn is None else one.turn for one in attacks], [one.fired for one in attacks]
    )
    caught = [(one.turn, one.turns - one.turn) for one in attacks if one.turn is not None]
    lead = None
    if caught:
        quarter, half, rest = np.quantile([left for _, left in caught], [0.25, 0.5, 0.75])
        lead = (float(quarter), float(half), float(rest))
    median = float(np.median([turn for turn, _ in caught])) if caught else None
    return FirstFlag(curve, curve.median, curve.quartiles, median, lead)


SHARE_AT_HORIZON = 0.1
"""Share of the attacks that must last up to the turn at which a mean delay is cut off."""


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

    def mean(weights: ResampleWeights) -> Floats:
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
