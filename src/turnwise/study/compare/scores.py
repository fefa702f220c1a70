"""The highest scores of conversations by the arms of a study, from as little work as will do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from turnwise.detectors import Detector
from turnwise.detectors.learned import DIGITS, FEATURES, Learned, follow_features
from turnwise.study.compare.arms import Arm
from turnwise.study.examples import Example
from turnwise.study.fitting.search import highest_scores

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class HighestScores:
    """The highest score of each conversation by the arms of a study, and the features that `learned` is fitted on.

    A detector that is the same whatever it trains on runs over a conversation once, and its score is kept. The
    features of a conversation are the same for every fit of `learned`, which only weighs them: they are kept too.
    """

    def __init__(self) -> None:
        self._scores: dict[str, dict[str, float]] = {}
        self._features: dict[tuple[str, str], _Features] = {}

    def of(self, arm: Arm, detector: Detector, examples: Sequence[Example]) -> list[float]:
        """Return the scores of some conversations; a threshold has no part in them.

        Args:
            arm: the arm.
            detector: that of the arm, as `make_detector` gives it.
            examples: conversations of the run of the arm.
        """
        if isinstance(detector, Learned) and arm.fitted:
            return self._weighed(arm.run, detector, examples)
        if arm.trained:
            return highest_scores(detector, examples)
        kept = self._scores.setdefault(arm.name, {})
        lacking = [example for example in examples if example.sequence_id not in kept]
        ids = [example.sequence_id for example in lacking]
        kept.update(zip(ids, highest_scores(detector, lacking), strict=True))
        return [kept[example.sequence_id] for example in examples]

    def features(self, run: str, example: Example) -> Mapping[str, Mapping[str, float]]:
        """Return the features of each principle after the last turn, as `features_of` does.

        Args:
            run: name of the run of the conversation.
            example: the conversation.
        """
        return self._of(run, example).last

    def _of(self, run: str, example: Example) -> _Features:
        key = run, example.sequence_id
        if key not in self._features:
            self._features[key] = _Features.of(example)
        return self._features[key]

    def _weighed(self, run: str, detector: Learned, examples: Sequence[Example]) -> list[float]:
        """Return what `learned` says, from the features of every turn."""
        import numpy as np

        known = [self._of(run, example).every for example in examples]
        if not any(map(len, known)):
            return [0.0] * len(examples)
        weights = np.array([detector.weights.get(name, 0.0) for name in FEATURES])
        odds = np.round(detector.intercept + np.einsum("ij,j->i", np.concatenate(known), weights), DIGITS)
        begins = np.cumsum([0, *map(len, known)])
        return [float(odds[begin:end].max()) if end > begin else 0.0 for begin, end in pairwise(begins)]


@dataclass(frozen=True, slots=True)
class _Features:
    """Features of one conversation.

    Args:
        every: of each principle at each evaluated turn; shape (principles of all turns, features).
        last: by principle, after the last turn.
    """

    every: NDArray[np.float64]
    last: Mapping[str, Mapping[str, float]]

    @classmethod
    def of(cls, example: Example) -> _Features:
        import numpy as np

        memories: dict[str, Any] = {}
        last: dict[str, dict[str, float]] = {}
        rows = []
        for scores in example.turns:
            for principle, score in scores.scores.items():
                memories[principle], found = follow_features(memories.get(principle), scores, score)
                last[principle] = found
                rows.append([found[name] for name in FEATURES])
        return cls(np.array(rows).reshape(-1, len(FEATURES)), last)
