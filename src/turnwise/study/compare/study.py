"""A study from beginning to end: splits, thresholds, verdicts, numbers, tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.runs.why import explain_flag
from turnwise.stats import (
    DetectorResult,
    Judged,
    MatchedRates,
    PairedBounds,
    Resamples,
    evaluated,
    measure,
    paired_bounds,
    resamples,
)
from turnwise.study.compare.arm_diagnostics import ArmChecks, Rescore, run_checks
from turnwise.study.compare.between_runs import BetweenRuns, compare_runs
from turnwise.study.compare.comparisons import (
    Cell,
    Test,
    compare_at_matched_rates,
    make_cells,
    run_final_tests,
    run_tests,
)
from turnwise.study.compare.context_and_trajectory import TwoByTwo, two_by_two
from turnwise.study.compare.data import StudyData, load_study_data
from turnwise.study.compare.judging import (
    ArmJudgement,
    ArmScores,
    at_equal_rate,
    candidates,
    choose,
    evaluated_of,
    judge_arm,
)
from turnwise.study.compare.plan import (
    Arm,
    Fold,
    Settings,
    compared_runs,
    make_folds,
    plan_arms,
    reference_of,
    without,
)
from turnwise.study.compare.truth import AgainstReader, ReaderTurns, against_reader, read_reader
from turnwise.study.compare.warnings import Caution, find_cautions

if TYPE_CHECKING:
    from turnwise.store import Store

Tell = Callable[[str], None]
"""Takes a line on how far the study is."""


@dataclass(frozen=True, slots=True)
class Study:
    """A study and all that came of it.

    Args:
        settings: what was asked.
        data: what was read.
        folds: who trained, calibrated and tested.
        judgements: what each arm said.
        results: what was measured of each, in the same order.
        reference: place of the arm to beat.
        in_training: by place of each arm that the report might follow, the attacks that it caught, cross-fitted
            inside the train parts.
        chosen: place of the arm that the report follows, the best of these; None where there is none.
        two_by_two: what each observer sees by what decides, with the gain of context and the gain of trajectory;
            a warning says where it can't be measured.
        matched_rates: by name of the arm, how it compares with the reference at equal false-positive rates.
        tests: all tests of verdicts at any turn.
        final_tests: tests of verdicts at the last turn, against the reference.
        if_missing: the test of the chosen arm, if all missing verdicts on attacks had gone one way or the other;
            None where none is missing.
        cells: by source, category, tactic and length.
        checks: diagnostics of the chosen arm.
        cautions: what a reader must know, the gravest first.
        truth: every arm beside the turns that a reader flags; None where no reader was named.
        between_runs: each detector that was asked for, on runs of the same context.
        why_flagged: why the arm that the report follows flagged some conversations; empty unless asked for.
    """

    settings: Settings
    data: StudyData
    folds: tuple[Fold, ...]
    judgements: tuple[ArmJudgement, ...]
    results: tuple[DetectorResult, ...]
    reference: int
    in_training: Mapping[int, Rate]
    chosen: int | None
    two_by_two: tuple[TwoByTwo, ...]
    matched_rates: Mapping[str, MatchedRates]
    tests: tuple[Test, ...]
    final_tests: tuple[Test, ...]
    if_missing: PairedBounds | None
    cells: tuple[Cell, ...]
    checks: ArmChecks
    cautions: tuple[Caution, ...] = ()
    truth: AgainstReader | None = None
    between_runs: tuple[BetweenRuns, ...] = ()
    why_flagged: tuple[WhyFlagged, ...] = ()

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms, in the order of the results."""
        return tuple(one.arm for one in self.judgements)

    @property
    def followed(self) -> int:
        """The place of the arm that the report follows: the chosen one, else the reference."""
        return self.reference if self.chosen is None else self.chosen

    @property
    def compared_places(self) -> tuple[int, ...]:
        """The places of the reference and of the arm that the report follows, once where it is the same."""
        return tuple(dict.fromkeys((self.reference, self.followed)))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The texts of the cautions."""
        return tuple(one.text for one in self.cautions)

    def test_of(self, arm: str) -> Test | None:
        """Return the test of an arm against the reference, by its name."""
        return next((test for test in self.tests if test.b == arm and test.family == "reference"), None)

    def unbeaten(self, arm: str) -> tuple[str, ...]:
        """Return the baselines that an arm was tested against and does not beat."""
        return tuple(test.a for test in self.tests if test.b == arm and not test.won)


def compare(
    store: Store, settings: Settings, *, rescore: Rescore | None = None, tell: Tell = lambda line: None
) -> Study:
    """Compare detectors on runs of a store.

    Args:
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
    tell(f"reading {len(asked) + len(further)} runs")
    study_data = load_study_data(store, [*asked, *further], settings.corrected_by)
    reader = None if settings.truth is None else read_reader(store, settings.truth)
    return compare_data(
        study_data, settings, further=further, store=store, rescore=rescore, reader=reader, tell=tell
    )


