"""What an arm says of the test conversations at a threshold that others set, and which arm a report follows."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from turnwise.detectors import Detector, build_detector, load_detector
from turnwise.detectors.learned import DIGITS, FEATURES, Learned
from turnwise.errors import TurnwiseError, UsageError
from turnwise.observers.protocol import ContextMode
from turnwise.rates import Rate
from turnwise.stats import Judged, judge_all, strictest_threshold, threshold_between, threshold_for
from turnwise.stats.examples import Example
from turnwise.study.compare.data import RunData
from turnwise.study.compare.plan import Arm, Fold, Settings
from turnwise.study.fitting import FitInput, cross_fitted, fit_detector, highest_scores

FLAG_QUANTILES = (0.5, 0.8, 0.9, 0.95, 0.99)
"""Shares of benign turns below the F from which ``count_flags`` flags one; the best on train is taken."""


class ArmScores:
    """Makes the detectors of a study's arms, and gives the highest score of each conversation by them."""

    # A detector that is the same whatever it trains on runs over a conversation once. What fits take is kept too.

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._scores: dict[str, dict[str, float]] = {}
        self._inputs: dict[tuple[str, str], FitInput] = {}

    def of(self, arm: Arm, detector: Detector, examples: Sequence[Example]) -> list[float]:
        """The scores of some conversations, whatever the threshold, by the detector that `detector` gives."""
        if isinstance(detector, Learned) and arm.fitted:
            return self._weighed(arm.run, detector, examples)
        if arm.trained:
            return highest_scores(detector, examples)
        kept = self._scores.setdefault(arm.name, {})
        lacking = [example for example in examples if example.sequence_id not in kept]
        ids = [example.sequence_id for example in lacking]
        kept.update(zip(ids, highest_scores(detector, lacking), strict=True))
        return [kept[example.sequence_id] for example in examples]

    def detector(self, arm: Arm, train: Sequence[Example], seed: int) -> Detector:
        """The detector of an arm before its threshold is set: fitted, with its flag chosen, or built."""
        if arm.fitted:
            return fit_detector(arm.detector, train, seed, lambda example: self._inputs_of(arm.run, example))
        if arm.chosen_flag:
            return _best_flag(train, self.settings)
        return load_detector(arm.detector, patterns=self.settings.patterns)

    def in_training(self, arm: Arm, train: Sequence[Example], seed: int) -> Rate:
        """How many attacks an arm catches inside a train part at the asked rate, cross-fitted by group."""
        caught = 0
        with suppress(TurnwiseError):  # what can't be fitted on four fifths of the conversations ranks last
            caught = cross_fitted(
                lambda rest: self.detector(arm, rest, seed),
                train,
                self.settings.target_fpr,
                seed,
                strict=False,
                score=lambda detector, part: self.of(arm, detector, part),
            ).recall.count
        return Rate(caught, sum(example.attack for example in train))

    def _inputs_of(self, run: str, example: Example) -> FitInput:
        key = run, example.sequence_id
        if key not in self._inputs:
            self._inputs[key] = FitInput.of(example)
        return self._inputs[key]

    def _weighed(self, run: str, detector: Learned, examples: Sequence[Example]) -> list[float]:
        """What `learned` says, from the features of every turn."""
        known = [self._inputs_of(run, example).every for example in examples]
        if not any(map(len, known)):
            return [-math.inf] * len(examples)
        weights = np.array([detector.weights.get(name, 0.0) for name in FEATURES])
        odds = np.round(detector.intercept + np.einsum("ij,j->i", np.concatenate(known), weights), DIGITS)
        begins = np.cumsum([0, *map(len, known)])
        return [float(odds[begin:end].max()) if end > begin else -math.inf for begin, end in pairwise(begins)]


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The detector of one arm in one fold.

    Args:
        fold: which conversations trained, calibrated and test it.
        detector: at its threshold.
        threshold: that threshold.
        benign: highest scores of the benign calibration conversations, rising; empty where none set it.
        attacks_caught: of the attacks of the calibrate part; nothing was fitted or set on them.
    """

    fold: Fold
    detector: Detector
    threshold: float
    benign: tuple[float, ...]
    attacks_caught: Rate

    @property
    def flagged(self) -> int:
        """Benign calibration conversations at or above the threshold."""
        return sum(score >= self.threshold for score in self.benign)


@dataclass(frozen=True, slots=True)
class CalibrationFlags:
    """What an arm flags of the conversations that set its thresholds, over all folds.

    Args:
        benign: benign ones that it flags.
        attacks: attacks beside them that it catches; nothing was fitted or set on these.
    """

    benign: Rate
    attacks: Rate


@dataclass(frozen=True, slots=True)
class ArmJudgement:
    """What an arm says of the test conversations.

    Args:
        data: what its run has.
        folds: its detector fold by fold.
        judged: all tested conversations, missing ones included.
    """

    arm: Arm
    data: RunData
    folds: tuple[Calibrated, ...]
    judged: tuple[Judged, ...]

    @property
    def calibration(self) -> CalibrationFlags:
        """What it flags in the calibrate parts."""
        caught = [fold.attacks_caught for fold in self.folds]
        return CalibrationFlags(
            Rate(sum(fold.flagged for fold in self.folds), sum(len(fold.benign) for fold in self.folds)),
            Rate(sum(rate.count for rate in caught), sum(rate.of for rate in caught)),
        )

    @property
    def threshold(self) -> float:
        """The threshold; with folds the median of theirs, the higher where two are in the middle."""
        thresholds = sorted(fold.threshold for fold in self.folds)
        return thresholds[len(thresholds) // 2]


def judge_arm(
    arm: Arm, data: RunData, folds: Sequence[Fold], strata: Mapping[str, Mapping[str, str]], scores: ArmScores
) -> ArmJudgement:
    """Fit, calibrate and run an arm."""
    calibrated = tuple(_calibrated(arm, data, fold, scores) for fold in folds)
    return ArmJudgement(arm, data, calibrated, _judged(arm, data, calibrated, strata))


def at_equal_rate(one: ArmJudgement, other: ArmJudgement) -> tuple[tuple[Judged, ...], tuple[Judged, ...]]:
    """The verdicts of two arms at thresholds that flag equally many benign calibration conversations."""
    # Equal scores leave gaps between the rates that a threshold can reach, so that a difference in recall could be
    # one in strictness. The looser arm is tightened until both flag equally many, down to none.
    if [fold.flagged for fold in one.folds] == [fold.flagged for fold in other.folds]:
        return one.judged, other.judged
    limits = [_equal_limits(a, b) for a, b in zip(one.folds, other.folds, strict=True)]
    return _rejudged(one, [low for low, _ in limits]), _rejudged(other, [high for _, high in limits])


def _equal_limits(one: Calibrated, other: Calibrated) -> tuple[float, float]:
    for count in range(min(one.flagged, other.flagged), 0, -1):
        limits = _limit_flagging(one, count), _limit_flagging(other, count)
        if None not in limits:
            return limits  # type: ignore[return-value]
    return _limit_above(one), _limit_above(other)


def _limit_flagging(found: Calibrated, count: int) -> float | None:
    """The limit that flags exactly that many; None where equal scores make it impossible."""
    if found.flagged == count:
        return found.threshold
    ordered = found.benign
    lowest_flagged, highest_below = ordered[-count], ordered[-count - 1]
    return threshold_between(highest_below, lowest_flagged) if lowest_flagged > highest_below else None


def _limit_above(found: Calibrated) -> float:
    return max(found.threshold, strictest_threshold(found.benign))


def _rejudged(judgement: ArmJudgement, limits: Sequence[float]) -> tuple[Judged, ...]:
    strata = {one.sequence_id: one.strata for one in judgement.judged}
    moved = [
        replace(known, detector=known.detector.with_threshold(limit), threshold=limit)
        for limit, known in zip(limits, judgement.folds, strict=True)
    ]
    return _judged(judgement.arm, judgement.data, moved, strata)


def _calibrated(arm: Arm, data: RunData, fold: Fold, scores: ArmScores) -> Calibrated:
    settings = scores.settings
    if settings.thresholds == "given":
        points = data.run.operating_points
        detector = load_detector(arm.detector, patterns=settings.patterns)
        if arm.detector in points:
            detector = detector.with_threshold(points[arm.detector])
        return Calibrated(fold, detector, detector.threshold, (), Rate(0, 0))
    calibrate = evaluated_of(data, fold.calibrate)
    detector = scores.detector(arm, evaluated_of(data, fold.train), settings.seed)
    found = list(zip(calibrate, scores.of(arm, detector, calibrate), strict=True))
    benign = sorted(score for example, score in found if not example.attack)
    attacks = [score for example, score in found if example.attack]
    try:
        limit = threshold_for(benign, settings.target_fpr, settings.kept_with)
    except UsageError as error:
        raise UsageError(
            f"{arm.name}: {error}. Evaluate more benign conversations, use --folds, or raise --target-fpr"
        ) from error
    caught = Rate(sum(score >= limit for score in attacks), len(attacks))
    return Calibrated(fold, detector.with_threshold(limit), limit, tuple(benign), caught)


def _best_flag(train: Sequence[Example], settings: Settings) -> Detector:
    """``count_flags`` with the F that catches most train attacks: no weak baseline."""
    turns = sorted(
        max(score.F for score in turn.scores.values())
        for example in train
        if not example.attack
        for turn in example.turns
        if turn.scores
    )
    if not turns:
        return build_detector("count_flags")
    flags = dict.fromkeys(min(1.0, turns[math.floor(q * (len(turns) - 1))]) for q in FLAG_QUANTILES)
    detectors = [build_detector({"detector": "count_flags", "flag": flag}) for flag in flags]
    return max(detectors, key=lambda detector: _caught(detector, train, settings.target_fpr))


def _caught(detector: Detector, train: Sequence[Example], rate: float) -> int:
    labels = [example.attack for example in train]
    scores = list(zip(labels, highest_scores(detector, train), strict=True))
    try:
        limit = threshold_for([score for attack, score in scores if not attack], rate)
    except UsageError:  # too few to tell: the strictest threshold ranks the flags then
        limit = strictest_threshold([score for attack, score in scores if not attack])
    return sum(score >= limit for attack, score in scores if attack)


def _judged(
    arm: Arm, data: RunData, folds: Sequence[Calibrated], strata: Mapping[str, Mapping[str, str]]
) -> tuple[Judged, ...]:
    """Verdicts with cost and time; scores of detectors fitted in each fold are relative to the threshold."""
    relative = len(folds) > 1 and arm.fitted
    found: dict[str, Judged] = {}
    for known in folds:
        examples = [example for example in data.examples if example.sequence_id in known.fold.test]
        for one in judge_all(known.detector, examples, strata):
            found[one.sequence_id] = replace(
                one,
                cost_usd=data.cost_usd.get(one.sequence_id),
                latency_ms=data.latency_ms.get(one.sequence_id),
                score=one.score - known.threshold if relative and one.score is not None else one.score,
            )
    return tuple(found[one.sequence_id] for one in data.examples if one.sequence_id in found)


def evaluated_of(data: RunData, ids: Container[str]) -> list[Example]:
    """The conversations with these ids that a run has a score of, in their order."""
    return [
        example
        for example in data.examples
        if example.sequence_id in ids and any(turn.scores or turn.response_scores for turn in example.turns)
    ]


def candidates(arms: Sequence[Arm], reference: Arm) -> list[int]:
    """The places of the arms that a report may follow."""
    # Detectors that were asked for, on runs that saw the history if some did: what is asked is whether looking
    # over time helps. Where nothing but baselines was asked for, the question is what context alone gives.
    asked = [place for place, arm in enumerate(arms) if not arm.baseline]
    over_time = [place for place in asked if arms[place].context == ContextMode.HISTORY]
    if asked:
        return over_time or asked
    return [
        place
        for place, arm in enumerate(arms)
        if arm.detector == reference.detector and arm.name != reference.name
    ]


def choose(ranks: Mapping[int, Rate]) -> int | None:
    """The place of the arm that catches most; of equal ones the first, and None where there is none.

    >>> choose({4: Rate(2, 9), 7: Rate(5, 9), 8: Rate(5, 9)}), choose({})
    (7, None)
    """
    return max(ranks, key=lambda place: (ranks[place].count, -place), default=None)
