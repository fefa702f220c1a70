"""The tests of a study: arms against the reference and the baselines, and gains by source, tactic and length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from turnwise.observers.protocol import ContextMode
from turnwise.rates import Rate
from turnwise.stats import (
    MATCHED_RATES,
    DetectorResult,
    Judged,
    MatchedRates,
    McNemar,
    PairTest,
    compare_pairs,
    confusion,
    evaluated_by_both,
    holm_corrected,
    matched,
    matched_rates,
    paired_test,
)
from turnwise.study.compare.judging import ArmJudgement, at_equal_rate
from turnwise.study.compare.plan import REFERENCE, Arm, Settings

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
    judgements: Sequence[ArmJudgement], results: Sequence[DetectorResult], reference: int, settings: Settings
) -> tuple[Test, ...]:
    """Test every detector over time against the reference and against the other baselines."""
    # `any_turn` on a further run is tested against the reference as well: that says what the context alone gives.
    # The baselines of a detector are those of its own run, and what reads no scores turn by turn.
    challengers = [place for place, one in enumerate(judgements) if place != reference and _challenges(one.arm)]
    found = run_tests_against(judgements, results, reference, challengers, settings)
    others: list[Test] = []
    baselines = [one for one in judgements if one.arm.baseline and one is not judgements[reference]]
    for other in (judgements[place] for place in challengers if not judgements[place].arm.baseline):
        for baseline in baselines:
            if _concerns(baseline.arm, other.arm):
                others.append(_test("baseline", baseline, other, *at_equal_rate(baseline, other)))
    return (*holm_corrected(found), *holm_corrected(others))


def run_final_tests(judgements: Sequence[ArmJudgement], reference: int) -> tuple[Test, ...]:
    """Test the verdicts at the last turn of every detector over time against those of the reference."""
    # Thresholds are those for verdicts at any turn. At the last turn both flag less, each in its own measure, so
    # benign conversations are tested as well.
    first = judgements[reference]
    challengers = [other for other in judgements if other is not first and _challenges(other.arm)]
    return holm_corrected([_test("final", first, other, *at_equal_rate(first, other)) for other in challengers])


def _test(
    family: Family, one: ArmJudgement, other: ArmJudgement, first: Sequence[Judged], second: Sequence[Judged]
) -> Test:
    """The test of two arms by these verdicts of theirs, not corrected yet."""
    pairs, final = matched(first, second), family == "final"
    attacks = paired_test(pairs, attack=True, final=final)
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
        benign=paired_test(pairs, attack=False, final=True) if final else None,
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
    judgements: Sequence[ArmJudgement],
    results: Sequence[DetectorResult],
    reference: int,
    challengers: Sequence[int],
    settings: Settings,
    family: Family = "reference",
) -> list[Test]:
    """Test arms against one at equal rates, without correction; equal verdicts share their resamples."""
    together: dict[tuple[bool, ...], list[tuple[int, DetectorResult]]] = defaultdict(list)
    verdicts_of: dict[tuple[bool, ...], tuple[Judged, ...]] = {}
    for place in challengers:
        first, second = at_equal_rate(judgements[reference], judgements[place])
        key = tuple(one.fired for one in first)
        verdicts_of.setdefault(key, first)
        together[key].append((place, replace(results[place], judged=second)))
    found: dict[int, Test] = {}
    for key, members in together.items():
        verdicts = verdicts_of[key]
        arms = [replace(results[reference], judged=verdicts), *(result for _, result in members)]
        tests = compare_pairs(arms, settings.seed, reference=0, replicates=settings.replicates)
        for (place, result), test in zip(members, tests, strict=True):
            plain = _test(family, judgements[reference], judgements[place], verdicts, result.judged)
            found[place] = replace(plain, differences=test)
    return [found[place] for place in challengers]


def compare_at_matched_rates(
    judgements: Sequence[ArmJudgement], reference: int, settings: Settings
) -> dict[str, MatchedRates]:
    """Compare the reference with every arm that is tested against it, at equal rates; by name of the arm."""
    # With folds each has thresholds of its own, so that none is carried over there.
    first = judgements[reference]
    found: dict[str, MatchedRates] = {}
    for other in judgements:
        if other is not first and _challenges(other.arm):
            limits = (first.threshold, other.threshold) if len(first.folds) == 1 else None
            if rates := at_matched_rates(first, other, settings, limits=limits):
                found[other.arm.name] = rates
    return found


def at_matched_rates(
    first: ArmJudgement,
    second: ArmJudgement,
    settings: Settings,
    *,
    limits: tuple[float, float] | None = None,
    rates: Sequence[float] = MATCHED_RATES,
) -> MatchedRates | None:
    """Compare two arms at equal rates, and at given thresholds; None without both labels."""
    pairs = matched(first.judged, second.judged)
    labels = [one.attack for one, _ in pairs]
    if all(labels) or not any(labels):
        return None
    return matched_rates(
        [one.score for one, _ in pairs if one.score is not None],  # matched ones have a score
        [other.score for _, other in pairs if other.score is not None],
        [one.group for one, _ in pairs],
        labels,
        limits=limits,
        rates=rates,
        replicates=settings.replicates,
        seed=settings.seed,
    )


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


Pair = tuple[Sequence[Judged], Sequence[Judged]]


def make_cells(arms: Sequence[Sequence[Judged]], compared: Pair | None) -> tuple[Cell, ...]:
    """The cells of every division that has several values; compared are the reference and an arm at its rate."""
    cells: list[Cell] = []
    for division in DIVISIONS:
        values = sorted({one.strata[division] for arm in arms for one in arm if division in one.strata})
        if len(values) < 2:
            continue
        found = [_cell(division, value, arms, compared) for value in values]
        gains = iter(holm_corrected([cell.gain for cell in found if cell.gain]))
        cells += [replace(cell, gain=next(gains)) if cell.gain else cell for cell in found]
    return tuple(cells)


def _cell(division: str, value: str, arms: Sequence[Sequence[Judged]], compared: Pair | None) -> Cell:
    def inside(arm: Sequence[Judged]) -> list[Judged]:
        return [one for one in arm if one.strata.get(division) == value]

    counts = [confusion(inside(arm)) for arm in arms]
    gain = None if compared is None else _gain(*map(inside, compared))
    return Cell(division, value, tuple(one.recall for one in counts), tuple(one.fpr for one in counts), gain)


def _gain(first: Sequence[Judged], second: Sequence[Judged]) -> CellGain | None:
    pairs = [(one, other) for one, other in evaluated_by_both(first, second) if one.attack]
    if not pairs:
        return None
    test, groups = paired_test(pairs, attack=True), len({one.group for one, _ in pairs})
    p = max(test.p, test.p_group)
    gain = (test.b_alone - test.a_alone) / len(pairs)
    return CellGain(test.a_alone, test.b_alone, p, p, len(pairs), groups, gain)
