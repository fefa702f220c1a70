"""Diagnostics of the arm that a report follows: order, agreement of judges, other sources, wrong labels."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from turnwise.conversation import Conversation
from turnwise.detectors import Detector, run_detector
from turnwise.errors import TurnwiseError, UsageError
from turnwise.rates import Rate
from turnwise.scoring import TurnScores
from turnwise.stats import (
    Icc,
    Interval,
    LabelNoise,
    LengthMatched,
    OrderShuffle,
    Transfer,
    icc_within,
    krippendorff_alpha,
    label_noise,
    leave_one_source_out,
    length_matched,
    order_shuffle,
    threshold_transfer,
)
from turnwise.stats.examples import Example, split_by_group
from turnwise.study.compare.data import RunData, StudyData
from turnwise.study.compare.judging import ArmJudgement, ArmScores, Calibrated, evaluated_of, judge_arm
from turnwise.study.compare.plan import Arm, Fold, Settings

if TYPE_CHECKING:
    from turnwise.store import Run, Store


SHUFFLES = 5
"""Permutations of each conversation."""

NOISE_DRAWS = 100
"""Draws of wrong labels for each share."""


@dataclass(frozen=True, slots=True)
class ArmChecks:
    """What the diagnostics found, by arm or of the chosen arm.

    `turns_reordered` has turns permuted and scored again, None where that could not be done. `threshold_transfer`
    is a threshold set on one source and used on another, `leave_one_source_out` a source that neither fitted nor
    calibrated the arm. `panel_agreement` is that of different observers, `repeats_agreement` that of one with
    itself.
    """

    order_shuffle: Mapping[str, OrderShuffle]
    turns_reordered: Reordered | None
    length_matched: Mapping[str, LengthMatched]
    threshold_transfer: tuple[Transfer, ...]
    leave_one_source_out: tuple[Transfer, ...]
    label_noise: tuple[LabelNoise, ...]
    panel_agreement: tuple[PanelAgreement, ...]
    repeats_agreement: tuple[Repeated, ...]

    def changed(self, arm: str) -> Interval | None:
        """The share of an arm's verdicts on attacks that change when scores are permuted."""
        found = self.order_shuffle.get(arm)
        return found.attacks if found else None


def run_checks(
    judgements: Sequence[ArmJudgement],
    reference: int,
    chosen: int | None,
    study_data: StudyData,
    folds: Sequence[Fold],
    settings: Settings,
    *,
    store: Store | None,
    rescore: Rescore | None,
) -> ArmChecks:
    """Run all diagnostics, on the reference where no arm was chosen; scores are permuted in the first fold."""
    data = {one.run.name: one for one in study_data.runs}
    followed = judgements[reference if chosen is None else chosen]
    rng = np.random.default_rng(settings.seed)
    shown = [one for one in judgements if not one.arm.baseline or one is followed or one is judgements[reference]]
    own = data[followed.arm.run]
    reordered = None
    if store is not None and rescore is not None:
        tested = _tested(own, folds[0])
        reordered = reorder(
            followed.folds[0], own.run, tested, store, rescore, np.random.default_rng(settings.seed)
        )
    return ArmChecks(
        order_shuffle={
            one.arm.name: order_shuffle(
                one.folds[0].detector,
                _tested(data[one.arm.run], folds[0]),
                rng,
                repeats=SHUFFLES,
                replicates=settings.replicates,
            )
            for one in shown
        },
        turns_reordered=reordered,
        length_matched={
            one.arm.name: length_matched(one.judged, np.random.default_rng(settings.seed))
            for one in shown
            if one is followed or one is judgements[reference]
        },
        threshold_transfer=_with_numbers(threshold_transfer(followed.judged, settings.target_fpr)),
        leave_one_source_out=_left_out(followed.arm, own, study_data, settings),
        label_noise=label_noise(followed.judged, rng, repeats=NOISE_DRAWS),
        panel_agreement=panel_agreement(study_data.runs, settings.seed),
        repeats_agreement=() if store is None else repeats_agreement(study_data.runs, store),
    )


def _tested(data: RunData, fold: Fold) -> list[Example]:
    return [example for example in data.examples if example.sequence_id in fold.test]


def _with_numbers(found: Sequence[Transfer]) -> tuple[Transfer, ...]:
    """The rows that say something: why there is no threshold, or what one does on some conversations."""
    return tuple(one for one in found if one.threshold is None or any(r and r.of for r in (one.recall, one.fpr)))


def _left_out(arm: Arm, data: RunData, study_data: StudyData, settings: Settings) -> tuple[Transfer, ...]:
    if settings.thresholds == "given":
        return ()
    sources = {one.sequence_id: one.strata["source"] for one in study_data.known}
    if len(set(sources.values())) < 2:
        return ()

    scores = ArmScores(settings)

    def make(rest: Sequence[Example]) -> Detector:
        parts = split_by_group(rest, {"train": 0.5, "calibrate": 0.5}, settings.seed)
        ids = [frozenset(example.sequence_id for example in part) for part in parts.values()]
        fold = Fold(ids[0], ids[1], frozenset())
        try:
            return judge_arm(arm, data, [fold], {}, scores).folds[0].detector
        except UsageError:
            raise
        except TurnwiseError as error:
            raise UsageError(str(error)) from error

    return leave_one_source_out(evaluated_of(data, sources), sources, make)


