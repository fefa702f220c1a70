"""Diagnostics of the arm that a report follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnwise.detectors import Detector
from turnwise.errors import TurnwiseError, UsageError
from turnwise.study.bootstrap import Interval
from turnwise.study.compare.agreement import PanelAgreement, Repeated, panel_agreement, repeats_agreement
from turnwise.study.compare.arms import Arm
from turnwise.study.compare.folds import Fold
from turnwise.study.compare.judging import Judgement, judge_arm
from turnwise.study.compare.load import Material, RunData
from turnwise.study.compare.reorder import Reordered, Rescore, reorder
from turnwise.study.compare.settings import Settings
from turnwise.study.diagnostics import (
    LabelNoise,
    LengthMatched,
    OrderShuffle,
    Transfer,
    label_noise,
    leave_one_source_out,
    length_matched,
    order_shuffle,
    threshold_transfer,
)
from turnwise.study.example import Example
from turnwise.study.splits import split_by_group

if TYPE_CHECKING:
    from turnwise.store import Store

SHUFFLES = 5
"""Permutations of each conversation."""

NOISE_DRAWS = 100
"""Draws of wrong labels for each share."""


@dataclass(frozen=True, slots=True)
class Checks:
    """What the diagnostics found.

    Args:
        shuffles: by name of the arm, the share of its verdicts that change when scores are permuted.
        reordered: the chosen arm where turns are permuted and scored again; None where that could not be done.
        lengths: by name, the reference and the chosen arm on attacks and benign conversations of equal length.
        transfer: what a threshold set on one source does on another; of the chosen arm.
        left_out: what the chosen arm does on a source that neither fitted nor calibrated it.
        noise: the chosen arm if some labels were wrong.
        panel: agreement between runs of different observers.
        repeats: agreement of an observer with itself.
    """

    shuffles: Mapping[str, OrderShuffle]
    reordered: Reordered | None
    lengths: Mapping[str, LengthMatched]
    transfer: tuple[Transfer, ...]
    left_out: tuple[Transfer, ...]
    noise: tuple[LabelNoise, ...]
    panel: tuple[PanelAgreement, ...]
    repeats: tuple[Repeated, ...]

    def changed(self, arm: str) -> Interval | None:
        """Return the share of an arm's verdicts on attacks that change when scores are permuted."""
        found = self.shuffles.get(arm)
        return found.attacks if found else None


def run_checks(
    judgements: Sequence[Judgement],
    reference: int,
    chosen: int | None,
    material: Material,
    folds: Sequence[Fold],
    settings: Settings,
    *,
    store: Store | None,
    rescore: Rescore | None,
) -> Checks:
    """Run all diagnostics.

    Args:
        judgements: what each arm said.
        reference: place of the arm to beat.
        chosen: place of the arm that the report follows; the reference where there is none.
        material: conversations and runs.
        folds: who was tested where; scores are permuted in the first fold.
        settings: of the study.
        store: where the texts are, and the replies that repeats rest on.
        rescore: scores a conversation anew.
    """
    import numpy as np

    data = {one.run.name: one for one in material.runs}
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
    return Checks(
        shuffles={
            one.arm.name: order_shuffle(
                one.folds[0].detector,
                _tested(data[one.arm.run], folds[0]),
                rng,
                repeats=SHUFFLES,
                replicates=settings.replicates,
            )
            for one in shown
        },
        reordered=reordered,
        lengths={
            one.arm.name: length_matched(one.judged, np.random.default_rng(settings.seed))
            for one in shown
            if one is followed or one is judgements[reference]
        },
        transfer=_with_numbers(threshold_transfer(followed.judged, settings.target_fpr)),
        left_out=_left_out(followed.arm, own, material, settings),
        noise=label_noise(followed.judged, rng, repeats=NOISE_DRAWS),
        panel=panel_agreement(material.runs, settings.seed),
        repeats=() if store is None else repeats_agreement(material.runs, store),
    )


def _tested(data: RunData, fold: Fold) -> list[Example]:
    return [example for example in data.examples if example.sequence_id in fold.test]


def _with_numbers(found: Sequence[Transfer]) -> tuple[Transfer, ...]:
    """Return the rows that say something: a threshold, and conversations to use it on."""
    return tuple(
        one
        for one in found
        if one.threshold is None or any(r and r.of for r in (one.recall, one.false_positive_rate))
    )


def _left_out(arm: Arm, data: RunData, material: Material, settings: Settings) -> tuple[Transfer, ...]:
    if settings.thresholds == "given":
        return ()
    sources = {one.sequence_id: one.strata["source"] for one in material.known}
    if len(set(sources.values())) < 2:
        return ()

    def make(rest: Sequence[Example]) -> Detector:
        parts = split_by_group(rest, {"train": 0.5, "calibrate": 0.5}, settings.seed)
        ids = [frozenset(example.sequence_id for example in part) for part in parts.values()]
        fold = Fold(ids[0], ids[1], frozenset())
        try:
            return judge_arm(arm, data, [fold], settings, {}).folds[0].detector
        except UsageError:
            raise
        except TurnwiseError as error:
            raise UsageError(str(error)) from error

    evaluated = [one for one in data.examples if any(turn.scores or turn.response_scores for turn in one.turns)]
    return leave_one_source_out(evaluated, sources, make)
