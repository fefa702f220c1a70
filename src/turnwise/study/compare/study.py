"""A study from beginning to end: splits, thresholds, verdicts, numbers, tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnwise.errors import UsageError
from turnwise.observers.context import ContextMode
from turnwise.study import metrics
from turnwise.study.compare.against import Test, run_tests
from turnwise.study.compare.arms import Arm, compared_runs, plan_arms, reference_of
from turnwise.study.compare.caveats import find_warnings
from turnwise.study.compare.cells import Cell, make_cells
from turnwise.study.compare.checks import Checks, run_checks
from turnwise.study.compare.folds import Fold, make_folds
from turnwise.study.compare.judging import Judgement, at_equal_rate, judge_arm
from turnwise.study.compare.load import Material, RunData, load_material
from turnwise.study.compare.reorder import Rescore
from turnwise.study.compare.settings import Settings
from turnwise.study.metrics import DetectorResult

if TYPE_CHECKING:
    from turnwise.store import Store

Tell = Callable[[str], None]
"""Takes a line on how far the study is."""


@dataclass(frozen=True, slots=True)
class Study:
    """A study and all that came of it.

    Args:
        settings: what was asked.
        material: what was read.
        folds: who trained, calibrated and tested.
        judgements: what each arm said.
        results: what was measured of each, in the same order.
        reference: place of the arm to beat.
        chosen: place of the arm that the report follows, chosen on the calibrate parts; None where nothing was
            asked but baselines.
        tests: all tests.
        cells: by source, category, tactic and length.
        checks: diagnostics of the chosen arm.
        warnings: what a reader must know, the gravest first.
    """

    settings: Settings
    material: Material
    folds: tuple[Fold, ...]
    judgements: tuple[Judgement, ...]
    results: tuple[DetectorResult, ...]
    reference: int
    chosen: int | None
    tests: tuple[Test, ...]
    cells: tuple[Cell, ...]
    checks: Checks
    warnings: tuple[str, ...]

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms, in the order of the results."""
        return tuple(one.arm for one in self.judgements)

    def test_of(self, arm: str) -> Test | None:
        """Return the test of an arm against the reference, by its name."""
        return next((test for test in self.tests if test.b == arm and test.family == "reference"), None)

    def unbeaten(self, arm: str) -> tuple[str, ...]:
        """Return the baselines that an arm was tested against and does not beat."""
        return tuple(test.a for test in self.tests if test.b == arm and not test.won)


def compare(
    store: Store, settings: Settings, *, rescore: Rescore | None = None, tell: Tell | None = None
) -> Study:
    """Compare detectors on runs of a store.

    Args:
        store: the record.
        settings: what to compare and how.
        rescore: scores a conversation anew by the observer of a run; without it, turns are not permuted and scored
            again.
        tell: takes a line on how far the study is.

    Raises:
        UnknownNameError: no such run, detector or parameter.
        DetectorError: a specification that does not fit.
        UsageError: too few conversations; the message says how many are needed.
    """
    asked, further = compared_runs(store.runs(), [store.run(name).name for name in settings.runs])
    say = tell or _silent
    say(f"reading {len(asked) + len(further)} runs")
    material = load_material(store, [*asked, *further])
    return compare_material(material, settings, further=further, store=store, rescore=rescore, tell=say)


def compare_material(
    material: Material,
    settings: Settings,
    *,
    further: Sequence[str] = (),
    store: Store | None = None,
    rescore: Rescore | None = None,
    tell: Tell | None = None,
) -> Study:
    """Compare detectors on what was loaded; see `compare`.

    Args:
        material: conversations and runs.
        settings: what to compare and how.
        further: runs that come in as baselines.
        store: where the texts are that `rescore` needs.
        rescore: as for `compare`.
        tell: as for `compare`.
    """
    import numpy as np

    say = tell or _silent
    data = {one.run.name: one for one in material.runs}
    arms = plan_arms(settings, {name: one.run.context for name, one in data.items()}, further)
    reference_arm = reference_of(arms)
    _check_labels(material)
    folds = make_folds(material.runs[0].examples, settings)
    strata = {one.sequence_id: one.strata for one in material.known}
    judgements: list[Judgement] = []
    for arm in arms:
        say(f"judging: {arm.name}")
        judgements.append(judge_arm(arm, data[arm.run], folds, settings, strata))
    say("measuring")
    results = [
        metrics.measure(
            one.judged,
            np.random.default_rng(settings.seed),
            name=one.arm.name,
            threshold=one.threshold,
            run=one.arm.run,
            context=one.arm.context,
            replicates=settings.replicates,
        )
        for one in judgements
    ]
    reference = arms.index(reference_arm)
    chosen = _choose(judgements, reference)
    say("testing")
    tests = run_tests(judgements, results, reference, data, folds, settings.seed, settings.replicates)
    cells = _cells(judgements, reference, chosen, data, folds)
    say("checking")
    checks = run_checks(judgements, reference, chosen, material, folds, settings, store=store, rescore=rescore)
    warnings = find_warnings(settings, material, judgements, results, tests, chosen, reference, checks)
    return Study(
        settings,
        material,
        folds,
        tuple(judgements),
        tuple(results),
        reference,
        chosen,
        tests,
        cells,
        checks,
        warnings,
    )


def _choose(judgements: Sequence[Judgement], reference: int) -> int | None:
    """Return the detector that catches most attacks of the calibrate parts; of equal ones the first.

    Where some run saw the history, one of that run: what is asked is whether looking over time helps.
    """
    candidates = [place for place, one in enumerate(judgements) if not one.arm.baseline]
    over_time = [place for place in candidates if judgements[place].arm.context == ContextMode.HISTORY]
    candidates = over_time or candidates
    if not candidates:  # then what context alone gives is the question
        candidates = [
            place
            for place, one in enumerate(judgements)
            if place != reference and one.arm.detector == judgements[reference].arm.detector
        ]
    shares = [(judgements[place].on_calibrate.count, -place) for place in candidates]
    return -max(shares)[1] if shares else None


def _cells(
    judgements: Sequence[Judgement],
    reference: int,
    chosen: int | None,
    data: Mapping[str, RunData],
    folds: Sequence[Fold],
) -> tuple[Cell, ...]:
    arms = [one.judged for one in judgements]
    if chosen is None:
        return make_cells(arms, None, None)
    return make_cells(arms, *at_equal_rate(judgements[reference], judgements[chosen], data, folds))


def _check_labels(material: Material) -> None:
    attacks = sum(one.attack for one in material.known)
    benign = len(material.known) - attacks
    if not attacks or not benign:
        raise UsageError(
            f"a study needs evaluated conversations of both labels, not {attacks} attacks and {benign} benign ones"
        )


def _silent(_: str) -> None:
    return None