COMPONENTS = ("T", "I", "F")


@dataclass(frozen=True, slots=True)
class PanelAgreement:
    """Krippendorff's alpha of two observers that saw the same; `units` are turns and principles both scored."""

    first: str
    second: str
    component: str
    alpha: Interval
    units: int


@dataclass(frozen=True, slots=True)
class Repeated:
    """How well an observer repeats itself, over turns and principles with equally many calls."""

    run: str
    component: str
    icc: Icc


def panel_agreement(runs: Sequence[RunData], seed: int) -> tuple[PanelAgreement, ...]:
    """The agreement of every two runs of different observers in the same context."""
    found = []
    for one, other in itertools.combinations(runs, 2):
        same = (one.run.observer, one.run.observer_version) == (other.run.observer, other.run.observer_version)
        if same or one.run.context != other.run.context:
            continue
        for component in COMPONENTS:
            rows = [
                (first.group, pair)
                for first, second in zip(one.examples, other.examples, strict=True)
                for pair in _pairs(first, second, component)
            ]
            try:
                alpha = krippendorff_alpha(
                    [pair for _, pair in rows], np.random.default_rng(seed), [group for group, _ in rows]
                )
            except UsageError:  # too little in common to say anything
                continue
            found.append(PanelAgreement(one.run.name, other.run.name, component, alpha, len(rows)))
    return tuple(found)


def _pairs(first: Example, second: Example, component: str) -> list[tuple[float, float]]:
    return [
        (getattr(score, component), getattr(turn.scores[principle], component))
        for own, turn in zip(first.turns, second.turns, strict=True)
        for principle, score in own.scores.items()
        if principle in turn.scores
    ]


def repeats_agreement(runs: Sequence[RunData], store: Store) -> tuple[Repeated, ...]:
    """How well the observers that were asked several times repeat themselves."""
    found = []
    for one in runs:
        if one.run.parameters.get("repeats", 1) in (None, 1):
            continue
        ids = [example.sequence_id for example in one.examples]
        scores = [
            [call.score for call in evaluation.calls if call.score is not None]
            for _, trajectory in store.trajectories(one.run.name, ids=ids, replies=True)
            for evaluation in trajectory.evaluations
        ]
        most = max((len(row) for row in scores), default=0)
        whole = [row for row in scores if len(row) == most]
        for component in COMPONENTS:
            try:
                icc = icc_within([[getattr(score, component) for score in row] for row in whole])
            except UsageError:  # fewer than two units or repeats
                continue
            found.append(Repeated(one.run.name, component, icc))
    return tuple(found)


Rescore = Callable[["Run", Conversation], tuple[TurnScores, ...] | None]
"""Scores a conversation by the observer of a run; None where that observer can't be had."""

SAMPLE = 100
"""Conversations of each label that are permuted and scored again."""


@dataclass(frozen=True, slots=True)
class Reordered:
    """Verdicts that change where turns are permuted and scored again, and attacks caught in either order."""

    attacks: Rate
    benign: Rate
    caught_before: Rate
    caught_after: Rate


def reorder(
    found: Calibrated,
    run: Run,
    examples: Sequence[Example],
    store: Store,
    rescore: Rescore,
    rng: np.random.Generator,
) -> Reordered | None:
    """Permute the turns of a sample of conversations, score them again, and count verdicts that change."""
    # None where the observer can't be had or no conversation has two turns.
    chosen: list[Example] = []
    for attack in (True, False):
        able = [one for one in examples if one.attack is attack and len(one.turns) > 1]
        places = sorted(int(place) for place in rng.permutation(len(able))[:SAMPLE])
        chosen += [able[place] for place in places]
    if not chosen:
        return None
    texts = {item.sequence_id: item for item in store.sequences(ids=[one.sequence_id for one in chosen])}
    rows: list[tuple[bool, bool, bool]] = []
    for one in chosen:
        moved = _permuted(texts[one.sequence_id].conversation, rng)
        scores = rescore(run, moved)
        if scores is None:
            return None
        before = run_detector(found.detector, one.turns).fired
        rows.append((one.attack, before, run_detector(found.detector, scores).fired))

    def rate(label: bool, which: Callable[[bool, bool], bool]) -> Rate:
        values = [which(before, after) for attack, before, after in rows if attack is label]
        return Rate(sum(values), len(values))

    return Reordered(
        rate(True, lambda before, after: before is not after),
        rate(False, lambda before, after: before is not after),
        rate(True, lambda before, _: before),
        rate(True, lambda _, after: after),
    )


def _permuted(conversation: Conversation, rng: np.random.Generator) -> Conversation:
    turns = list(conversation)
    order = rng.permutation(len(turns))
    while list(order) == sorted(order):
        order = rng.permutation(len(turns))
    moved = [
        {"turn": number, "prompt": turns[int(place)].prompt, "response": turns[int(place)].response}
        for number, place in enumerate(order, start=1)
    ]
    return Conversation.from_dict({"turns": moved, "metadata": conversation.to_dict()["metadata"]})
