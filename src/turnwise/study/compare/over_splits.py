"""What one arm gains over another on many splits: thresholds, and what is fitted, anew in each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from turnwise.errors import TurnwiseError, UsageError
from turnwise.study.compare.arms import Arm
from turnwise.study.compare.data import LabelledConversation, StudyData
from turnwise.study.compare.judging import HighestScores, evaluated_of, make_detector
from turnwise.study.compare.settings import Settings
from turnwise.study.examples import Example
from turnwise.study.stats.split_gains import SplitGains, draw_parts, split_gains
from turnwise.study.stats.split_scores import TRAIN

TOLD_EVERY = 10
"""Splits after which it is told how far the study is."""


def gain_over_splits(
    study_data: StudyData,
    arm: Arm,
    reference: Arm,
    settings: Settings,
    scores: HighestScores,
    tell: Callable[[str], None],
) -> SplitGains:
    """The gain over many splits of an arm; the arms are the reference, then this.

    Raises:
        UsageError: there is too little in a split; says in which.
    """
    import numpy as np

    compared = (reference, arm)
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
            detector = make_detector(one, (), settings, settings.seed, scores)
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
                highest[split, place, judged] = _scored(
                    one, fitting, others, settings, settings.seed + split, scores
                )
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
    arm: Arm,
    train: Sequence[Example],
    others: Sequence[Example],
    settings: Settings,
    seed: int,
    scores: HighestScores,
) -> list[float]:
    try:
        return scores.of(arm, make_detector(arm, train, settings, seed, scores), others)
    except TurnwiseError as error:
        raise UsageError(f"{arm.name} can't be fitted in the split of seed {seed}: {error}") from error


def attacks_by_source(known: Sequence[LabelledConversation], least: int) -> dict[str, list[bool]]:
    """For every source with enough attacks, where there are several, which conversations are of it."""
    counts = Counter(one.strata["source"] for one in known if one.attack)
    if len(counts) < 2:
        return {}
    return {
        source: [one.strata["source"] == source for one in known]
        for source in sorted(counts)
        if counts[source] >= least
    }
