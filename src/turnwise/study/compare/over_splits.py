"""The procedure of a study on many splits: what is fitted, and which arm is followed, anew in each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from turnwise.errors import TurnwiseError, UsageError
from turnwise.study.compare.arms import Arm
from turnwise.study.compare.data import LabelledConversation, StudyData
from turnwise.study.compare.judging import HighestScores, choose, evaluated_of, in_training, make_detector
from turnwise.study.compare.settings import Settings
from turnwise.study.examples import Example
from turnwise.study.stats.split_gains import SplitGains, draw_parts, split_gains
from turnwise.study.stats.split_scores import TRAIN

TOLD_EVERY = 10
"""Splits after which it is told how far the study is."""


def gain_over_splits(
    study_data: StudyData,
    arms: Sequence[Arm],
    reference: Arm,
    settings: Settings,
    scores: HighestScores,
    tell: Callable[[str], None],
) -> SplitGains:
    """The gain over many splits of the followed arm, one of `arms`; the arms are the reference, then these.

    Raises:
        UsageError: there is too little in a split; says in which.
    """
    import numpy as np

    compared = (reference, *arms)
    data = {one.run.name: one for one in study_data.runs}
    everywhere = {one.sequence_id for one in study_data.known} - study_data.untested(settings)
    for run in {arm.run for arm in compared}:
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
    trained = any(arm.trained for arm in compared)
    highest = np.zeros((settings.splits if trained else 1, len(compared), len(known)))
    examples = {run: evaluated_of(data[run], everywhere) for run in {arm.run for arm in compared}}
    plain = [place for place, arm in enumerate(compared) if not arm.trained]
    for place in plain:
        arm = compared[place]
        highest[:, place] = scores.of(
            arm, make_detector(arm, (), settings, settings.seed, scores), examples[arm.run]
        )
    followed = []
    for split in range(settings.splits):
        if split % TOLD_EVERY == 0:
            tell(f"split {split + 1} of {settings.splits}")
        seed = settings.seed + split
        part = dict(zip(groups, parts[split].tolist(), strict=True))
        train = {one.sequence_id for one in study_data.known if part[one.group] == TRAIN}
        fitting = {run: evaluated_of(data[run], train) for run in examples}
        if len(arms) == 1:  # nothing to choose from
            followed.append(1)
        else:
            ranks = {
                place: in_training(arm, fitting[arm.run], settings, seed, scores)
                for place, arm in enumerate(compared)
                if place
            }
            followed.append(choose(ranks) or 0)
        judged = [number for number, one in enumerate(known) if one.sequence_id not in train]
        for place, arm in enumerate(compared):
            if arm.trained:
                others = [examples[arm.run][number] for number in judged]
                highest[split, place, judged] = _scored(arm, fitting[arm.run], others, settings, seed, scores)
    kept = {one.group for one in known}
    found = split_gains(
        highest,
        [one.group for one in known],
        [one.attack for one in known],
        parts[:, [number for number, group in enumerate(groups) if group in kept]],
        followed,
        arms=[arm.name for arm in compared],
        rate=settings.target_fpr,
        confidence=settings.kept_with,
        sources=_sources(known, settings.small_cell),
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


def _sources(known: Sequence[LabelledConversation], least: int) -> dict[str, list[bool]]:
    """For every source with enough attacks, where there are several, which conversations are of it."""
    counts = Counter(one.strata["source"] for one in known if one.attack)
    if len(counts) < 2:
        return {}
    return {
        source: [one.strata["source"] == source for one in known]
        for source in sorted(counts)
        if counts[source] >= least
    }
