"""Which detector a report follows: chosen inside the training conversations, without the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from turnwise.errors import TurnwiseError
from turnwise.observers.protocol import ContextMode
from turnwise.rates import Rate
from turnwise.study.compare.arms import Arm
from turnwise.study.compare.folds import Fold
from turnwise.study.compare.judging import make_detector
from turnwise.study.compare.load import RunData
from turnwise.study.compare.settings import Settings
from turnwise.study.cross_fit import cross_fitted


def candidates(arms: Sequence[Arm], reference: Arm) -> list[int]:
    """Return the places of the arms that a report may follow.

    Detectors that were asked for; where some run saw the history, on such a run alone: what is asked is whether
    looking over time helps. Where nothing but baselines was asked for, the question is what context alone gives.

    Args:
        arms: all arms.
        reference: the one to beat.
    """
    asked = [place for place, arm in enumerate(arms) if not arm.baseline]
    over_time = [place for place in asked if arms[place].context == ContextMode.HISTORY]
    if asked:
        return over_time or asked
    return [
        place
        for place, arm in enumerate(arms)
        if arm.detector == reference.detector and arm.name != reference.name
    ]


def in_training(arm: Arm, data: RunData, folds: Sequence[Fold], settings: Settings) -> Rate:
    """Return how many attacks an arm catches inside the train parts at the asked rate, cross-fitted by group.

    Args:
        arm: the arm.
        data: its run.
        folds: who trains where.
        settings: of the study.

    Returns:
        Of all attacks to train on; none of none where nothing is trained.
    """
    caught = of = 0
    for fold in folds:
        train = [
            example
            for example in data.examples
            if example.sequence_id in fold.train
            and any(turn.scores or turn.response_scores for turn in example.turns)
        ]
        of += sum(example.attack for example in train)
        try:
            found = cross_fitted(
                lambda rest: make_detector(arm, rest, settings),
                train,
                settings.target_fpr,
                settings.seed,
                strict=False,
            )
        except TurnwiseError:  # what can't be fitted on four fifths of the training conversations ranks last
            continue
        caught += found.recall.count
    return Rate(caught, of)


def choose(ranks: Mapping[int, Rate]) -> int | None:
    """Return the place of the arm that catches most; of equal ones the first, and None where there is none.

    Args:
        ranks: what `in_training` says, by place.

    >>> choose({4: Rate(2, 9), 7: Rate(5, 9), 8: Rate(5, 9)}), choose({})
    (7, None)
    """
    return max(ranks, key=lambda place: (ranks[place].count, -place), default=None)
