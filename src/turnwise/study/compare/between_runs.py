"""The same detector on two runs of the same context: which observer finds more, on one split and on many."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from turnwise.errors import TurnwiseError, UsageError
from turnwise.stats import (
    TRAIN,
    DetectorResult,
    MatchedRates,
    PairTest,
    SplitGains,
    draw_parts,
    holm,
    holm_corrected,
    split_gains,
)
from turnwise.stats.examples import Example
from turnwise.study.compare.comparisons import Test, at_matched_rates, run_tests_against
from turnwise.study.compare.data import StudyData, attacks_by_source
from turnwise.study.compare.judging import ArmJudgement, ArmScores, evaluated_of
from turnwise.study.compare.plan import REFERENCE, Arm, Settings, short_name

TOLD_EVERY = 10
"""Splits after which it is told how far the study is."""


def gain_over_splits(
    study_data: StudyData,
    arm: Arm,
    reference: Arm,
    scores: ArmScores,
    tell: Callable[[str], None],
) -> SplitGains:
    """The gain of an arm over the reference on many splits; UsageError where there is too little in one."""
    settings, compared = scores.settings, (reference, arm)
    data = {one.run.name: one for one in study_data.runs}
    everywhere = {one.sequence_id for one in study_data.known} - study_data.untested(settings)
    for run in {one.run for one in compared}:
        everywhere &= {example.sequence_id for example in evaluated_of(data[run], everywhere)}
    known = [one for one in study_data.known if one.sequence_id in everywhere]
    parts = draw_parts(
        [one.group for one in study_data.known],
        [one.attack for one in study_data.known],
        settings.splits,
        settings.shares,
        settings.seed,
    )
    groups = sorted({one.group for one in study_data.known})
    trained = any(one.trained for one in compared)
    highest = np.zeros((settings.splits if trained else 1, len(compared), len(known)))
    examples = {run: evaluated_of(data[run], everywhere) for run in {one.run for one in compared}}
    for place, one in enumerate(compared):
        if not one.trained:
            detector = scores.detector(one, (), settings.seed)
            highest[:, place] = scores.of(one, detector, examples[one.run])
    for split in range(settings.splits if trained else 0):
        if split % TOLD_EVERY == 0:
            tell(f"split {split + 1} of {settings.splits}")
        part = dict(zip(groups, parts[split].tolist(), strict=True))
        train = {one.sequence_id for one in study_data.known if part[one.group] == TRAIN}
        judged = [number for number, one in enumerate(known) if one.sequence_id not in train]
        for place, one in enumerate(compared):
            if one.trained:
                others = [examples[one.run][number] for number in judged]
                fitting = evaluated_of(data[one.run], train)
                highest[split, place, judged] = _scored(one, fitting, others, settings.seed + split, scores)
    kept = {one.group for one in known}
    found = split_gains(
        highest,
        [one.group for one in known],
        [one.attack for one in known],
        parts[:, [number for number, group in enumerate(groups) if group in kept]],
        [1] * settings.splits,
        arms=[one.name for one in compared],
        rate=settings.target_fpr,
        confidence=settings.kept_with,
        sources=attacks_by_source(known, settings.small_cell),
        replicates=settings.replicates,
        seed=settings.seed,
    )
    return replace(found, left_out=len(study_data.known) - len(known))


def _scored(
    arm: Arm, train: Sequence[Example], others: Sequence[Example], seed: int, scores: ArmScores
) -> list[float]:
    try:
        return scores.of(arm, scores.detector(arm, train, seed), others)
    except TurnwiseError as error:
        raise UsageError(f"{arm.name} can't be fitted in the split of seed {seed}: {error}") from error


@dataclass(frozen=True, slots=True)
class BetweenRuns:
    """One detector on two runs, on the conversations that both evaluated. Differences are second less first.

    Args:
        detector: what tables call the detector.
        a: name of the first run.
        b: name of the second run.
        first: place of its arm on the first run.
        second: place of its arm on the second run.
        test: exact McNemar test of the attacks, corrected by Holm over all detectors and pairs of runs, with
            differences.
        auc_p_holm: DeLong's p-value of the areas, corrected likewise; None with fewer than two of a label.
        at_rate: where both flag exactly the asked share of the benign test conversations; None without both
            labels.
        gain: the difference of recall over many splits; None where thresholds are given or it can't be judged.
    """

    detector: str
    a: str
    b: str
    first: int
    second: int
    test: Test
    auc_p_holm: float | None
    at_rate: MatchedRates | None
    gain: SplitGains | None

    @property
    def differences(self) -> PairTest:
        """The differences with their intervals, at thresholds that flag equally many calibration conversations."""
        assert self.test.differences is not None  # `compare_runs` makes each with it
        return self.test.differences


def pairs_of_runs(contexts: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Each further run with the first one, where all saw the same context.

    >>> pairs_of_runs({"local": "history", "gpt": "history", "small": "history"})
    (('local', 'gpt'), ('local', 'small'))
    >>> pairs_of_runs({"turn": "turn", "history": "history", "gpt": "history"})
    ()
    """
    # Runs that differ in observer and context differ for either reason, and pairs within each context would take
    # longer than the question of context itself.
    first, *others = contexts
    return tuple((first, run) for run in others) if len(set(contexts.values())) == 1 else ()