def compare_data(
    study_data: StudyData,
    settings: Settings,
    *,
    further: Sequence[str] = (),
    store: Store | None = None,
    rescore: Rescore | None = None,
    reader: ReaderTurns | None = None,
    tell: Tell = lambda line: None,
) -> Study:
    """Compare detectors on what was loaded; see `compare`.

    Args:
        study_data: conversations and runs.
        settings: what to compare and how.
        further: runs that come in as baselines.
        store: where the texts are that `rescore` needs.
        rescore: as for `compare`.
        reader: what a reader flags, as `read_reader` reads it.
        tell: as for `compare`.
    """
    study_data = _in_order(study_data)
    data = {one.run.name: one for one in study_data.runs}
    arms = plan_arms(settings, {name: one.run.context for name, one in data.items()}, further)
    reference_arm = reference_of(arms)
    _check_labels(study_data)
    folds = _tested_folds(study_data, settings)
    strata = {one.sequence_id: one.strata for one in study_data.known}
    scores = ArmScores(settings)
    judgements: list[ArmJudgement] = []
    for arm in arms:
        tell(f"judging: {arm.name}")
        judgements.append(judge_arm(arm, data[arm.run], folds, strata, scores))
    tell("measuring")
    results = _measured(judgements, settings)
    reference = arms.index(reference_arm)
    tell("choosing inside the training conversations")
    followable = candidates(arms, reference_arm)
    in_train_parts = {place: _rank(judgements[place], scores) for place in followable}
    chosen = choose(in_train_parts)
    apart, not_apart = two_by_two(study_data, arms, scores, tell)
    between_runs, not_between = compare_runs(judgements, results, study_data, scores, tell)
    tell("testing")
    tests = run_tests(judgements, results, reference, settings)
    tell("checking")
    compared = None if chosen is None else at_equal_rate(judgements[reference], judgements[chosen])
    checks = run_checks(judgements, reference, chosen, study_data, folds, settings, store=store, rescore=rescore)
    study = Study(
        settings=settings,
        data=study_data,
        folds=folds,
        judgements=tuple(judgements),
        results=tuple(results),
        reference=reference,
        in_training=in_train_parts,
        chosen=chosen,
        two_by_two=apart,
        matched_rates=compare_at_matched_rates(judgements, reference, settings),
        tests=tests,
        final_tests=run_final_tests(judgements, reference),
        if_missing=None if compared is None else _if_missing(*compared),
        cells=make_cells([one.judged for one in judgements], compared),
        checks=checks,
        truth=None if reader is None else against_reader(judgements, reader, settings.replicates, settings.seed),
        between_runs=between_runs,
    )
    return replace(study, cautions=find_cautions(study, not_apart, not_between))


def _in_order(study_data: StudyData) -> StudyData:
    """The conversations in the order of their ids: nothing depends on the order of import then."""
    return replace(
        study_data,
        known=tuple(sorted(study_data.known, key=lambda one: one.sequence_id)),
        runs=tuple(
            replace(run, examples=tuple(sorted(run.examples, key=lambda one: one.sequence_id)))
            for run in study_data.runs
        ),
    )


