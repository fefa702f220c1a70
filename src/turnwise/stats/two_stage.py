"""What two stages find and miss of what a judge would find, by a random sample of what the screen passed over."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnwise.errors import UsageError
from turnwise.stats.prevalence import DRAWS, Estimates, Stratum, estimate_strata

if TYPE_CHECKING:
    from turnwise.stats.bootstrap import Interval


@dataclass(frozen=True, slots=True)
class Unit:
    """A turn or a conversation that went through a screen, and a judge where the screen pointed or chance chose.

    Args:
        conversation: id of the conversation.
        asked: whether the screen pointed at it.
        probability: with which the judge's verdict was to be known, in [0, 1]: 1 where the screen's choice
            suffices for it, else the rate of the random sample.
        positive: the judge's verdict; None where it isn't known.
        decided: whether the two stages together call it positive.
        stratum: what was sampled apart, where something was.
    """

    conversation: str
    asked: bool
    probability: float
    positive: bool | None
    decided: bool
    stratum: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1 or (self.positive is not None and not self.probability):
            raise UsageError(
                f"{self.conversation!r}: a known verdict has a probability in (0, 1], not {self.probability}"
            )


@dataclass(frozen=True, slots=True)
class StageRates:
    """Rates of one decision against the judge's verdict on everything; None where the record can't say.

    Args:
        recall: of what the judge would call positive, the share that is flagged.
        false_positive_rate: of what the judge would call negative, the share that is flagged.
        precision: of what is flagged, the share that the judge would call positive.
    """

    recall: Interval | None
    false_positive_rate: Interval | None
    precision: Interval | None


@dataclass(frozen=True, slots=True)
class TwoStageRates:
    """What is known of a screen and of two stages, measured by the judge.

    Args:
        units: turns or conversations in all.
        asked: those that the screen pointed at.
        certain: those whose verdict was to be known without the sample.
        found: those of them that the judge calls positive.
        judged: of the others, those of the sample whose verdict is known.
        missed: those of the sample that the judge calls positive: each stands for others like it.
        design_effect: how many turns of the sample know as much as one that was drawn by itself.
        prevalence: share that the judge would call positive; None where the record can't say.
        screen: rates of the screen, for which flagged means pointed at.
        two_stages: rates of the decision of both.
    """

    units: int
    asked: int
    certain: int
    found: int
    judged: int
    missed: int
    design_effect: float
    prevalence: Interval | None
    screen: StageRates
    two_stages: StageRates


def two_stage_rates(
    units: Sequence[Unit],
    *,
    by_conversation: bool = False,
    seed: int = 0,
    draws: int = DRAWS,
) -> TwoStageRates:
    """Estimate prevalence, recall and false-positive rate by the judge's verdict, had it looked at all units.

    Each known verdict counts by the inverse of the share of its stratum that is known: 1 where all were to be
    known, the realised rate of the sample elsewhere. The rates are of these very units: only the draw is left to
    chance. So turns that were drawn one by one need no allowance for the conversations that they are from: the
    interval of the number missed is the hypergeometric one (mid-P), and recall, which falls with that number, has
    its ends from it. As a ratio it would come out too high where few are found; that bias is taken off.

    Where whole conversations were drawn, turns know less than they count, and the sample is divided by its design
    effect, the variance between conversations over that of single turns. A bootstrap over conversations would give
    no width to a sample without a positive.

    Args:
        units: all of them, judged or not; a verdict that is missing is taken to be missing by chance.
        by_conversation: whether units are turns and whole conversations were drawn.
        seed: of the draws that the intervals are read from.
        draws: how many.

    Raises:
        UsageError: there is no unit.

    >>> asked = [Unit("a", True, 1.0, True, True)] * 40 + [Unit("a", True, 1.0, False, False)] * 60
    >>> rest = [Unit("b", False, 0.1, n == 0 if n < 90 else None, False) for n in range(900)]
    >>> found = two_stage_rates(asked + rest).screen.recall
    >>> print(f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]")
    0.77 [0.47, 0.98]
    """
    if not units:
        raise UsageError("units is empty: an estimate needs at least one turn or conversation that was screened")
    effects: list[float] = []

    def estimated(flag: Callable[[Unit], bool]) -> Estimates:
        cells: dict[tuple[str, float, bool], list[Unit]] = defaultdict(list)
        for one in units:
            cells[one.stratum, one.probability, flag(one)].append(one)
        strata = []
        for (name, probability, flagged), cell in sorted(cells.items()):
            known = [one for one in cell if one.positive is not None]
            effect = _design_effect(known) if by_conversation and probability < 1 else 1.0
            effects.append(effect)
            strata.append(Stratum(name, len(cell), flagged, _positive(known), len(known), effect))
        return estimate_strata(strata, seed=seed, draws=draws, on_average=True)

    of_screen, of_both = estimated(lambda one: one.asked), estimated(lambda one: one.decided)
    certain = [one for one in units if one.probability == 1]
    sampled = [one for one in units if one.probability < 1 and one.positive is not None]
    return TwoStageRates(
        units=len(units),
        asked=sum(one.asked for one in units),
        certain=len(certain),
        found=_positive(certain),
        judged=len(sampled),
        missed=_positive(sampled),
        design_effect=max(effects),
        prevalence=_known(of_screen.prevalence),
        screen=_rates(of_screen),
        two_stages=_rates(of_both),
    )


def _positive(units: Sequence[Unit]) -> int:
    return sum(one.positive is True for one in units)


def _rates(found: Estimates) -> StageRates:
    return StageRates(_known(found.recall), _known(found.false_positive_rate), _known(found.precision))


def _known(found: Interval) -> Interval | None:
    return found if math.isfinite(found.value) else None


def _design_effect(turns: Sequence[Unit]) -> float:
    """The variance of a share over conversations that were drawn whole, by that over turns drawn one by one."""
    # Verdicts that are all the same show nothing of how alike a conversation's are, and count as one. Few positive
    # ones show little: so one conversation more is added, half-way (by ratio) between one positive turn and all.
    counts: dict[str, list[float]] = defaultdict(lambda: [0, 0])
    for one in turns:
        counts[one.conversation][0] += one.positive is True
        counts[one.conversation][1] += 1
    size = math.fsum(of * of for _, of in counts.values()) / max(len(turns), 1)
    if _positive(turns) in (0, len(turns)):
        return max(size, 1.0)
    drawn = [*counts.values(), [math.sqrt(size), size]]
    positive, known = _positive(turns) + math.sqrt(size), len(turns) + size
    share = positive / known
    between = math.fsum((count - share * of) ** 2 for count, of in drawn) * len(drawn) / (len(drawn) - 1)
    return max(between / (known * share * (1 - share)), 1.0)