def compare_runs(
    judgements: Sequence[ArmJudgement],
    results: Sequence[DetectorResult],
    study_data: StudyData,
    scores: ArmScores,
    tell: Callable[[str], None],
) -> tuple[tuple[BetweenRuns, ...], str]:
    """Compare every detector that was asked for (else `any_turn`) between runs of one context."""
    settings = scores.settings
    found: list[BetweenRuns] = []
    why_not = ""
    for first, second in _pairs([one.arm for one in judgements], settings):
        arms = judgements[first].arm, judgements[second].arm
        [test] = run_tests_against(judgements, results, first, [second], settings, "run")
        gain = None
        if settings.thresholds == "calibrated":
            tell(f"judging {settings.splits} splits: {arms[1].name} against {arms[0].name}")
            try:
                gain = gain_over_splits(study_data, arms[1], arms[0], scores, tell)
            except UsageError as error:
                why_not = why_not or str(error)
        found.append(
            BetweenRuns(
                short_name(arms[0].detector),
                arms[0].run,
                arms[1].run,
                first,
                second,
                test,
                None,
                at_matched_rates(judgements[first], judgements[second], settings, rates=(settings.target_fpr,)),
                gain,
            )
        )
    return _corrected(found), why_not


def _pairs(arms: Sequence[Arm], settings: Settings) -> list[tuple[int, int]]:
    """The places of the arms to compare, two by two."""
    inside = [place for place, arm in enumerate(arms) if arm.run in settings.runs]
    places = [place for place in inside if arms[place].asked]
    places = places or [place for place in inside if arms[place].detector == REFERENCE]
    found = []
    for detector in dict.fromkeys(arms[place].detector for place in places):
        by_run = {arms[place].run: place for place in places if arms[place].detector == detector}
        contexts = {run: arms[place].context for run, place in by_run.items()}
        found += [(by_run[first], by_run[second]) for first, second in pairs_of_runs(contexts)]
    return found


def _corrected(found: Sequence[BetweenRuns]) -> tuple[BetweenRuns, ...]:
    """Apply Holm's correction, to the McNemar tests and to DeLong's apart."""
    of_areas = iter(holm([p for one in found if (p := one.differences.auc_p_delong) is not None]))
    return tuple(
        replace(one, test=test, auc_p_holm=None if one.differences.auc_p_delong is None else next(of_areas))
        for one, test in zip(found, holm_corrected([one.test for one in found]), strict=True)
    )