def _rank(one: ArmJudgement, scores: ArmScores) -> Rate:
    """How many attacks an arm catches inside the train parts, over all folds."""
    parts = [evaluated_of(one.data, known.fold.train) for known in one.folds]
    rates = [scores.in_training(one.arm, part, scores.settings.seed) for part in parts]
    return Rate(sum(rate.count for rate in rates), sum(rate.of for rate in rates))


def _tested_folds(study_data: StudyData, settings: Settings) -> tuple[Fold, ...]:
    """The folds; benign conversations of data sets that an observer was trained on only train."""
    folds = make_folds(study_data.runs[0].examples, settings)
    left = study_data.untested(settings)
    if not left:
        return folds
    folds = without(folds, left)
    tested = frozenset[str]().union(*(fold.test for fold in folds))
    if not any(one.sequence_id in tested and not one.attack for one in study_data.known):
        raise UsageError(
            f"no benign conversation is left to test on: an observer was trained on "
            f"{', '.join(study_data.trained_benign)}. Evaluate benign conversations of another data set, or keep "
            "these with --keep-trained"
        )
    return folds


def _measured(judgements: Sequence[ArmJudgement], settings: Settings) -> list[DetectorResult]:
    """Measure every arm; those that evaluated the same conversations share their resamples."""
    drawn: dict[tuple[str, ...], Resamples] = {}
    results = []
    for one in judgements:
        known = evaluated(one.judged)
        ids = tuple(item.sequence_id for item in known)
        rng = np.random.default_rng(settings.seed)
        if known and ids not in drawn:
            groups, labels = [item.group for item in known], [item.attack for item in known]
            drawn[ids] = resamples(groups, labels, rng, settings.replicates)
        results.append(
            measure(
                one.judged,
                rng,
                name=one.arm.name,
                threshold=one.threshold,
                run=one.arm.run,
                context=one.arm.context,
                replicates=settings.replicates,
                drawn=drawn.get(ids),
            )
        )
    return results


def _if_missing(first: Sequence[Judged], second: Sequence[Judged]) -> PairedBounds | None:
    if all(one.evaluated for arm in (first, second) for one in arm if one.attack):
        return None
    return paired_bounds(first, second)


def _check_labels(study_data: StudyData) -> None:
    attacks = sum(one.attack for one in study_data.known)
    benign = len(study_data.known) - attacks
    if not attacks or not benign:
        raise UsageError(
            f"a study needs evaluated conversations of both labels, not {attacks} attacks and {benign} benign ones"
        )


SHOWN: Final = 5
"""Attacks, and benign conversations, that are explained: those with the highest scores."""


@dataclass(frozen=True, slots=True)
class WhyFlagged:
    """Why a tested conversation was flagged.

    Args:
        sequence_id: its id.
        attack: what it is.
        turn: the turn at which the arm fired.
        principle: against which that turn has its highest F.
        score: of the conversation, on the arm's own scale.
        sentences: what its F rests on, with words of the text, and what is like it.
    """

    sequence_id: str
    attack: bool
    turn: int
    principle: str
    score: float
    sentences: tuple[str, ...]


def why_flagged(store: Store, study: Study, tell: Callable[[str], None]) -> tuple[WhyFlagged, ...]:
    """Explain false alarms of the arm that the report follows, and attacks it caught, highest scores first.

    What has to be read again is read by the run's own observer, and kept beside the store; one that costs money is
    not asked. See `turnwise.runs.why.explain_flag`.
    """
    judgement = study.judgements[study.followed]
    flags = [(one.score, one) for one in judgement.judged if one.fired and one.score is not None]
    found = []
    for attack in (False, True):
        alike = [(score, one) for score, one in flags if one.attack is attack]
        for score, one in sorted(alike, key=lambda pair: (-pair[0], pair[1].sequence_id))[:SHOWN]:
            tell(f"explaining: {one.sequence_id}")
            why = explain_flag(store, one.sequence_id, judgement.arm.run, turn=one.turn)
            found.append(WhyFlagged(one.sequence_id, attack, why.turn, why.principle, score, why.sentences()))
    return tuple(found)
