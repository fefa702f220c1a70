"""Where the gain comes from: by source, category, tactic and length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.rates import Rate
from turnwise.study.holm import holm
from turnwise.study.paired import mcnemar
from turnwise.study.verdicts import Judged

DIVISIONS = ("source", "category", "tactic", "length")


@dataclass(frozen=True, slots=True)
class Gain:
    """Two arms on the attacks of one cell.

    Args:
        b_count: attacks that the first alone caught.
        c_count: attacks that the second alone caught.
        p: the larger of the exact McNemar p-value and the one with groups as the unit.
        p_holm: the same, corrected for the cells of the division.
        pairs: attacks that both judged.
        groups: groups that they fall into.
        gain: recall of the second less that of the first.
    """

    b_count: int
    c_count: int
    p: float
    p_holm: float
    pairs: int
    groups: int
    gain: float


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of a division.

    Args:
        division: source, category, tactic or length.
        value: which.
        recall: by arm in the order of the study, attacks caught; of 0 where there is none.
        false_positives: the same of benign conversations.
        gain: of the chosen arm over the reference; None without an attack that both judged.
    """

    division: str
    value: str
    recall: tuple[Rate, ...]
    false_positives: tuple[Rate, ...]
    gain: Gain | None

    def small(self, least: int) -> bool:
        """Return whether there are too few attacks for a percentage."""
        return max((rate.of for rate in self.recall), default=0) < least


def make_cells(
    arms: Sequence[Sequence[Judged]], first: Sequence[Judged] | None, second: Sequence[Judged] | None
) -> tuple[Cell, ...]:
    """Return the cells of every division that has more than one value.

    Args:
        arms: the tested conversations by arm.
        first: the reference, at the rate of the second; None for no gains.
        second: the arm whose gain is looked at.
    """
    cells: list[Cell] = []
    for division in DIVISIONS:
        values = sorted({one.strata[division] for arm in arms for one in arm if division in one.strata})
        if len(values) < 2:
            continue
        found = [_cell(division, value, arms, first, second) for value in values]
        tested = [cell.gain for cell in found if cell.gain]
        corrected = iter(holm([gain.p for gain in tested]))
        cells += [cell if cell.gain is None else _corrected(cell, cell.gain, next(corrected)) for cell in found]
    return tuple(cells)


def _cell(
    division: str,
    value: str,
    arms: Sequence[Sequence[Judged]],
    first: Sequence[Judged] | None,
    second: Sequence[Judged] | None,
) -> Cell:
    def rates(attack: bool) -> tuple[Rate, ...]:
        inside = [
            [
                one.fired
                for one in arm
                if one.evaluated and one.attack is attack and one.strata.get(division) == value
            ]
            for arm in arms
        ]
        return tuple(Rate(sum(fired), len(fired)) for fired in inside)

    gain = None
    if first is not None and second is not None:
        gain = _gain(
            [one for one in first if one.strata.get(division) == value],
            [one for one in second if one.strata.get(division) == value],
        )
    return Cell(division, value, rates(True), rates(False), gain)


def _gain(first: Sequence[Judged], second: Sequence[Judged]) -> Gain | None:
    others = {one.sequence_id: one for one in second if one.attack and one.evaluated}
    pairs = [
        (one, others[one.sequence_id])
        for one in first
        if one.attack and one.evaluated and one.sequence_id in others
    ]
    if not pairs:
        return None
    groups = [one.group for one, _ in pairs]
    test = mcnemar([one.fired for one, _ in pairs], [other.fired for _, other in pairs], groups)
    p = max(test.p, test.p_group)
    gain = (test.c_count - test.b_count) / len(pairs)
    return Gain(test.b_count, test.c_count, p, p, len(pairs), len(set(groups)), gain)


def _corrected(cell: Cell, gain: Gain, p_holm: float) -> Cell:
    from dataclasses import replace

    return replace(cell, gain=replace(gain, p_holm=p_holm))
