"""What labels of a stratified sample say of all conversations: prevalence, recall, precision, false positives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.study.stats.melding import DRAWS, End, drawn, melded

if TYPE_CHECKING:
    import numpy as np

    from turnwise.study.stats.bootstrap import Interval
    from turnwise.study.stats.melding import Floats


@dataclass(frozen=True, slots=True)
class Stratum:
    """Conversations that are sampled alike; the detector flagged all of them, or none.

    `population` is how many there are; `labelled` of them were drawn and labelled, and `attacks` of these are
    attacks.
    """

    name: str
    population: int
    flagged: bool
    attacks: int
    labelled: int

    def __post_init__(self) -> None:
        if not 0 <= self.attacks <= self.labelled <= self.population:
            raise UsageError(
                f"stratum {self.name!r}: there can't be {self.attacks} attacks among {self.labelled} labelled of "
                f"{self.population} conversations"
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
    strata: Sequence[Stratum], *, confidence: float = 0.95, seed: int = 0, draws: int = DRAWS
) -> Estimates:
    """What the labels of a stratified random sample say of all conversations; the strata together are all of them.

    Each estimate weights a stratum by its conversations: W. G. Cochran, "Sampling Techniques", third edition
    (1977), chapter 5; recall is a ratio of two such totals. The intervals meld exact ones
    (`turnwise.study.stats.melding`): within a stratum the share of attacks among those without a label is drawn
    from its exact interval, and their number from a binomial distribution, so that a stratum that is labelled
    whole has no uncertainty. A stratum without an attack among its labels may hold some; the upper ends say how
    many.

    >>> found = estimate_strata([Stratum("flagged", 100, True, 18, 20), Stratum("rest", 9_900, False, 0, 80)])
    >>> print(f"{found.prevalence.value:.4f} [{found.prevalence.low:.4f}, {found.prevalence.high:.4f}]")
    0.0090 [0.0071, 0.0534]
    """
    import numpy as np

    size = sum(one.population for one in strata)
    if not size:
        raise UsageError("there is no conversation to estimate anything of")
    random = np.random.default_rng(seed)
    flagged = [one for one in strata if one.flagged and one.population]
    others = [one for one in strata if not one.flagged and one.population]
    alarms = sum(one.population for one in flagged)
    totals = {
        (hit, end): _total(some, end, random, draws)
        for hit, some in ((True, flagged), (False, others))
        for end in _ENDS
    }
    hits, misses = _expected(flagged), _expected(others)

    def made(value: float, low: Floats, high: Floats) -> Interval:
        return melded(value, low, high, confidence)

    return Estimates(
        prevalence=made(
            (hits + misses) / size,
            (totals[True, "low"] + totals[False, "low"]) / size,
            (totals[True, "high"] + totals[False, "high"]) / size,
        ),
        recall=made(
            _ratio(hits, hits + misses),
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


_ENDS: tuple[End, ...] = ("low", "high")


def _total(strata: Sequence[Stratum], end: End, random: np.random.Generator, draws: int) -> Floats:
    """Draws of how many attacks some strata hold."""
    import numpy as np

    total = np.zeros(draws)
    for one in strata:
        share = drawn(Rate(one.attacks, one.labelled), end, random, draws)
        total += one.attacks + random.binomial(one.population - one.labelled, share)
    return total


def _expected(strata: Sequence[Stratum]) -> float:
    """How many attacks some strata hold, as the labels say; NaN where one of them has no label."""
    return math.fsum(one.population * _ratio(one.attacks, one.labelled) for one in strata)


def _ratio(above: float, below: float) -> float:
    return above / below if below else math.nan


def _share(part: Floats, rest: Floats, otherwise: float) -> Floats:
    """part / (part + rest) for each draw; `otherwise` where both are 0."""
    import numpy as np

    whole = part + rest
    return np.divide(part, whole, out=np.full_like(whole, otherwise), where=whole > 0)
