"""The tests of a study: arms against the reference and the baselines, and gains by source, tactic and length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from turnwise.observers.protocol import ContextMode
from turnwise.rates import Rate
from turnwise.stats import (
    DetectorResult,
    Judged,
    MatchedRates,
    McNemar,
    PairTest,
    compare_pairs,
    evaluated_by_both,
    holm_corrected,
    matched,
    matched_rates,
    mcnemar,
)
from turnwise.study.compare.data import RunData
from turnwise.study.compare.judging import Judgement, at_equal_rate
from turnwise.study.compare.plan import REFERENCE, Arm, Fold, Settings

LEVEL = 0.05
"""Level of all tests."""

Family = Literal["reference", "baseline", "final", "run"]


@dataclass(frozen=True, slots=True)
class Test:
    """One arm against another, on the attacks of the test conversations that both evaluated.

    Args:
        a: name of the first arm, the one to beat.
        b: name of the second.
        family: tests that Holm's correction takes together: against the reference, against the other baselines,
            against the reference by the verdicts at the last turn, or of a detector on two runs.
        p: exact McNemar p-value.
        p_group: the same with groups as the unit.
        p_holm: Holm's correction of the larger of the two.
        pairs: attacks that both judged.
        tightened: whether thresholds were moved so that both flag equally many benign calibration conversations.
        a_alone: attacks that the first alone caught.
        b_alone: attacks that the second alone caught.
        differences: with intervals; of the first family and the last only.
        benign: the same test on the benign conversations; of the verdicts at the last turn alone, where there are
            differences these have it.
    """

    __test__ = False  # no test case of pytest

    a: str
    b: str
    family: Family
    p: float
    p_group: float
    p_holm: float
    pairs: int
    tightened: bool
    a_alone: int
    b_alone: int
    differences: PairTest | None = None
    benign: McNemar | None = None

    @property
    def won(self) -> bool:
        """Whether the second caught more, beyond what chance explains."""
        return self.b_alone > self.a_alone and self.p_holm < LEVEL

    @property
    def lost(self) -> bool:
        """Whether the first caught more, beyond what chance explains."""
        return self.a_alone > self.b_alone and self.p_holm < LEVEL


def run_tests(
    judgements: Sequence[Judgement],
    results: Sequence[DetectorResult],
    reference: int,
    data: Mapping[str, RunData],
    folds: Sequence[Fold],
    seed: int,
    replicates: int,
) -> tuple[Test, ...]:
    """Test every detector over time against the reference and against the other baselines."""
    # `any_turn` on a further run is tested against the reference as well: that says what the context alone gives.
    # The baselines of a detector are those of its own run, and what reads no scores turn by turn.
    challengers = [place for place, one in enumerate(judgements) if place != reference and _challenges(one.arm)]
    found = run_tests_against(judgements, results, reference, challengers, data, folds, seed, replicates)
    others: list[Test] = []
    baselines = [one for one in judgements if one.arm.baseline and one is not judgements[reference]]
    for other in (judgements[place] for place in challengers if not judgements[place].arm.baseline):
        for baseline in baselines:
            if _concerns(baseline.arm, other.arm):
                first, second = at_equal_rate(baseline, other, data, folds)
                others.append(_test("baseline", baseline, other, first, second))
    return (*holm_corrected(found), *holm_corrected(others))


def run_final_tests(
    judgements: Sequence[Judgement], reference: int, data: Mapping[str, RunData], folds: Sequence[Fold]
) -> tuple[Test, ...]:
    """Test the verdicts at the last turn of every detector over time against those of the reference."""
    # Thresholds are those for verdicts at any turn. At the last turn both flag less, each in its own measure, so
    # benign conversations are tested as well.
    found = []
    for place, other in enumerate(judgements):
        if place == reference or not _challenges(other.arm):
            continue
        first, second = at_equal_rate(judgements[reference], other, data, folds)
        found.append(_test("final", judgements[reference], other, first, second))
    return holm_corrected(found)


def _test(
    family: Family, one: Judgement, other: Judgement, first: Sequence[Judged], second: Sequence[Judged]
) -> Test:
    """The test of two arms by these verdicts of theirs, not corrected yet."""
    pairs = matched(first, second)

    def tested(label: bool) -> McNemar:
        chosen = [(a, b) for a, b in pairs if a.attack is label]
        at_the_end = family == "final"
        return mcnemar(
            [a.final if at_the_end else a.fired for a, _ in chosen],
            [b.final if at_the_end else b.fired for _, b in chosen],
            [a.group for a, _ in chosen],
        )

    attacks = tested(True)
    return Test(
        one.arm.name,
        other.arm.name,
        family,
        attacks.p,
        attacks.p_group,
        attacks.p,
        attacks.pairs,
        first != one.judged or second != other.judged,
        attacks.a_alone,
        attacks.b_alone,
        benign=tested(False) if family == "final" else None,
    )


def _challenges(arm: Arm) -> bool:
    return not arm.baseline or (arm.detector == REFERENCE and arm.context == ContextMode.HISTORY)


def _concerns(baseline: Arm, arm: Arm) -> bool:
    return (
        baseline.run == arm.run
        or baseline.detector == "length_only"
        or baseline.context == ContextMode.TRANSCRIPT
        or baseline.context.startswith(ContextMode.WINDOW)
    )


def run_tests_against(
    judgements: Sequence[Judgement],
    results: Sequence[DetectorResult],
    reference: int,
    challengers: Sequence[int],
    data: Mapping[str, RunData],
    folds: Sequence[Fold],
    seed: int,
    replicates: int,
    family: Family = "reference",
) -> list[Test]:
    """Test arms against one at equal rates, without correction; equal verdicts share their resamples."""
    together: dict[tuple[bool, ...], list[tuple[int, DetectorResult]]] = defaultdict(list)
    verdicts_of: dict[tuple[bool, ...], tuple[Judged, ...]] = {}
    for place in challengers:
        first, second = at_equal_rate(judgements[reference], judgements[place], data, folds)
        key = tuple(one.fired for one in first)
        verdicts_of.setdefault(key, first)
        together[key].append((place, replace(results[place], judged=second)))
    found: dict[int, Test] = {}
    for key, members in together.items():
        verdicts = verdicts_of[key]
        arms = [replace(results[reference], judged=verdicts), *(result for _, result in members)]
        tests = compare_pairs(arms, seed, reference=0, replicates=replicates)
        for (place, result), test in zip(members, tests, strict=True):
            plain = _test(family, judgements[reference], judgements[place], verdicts, result.judged)
            found[place] = replace(plain, differences=test)
    return [found[place] for place in challengers]


def compare_at_matched_rates(
    judgements: Sequence[Judgement], reference: int, settings: Settings
) -> dict[str, MatchedRates]:
    """Compare the reference with every arm that is tested against it, at equal rates; by name of the arm."""
    # With folds each has thresholds of its own, so that none is carried over there.
    first = judgements[reference]
    found: dict[str, MatchedRates] = {}
    for place, other in enumerate(judgements):
        if place == reference or not _challenges(other.arm):
            continue
        pairs = matched(first.judged, other.judged)
        labels = [a.attack for a, _ in pairs]
        if all(labels) or not any(labels):
            continue
        found[other.arm.name] = matched_rates(
            [a.score for a, _ in pairs if a.score is not None],  # matched ones have a score
            [b.score for _, b in pairs if b.score is not None],
            [a.group for a, _ in pairs],
            labels,
            limits=(first.threshold, other.threshold) if len(first.folds) == 1 else None,
            replicates=settings.replicates,
            seed=settings.seed,
        )
    return found


DIVISIONS = ("source", "category", "tactic", "length")


@dataclass(frozen=True, slots=True)
class CellGain:
    """Two arms on the attacks of one cell.

    Args:
        a_alone: attacks that the first alone caught.
        b_alone: attacks that the second alone caught.
        p: the larger of the exact McNemar p-value and the one with groups as the unit.
        p_holm: the same, corrected for the cells of the division.
        pairs: attacks that both judged.
        groups: groups that they fall into.
        gain: recall of the second less that of the first.
    """

    a_alone: int
    b_alone: int
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
        fpr: the same of benign conversations.
        gain: of the chosen arm over the reference; None without an attack that both judged.
    """

    division: str
    value: str
    recall: tuple[Rate, ...]
    fpr: tuple[Rate, ...]
    gain: CellGain | None

    def small(self, least: int) -> bool:
        """Return whether there are too few attacks for a percentage."""
        return max((rate.of for rate in self.recall), default=0) < least


def make_cells(
    arms: Sequence[Sequence[Judged]], first: Sequence[Judged] | None, second: Sequence[Judged] | None
) -> tuple[Cell, ...]:
    """The cells of every division that has several values; `first` is the reference, at the rate of `second`."""
    cells: list[Cell] = []
    for division in DIVISIONS:
        values = sorted({one.strata[division] for arm in arms for one in arm if division in one.strata})
        if len(values) < 2:
            continue
        found = [_cell(division, value, arms, first, second) for value in values]
        gains = iter(holm_corrected([cell.gain for cell in found if cell.gain]))
        cells += [replace(cell, gain=next(gains)) if cell.gain else cell for cell in found]
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


def _gain(first: Sequence[Judged], second: Sequence[Judged]) -> CellGain | None:
    pairs = [(one, other) for one, other in evaluated_by_both(first, second) if one.attack]
    if not pairs:
        return None
    groups = [one.group for one, _ in pairs]
    test = mcnemar([one.fired for one, _ in pairs], [other.fired for _, other in pairs], groups)
    p = max(test.p, test.p_group)
    gain = (test.b_alone - test.a_alone) / len(pairs)
    return CellGain(test.a_alone, test.b_alone, p, p, len(pairs), len(set(groups)), gain)
