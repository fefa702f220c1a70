"""The highest scores of conversations by the arms of a study, from as little work as will do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from turnwise.detectors import Detector
from turnwise.detectors.learned import DIGITS, FEATURES, Learned
from turnwise.study.compare.arms import Arm
from turnwise.study.examples import Example
from turnwise.study.fitting.fit import FitInput
from turnwise.study.fitting.search import highest_scores


class HighestScores:
    """The highest score of each conversation by the arms of a study, and what detectors are fitted on.

    A detector that is the same whatever it trains on runs over a conversation once, and its score is kept. What
    fits take of a conversation is the same for every fit, and kept too.
    """

    def __init__(self) -> None:
        self._scores: dict[str, dict[str, float]] = {}
        self._inputs: dict[tuple[str, str], FitInput] = {}

    def of(self, arm: Arm, detector: Detector, examples: Sequence[Example]) -> list[float]:
        """The scores of some conversations, whatever the threshold, by the detector that `make_detector` gives."""
        if isinstance(detector, Learned) and arm.fitted:
            return self._weighed(arm.run, detector, examples)
        if arm.trained:
            return highest_scores(detector, examples)
        kept = self._scores.setdefault(arm.name, {})
        lacking = [example for example in examples if example.sequence_id not in kept]
        ids = [example.sequence_id for example in lacking]
        kept.update(zip(ids, highest_scores(detector, lacking), strict=True))
        return [kept[example.sequence_id] for example in examples]

    def inputs(self, run: str, example: Example) -> FitInput:
        """What fits take of a conversation."""
        key = run, example.sequence_id
        if key not in self._inputs:
            self._inputs[key] = FitInput.of(example)
        return self._inputs[key]

    def _weighed(self, run: str, detector: Learned, examples: Sequence[Example]) -> list[float]:
        """What `learned` says, from the features of every turn."""
        import numpy as np

        known = [self.inputs(run, example).every for example in examples]
        if not any(map(len, known)):
            return [-math.inf] * len(examples)
        weights = np.array([detector.weights.get(name, 0.0) for name in FEATURES])
        odds = np.round(detector.intercept + np.einsum("ij,j->i", np.concatenate(known), weights), DIGITS)
        begins = np.cumsum([0, *map(len, known)])
        return [float(odds[begin:end].max()) if end > begin else -math.inf for begin, end in pairwise(begins)]
