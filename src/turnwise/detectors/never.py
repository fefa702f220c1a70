"""``never``: the baseline that does nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

from turnwise.detectors.kit.base import FIRED_AT, silence
from turnwise.detectors.kit.protocol import Signal, State
from turnwise.scoring import TurnScores


@dataclass(frozen=True, slots=True)
class Never:
    """Never fires: what doing nothing costs.

    score = 0 at every turn, whatever its threshold.

    Args:
        threshold: changes nothing.

    >>> from turnwise.scoring import Score
    >>> detector = Never()
    >>> detector.update(detector.start(), TurnScores(1, {"reciprocity": Score(T=0.0, I=0.2, F=1.0)})).fired
    False
    """

    name = "never"

    threshold: float = math.inf

    def with_threshold(self, value: float) -> Self:
        """Return the same detector; it does not fire at any threshold."""
        return replace(self, threshold=value)

    def start(self) -> State:
        """Return the state before the first turn."""
        return {FIRED_AT: None}

    def update(self, state: State, scores: TurnScores) -> Signal:
        """Return a signal that has not fired."""
        return silence(state, scores.turn, "it never fires")
