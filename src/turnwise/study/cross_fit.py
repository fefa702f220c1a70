"""Recall inside the training conversations, each judged by what the others fitted and calibrated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turnwise.detectors import Detector, run_detector
from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.study.calibrate import strictest_threshold, threshold_for
from turnwise.study.example import Example
from turnwise.study.splits import split_by_group

FOLDS = 5
"""Parts that training conversations are divided into, by group."""

Make = Callable[[Sequence[Example]], Detector]
"""Makes a detector from conversations, such as by fitting it; or the same one whatever it is given."""


@dataclass(frozen=True, slots=True)
class CrossFitted:
    """What a detector does on conversations that neither fitted it nor set its threshold.

    Args:
        recall: attacks that were flagged.
        false_positives: benign conversations that were flagged.
        benign: highest score of each benign conversation, by the detector of its fold.
    """

    recall: Rate
    false_positives: Rate
    benign: tuple[float, ...]


def cross_fitted(
    make: Make, examples: Sequence[Example], target_fpr: float, seed: int = 0, *, strict: bool = True
) -> CrossFitted:
    """Return recall and false positives by cross-fitting over groups.

    Each of five parts is scored by the detector that the other four make, and judged at a threshold set on the
    benign scores of the other four parts, so that a conversation never has a say in its own verdict. Source: A.
    Schick, "On asymptotically efficient estimation in semiparametric models", Annals of Statistics 14 (1986).

    Args:
        make: makes the detector.
        examples: training conversations, of both labels.
        target_fpr: share of benign conversations that may be flagged, in (0, 1).
        seed: of the parts.
        strict: refuse too few benign conversations; else the threshold lies just above all of them.

    Raises:
        UsageError: too few benign conversations; the message says how many are needed.

    >>> from turnwise.detectors import build_detector
    >>> from turnwise.scoring import Score, TurnScores
    >>> def one(number, F):
    ...     turns = (TurnScores(1, {"reciprocity": Score(0.5, 0.2, F)}),)
    ...     return Example(f"c{number}", f"g{number}", F > 0.5, turns)
    >>> examples = [*(one(n, n / 250) for n in range(100)), *(one(n, 0.9) for n in range(100, 120))]
    >>> found = cross_fitted(lambda _: build_detector("any_turn"), examples, 0.05)
    >>> str(found.recall), str(found.false_positives)
    ('20/20 = 100.0 % [83.2, 100.0]', '6/100 = 6.0 % [2.2, 12.6]')
    """
    parts = split_by_group(examples, {str(number): 1 / FOLDS for number in range(FOLDS)}, seed)
    scored: list[list[tuple[bool, float]]] = []
    for name, part in parts.items():
        detector = make([example for other, rest in parts.items() if other != name for example in rest])
        scored.append([(example.attack, run_detector(detector, example.turns).score) for example in part])
    caught = flagged = 0
    for number, part_scores in enumerate(scored):
        others = [
            score for place, rest in enumerate(scored) if place != number for label, score in rest if not label
        ]
        limit = _limit(others, target_fpr, strict)
        caught += sum(score >= limit for attack, score in part_scores if attack)
        flagged += sum(score >= limit for attack, score in part_scores if not attack)
    benign = tuple(score for part_scores in scored for attack, score in part_scores if not attack)
    attacks = sum(example.attack for example in examples)
    return CrossFitted(Rate(caught, attacks), Rate(flagged, len(benign)), benign)


def _limit(benign: Sequence[float], target_fpr: float, strict: bool) -> float:
    try:
        return threshold_for(benign, target_fpr)
    except UsageError as error:
        if strict:
            raise UsageError(
                f"{error}, in each four fifths of the training conversations: evaluate more benign conversations, "
                "or raise the rate"
            ) from error
        return strictest_threshold(benign)
