"""Prevalence: from labels of a stratified sample, and from flags that are wrong at times; intervals by melding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from turnwise.errors import UsageError
from turnwise.rates import Rate, clopper_pearson
from turnwise.stats.bootstrap import Floats, Interval

if TYPE_CHECKING:
    from turnwise.rates import Rate

# An exact interval of a proportion comes from two distributions: its lower ends are quantiles of one, its upper
# ends of the other. The lower end of a quantity that rises with some proportions and falls with others is a
# quantile of what it is where the rising ones are drawn from their lower and the falling ones from their upper
# distribution; the upper end likewise. The distributions are those of the exact interval of a proportion
# (Clopper and Pearson 1934): one proportion alone has just that interval. Source: M. P. Fay, M. A. Proschan and
# E. Brittain, "Combining one-sample confidence procedures for inference in the two-sample case", Biometrics 71
# (2015); for prevalences, D. Bayer, M. P. Fay and B. I. Graubard, "Confidence intervals for prevalence estimates
# from complex surveys with imperfect assays", Statistics in Medicine 42 (2023).

DRAWS: Final = 100_000
"""Draws of an interval: its ends move by less than a hundredth of its width from seed to seed."""

METHOD: Final = "melding of exact intervals"

MID_P: Final = "melding of mid-P intervals"

End = Literal["low", "high", "middle"]
"""Which distribution: of the lower ends, of the upper ends, or half of either, which gives the mid-P interval."""


def drawn(
    rate: Rate, end: End, random: np.random.Generator, draws: int = DRAWS, design_effect: float = 1.0
) -> Floats:
    """Draws of a proportion from the distribution of the lower or upper ends of its exact interval.

    >>> import numpy as np
    >>> from turnwise.rates import Rate
    >>> low = np.quantile(drawn(Rate(3, 50), "low", np.random.default_rng(1)), 0.025)
    >>> bool(abs(low - Rate(3, 50).interval[0]) < 0.001)
    True
    """
    # A rate of none at all is 0 at the lower end and 1 at the upper. A `design_effect` says how many trials know
    # as much as one (E. L. Korn and B. I. Graubard, Survey Methodology 24, 1998). The mid-P interval is shorter
    # and holds the truth about as often as it says (G. Berry and P. Armitage, The Statistician 44, 1995).
    if end == "middle":
        low, high = (drawn(rate, one, random, draws, design_effect) for one in _ENDS)
        return np.where(random.random(draws) < 0.5, low, high)
    count, rest = rate.count / design_effect, (rate.of - rate.count) / design_effect
    if end == "low":
        return random.beta(count, rest + 1, draws) if count else np.zeros(draws)
    return random.beta(count + 1, rest, draws) if rest else np.ones(draws)


_ENDS: Final[tuple[End, End]] = ("low", "high")


def melded(
    value: float, low: Floats, high: Floats, confidence: float, note: str = "", method: str = METHOD
) -> Interval:
    """A number in [0, 1] with the interval that draws of its ends give."""
    if not 0 < confidence < 1:
        raise UsageError(f"confidence must lie in (0, 1), not {confidence}")
    tail = (1 - confidence) / 2
    ends = np.clip([np.quantile(low, tail), np.quantile(high, 1 - tail)], 0.0, 1.0)
    return Interval(value, min(float(ends[0]), value), max(float(ends[1]), value), confidence, method, 0, note)


@dataclass(frozen=True, slots=True)
class Stratum:
    """Conversations that are sampled alike; the detector flagged all of them, or none.

    `population` is how many there are; `labelled` of them were drawn and labelled, and `attacks` of these are
    attacks. Above 1, the `design_effect` says how many of them know as much as one that was drawn by itself.
    """

    name: str
    population: int
    flagged: bool
    attacks: int
    labelled: int
    design_effect: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.attacks <= self.labelled <= self.population:
            raise UsageError(
                f"stratum {self.name!r} must have attacks <= labelled <= population, not {self.attacks}, "
                f"{self.labelled} and "
                f"{self.population}"
            )


@dataclass(frozen=True, slots=True)
class Estimates:
    """What labels of a stratified sample say of the conversations that it was drawn from.

    NaN where a stratum that counts has no label; recall also where no label is an attack, precision where none is
    flagged.
    """

    prevalence: Interval
    recall: Interval
    precision: Interval
    false_positive_rate: Interval


def estimate_strata(
    strata: Sequence[Stratum],
    *,
    confidence: float = 0.95,
    seed: int = 0,
    draws: int = DRAWS,
    on_average: bool = False,
) -> Estimates:
    """What the labels of a stratified random sample say of all conversations; the strata together are all of them.

    Each estimate weights a stratum by its conversations: W. G. Cochran, "Sampling Techniques", third edition
    (1977), chapter 5; recall is a ratio of two such totals. The intervals meld exact ones
    (`melded`): within a stratum the share of attacks among those without a label is drawn
    from its exact interval, and their number from a binomial distribution, so that a stratum that is labelled
    whole has no uncertainty. For one stratum that is the exact interval of the hypergeometric distribution. A
    stratum without an attack among its labels may hold some; the upper ends say how many. With `on_average`
    the intervals hold the truth about as often as they say, not at least as often, and are shorter (mid-P); and
    recall is less the bias that a ratio of totals has where attacks are few (E. M. L. Beale, "Some uses of
    computers in operational research", Industrielle Organisation 31, 1962).

    >>> found = estimate_strata([Stratum("flagged", 100, True, 18, 20), Stratum("rest", 9_900, False, 0, 80)])
    >>> print(f"{found.prevalence.value:.4f} [{found.prevalence.low:.4f}, {found.prevalence.high:.4f}]")
    0.0090 [0.0071, 0.0534]
    """
    size = sum(one.population for one in strata)
    if not size:
        raise UsageError("strata hold no conversation: an estimate needs at least one")
    random = np.random.default_rng(seed)
    flagged = [one for one in strata if one.flagged and one.population]
    others = [one for one in strata if not one.flagged and one.population]
    alarms = sum(one.population for one in flagged)
    totals = {
        (hit, end): _total(some, "middle" if on_average else end, random, draws)
        for hit, some in ((True, flagged), (False, others))
        for end in _ENDS
    }
    hits, misses = _expected(flagged), _expected(others)

    def made(value: float, low: Floats, high: Floats) -> Interval:
        return melded(value, low, high, confidence, method=MID_P if on_average else METHOD)

    return Estimates(
        prevalence=made(
            (hits + misses) / size,
            (totals[True, "low"] + totals[False, "low"]) / size,
            (totals[True, "high"] + totals[False, "high"]) / size,
        ),
        recall=made(
            _unbiased_ratio(hits, misses, _variance(flagged), _variance(others))
            if on_average
            else _ratio(hits, hits + misses),
            _share(totals[True, "low"], totals[False, "high"], 0.0),
            _share(totals[True, "high"], totals[False, "low"], 1.0),
        ),
        precision=made(
            _ratio(hits, alarms), totals[True, "low"] / max(alarms, 1), totals[True, "high"] / max(alarms, 1)
        ),
        false_positive_rate=made(
            _ratio(alarms - hits, size - hits - misses),
            _share(alarms - totals[True, "high"], size - alarms - totals[False, "low"], 0.0),
            _share(alarms - totals[True, "low"], size - alarms - totals[False, "high"], 1.0),
        ),
    )


def _total(strata: Sequence[Stratum], end: End, random: np.random.Generator, draws: int) -> Floats:
    """Draws of how many attacks some strata hold."""
    total = np.zeros(draws)
    for one in strata:
        share = drawn(Rate(one.attacks, one.labelled), end, random, draws, one.design_effect)
        others = one.population - one.labelled
        alike = random.binomial(round(others / one.design_effect), share)
        total += one.attacks + np.minimum(one.design_effect * alike, others)
    return total


def _expected(strata: Sequence[Stratum]) -> float:
    """How many attacks some strata hold, as the labels say; NaN where one of them has no label."""
    return math.fsum(one.population * _ratio(one.attacks, one.labelled) for one in strata)


def _variance(strata: Sequence[Stratum]) -> float:
    """The variance of the number of attacks that some strata are expected to hold, over samples of that size."""
    return math.fsum(
        one.design_effect
        * one.population
        * (one.population - one.labelled)
        * (share := _ratio(one.attacks, one.labelled))
        * (1 - share)
        / max(one.labelled - 1, 1)
        for one in strata
    )


def _unbiased_ratio(part: float, rest: float, of_part: float, of_rest: float) -> float:
    """part / (part + rest) by Beale's estimator, from the variances of both; NaN where both are 0."""
    whole = part + rest
    if not (part and rest):
        return _ratio(part, whole)
    return part / whole * (1 + of_part / (part * whole)) / (1 + (of_part + of_rest) / whole**2)


def _ratio(above: float, below: float) -> float:
    return above / below if below else math.nan


def _share(part: Floats, rest: Floats, otherwise: float) -> Floats:
    """part / (part + rest) for each draw; `otherwise` where both are 0."""
    whole = part + rest
    return np.divide(part, whole, out=np.full_like(whole, otherwise), where=whole > 0)


FEWER = "fewer were flagged than false positives alone would be; the estimate is cut off at 0"
MORE = "more were flagged than would be if all were attacks; the estimate is cut off at 1"
UNCLEAR = (
    "recall is not clearly above the false-positive rate: their intervals overlap, and the interval of the "
    "prevalence is as wide as that"
)


def expected_by_chance(conversations: int, false_positives: Rate) -> tuple[float, float, float]:
    """How many of some conversations are flagged if none of them is an attack: expected number, low, high.

    The interval carries the uncertainty of the false-positive rate (Clopper and Pearson 1934) and not the play of
    chance in the conversations themselves, which is small beside it where they are many.

    >>> expected, low, high = expected_by_chance(10_000, Rate(14, 1515))
    >>> round(expected), round(low), round(high)
    (92, 51, 155)
    """
    _check(false_positives, "false-positive rate")
    low, high = false_positives.interval
    return conversations * false_positives.count / false_positives.of, conversations * low, conversations * high


def corrected_prevalence(
    flagged: Rate,
    recall: Rate,
    false_positives: Rate,
    *,
    confidence: float = 0.95,
    seed: int = 0,
    draws: int = DRAWS,
) -> Interval:
    """The share of attacks among conversations, from the share that is flagged.

    The estimate is (flagged − false-positive rate) / (recall − false-positive rate), cut off at 0 and 1: W. J.
    Rogan and B. Gladen, "Estimating prevalence from the results of a screening test", American Journal of
    Epidemiology 107 (1978). Its interval melds the exact intervals of the three rates
    (`melded`), so that it carries the uncertainty of recall and false-positive rate too. It
    takes the three to be of independent conversations, and recall and false-positive rate to be what they are
    among these. It refuses with a `UsageError` where, by more than chance, the flags are fewer than false
    positives alone give or more than recall allows.

    >>> found = corrected_prevalence(Rate(250, 10_000), Rate(62, 84), Rate(14, 1515))
    >>> print(f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]")
    0.022 [0.012, 0.030]
    """
    _check(flagged, "share of flags")
    _check(recall, "recall")
    _check(false_positives, "false-positive rate")
    share, found, wrong = (rate.count / rate.of for rate in (flagged, recall, false_positives))
    if found <= wrong:
        raise UsageError(
            f"a recall of {recall} must be above the false-positive rate, {false_positives}: else flags tell "
            "nothing about prevalence"
        )
    raw = (share - wrong) / (found - wrong)
    lowest_recall = clopper_pearson(recall.count, recall.of, confidence)[0]
    unclear = lowest_recall <= clopper_pearson(false_positives.count, false_positives.of, confidence)[1]
    note = "; ".join(text for text, holds in {FEWER: raw < 0, MORE: raw > 1, UNCLEAR: unclear}.items() if holds)
    random = np.random.default_rng(seed)

    def ends(end: End, other: End, otherwise: float) -> Floats:
        known = (drawn(recall, other, random, draws), drawn(false_positives, other, random, draws))
        return _corrected(drawn(flagged, end, random, draws), *known, otherwise)

    low, high = ends("low", "high", 0.0), ends("high", "low", 1.0)
    made = melded(min(max(raw, 0.0), 1.0), low, high, confidence, note)
    if made.high == 0 or made.low == 1:
        how = (
            f"fewer than a false-positive rate of {false_positives}"
            if made.high == 0
            else f"more than a recall of {recall}"
        )
        raise UsageError(
            f"{flagged.count:,} of {flagged.of:,} conversations are flagged, {how} allows: these are not like "
            "those that it was measured on; measure the detector on conversations like these"
        )
    return made


def _corrected(flagged: Floats, recall: Floats, false_positives: Floats, otherwise: float) -> Floats:
    """The estimate for each draw; `otherwise` where recall is not above the false-positive rate."""
    above = recall - false_positives
    ratio = np.divide(flagged - false_positives, above, out=np.full_like(above, otherwise), where=above > 0)
    return np.clip(ratio, 0.0, 1.0)


def _check(rate: Rate, what: str) -> None:
    if not rate.of:
        raise UsageError(f"{what}: it must be measured on at least one conversation")
