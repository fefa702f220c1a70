"""``any_turn``: the baseline that looks at single turns."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

from turnwise.detectors.kit.base import FIRED_AT, judge, number, silence
from turnwise.detectors.kit.protocol import Signal, State
from turnwise.scoring import TurnScores


@dataclass(frozen=True, slots=True)
class AnyTurn:
    """Fires at a turn whose F reaches a threshold: what looking at single turns can see.

    score = max over principles of F at this turn. Nothing is carried from turn to turn but the latch, which
    makes it the baseline that a detector over time has to beat.

    Args:
        threshold: F from which it fires, in [0, 1]; infinity never fires.

    Raises:
        DetectorError: the threshold is out of range.

    >>> from turnwise.scoring import Score
    >>> detector = AnyTurn(threshold=0.5)
    >>> state = detector.start()
    >>> detector.update(state, TurnScores(1, {"reciprocity": Score(T=0.8, I=0.2, F=0.1)})).fired
    False
    >>> detector.update(state, TurnScores(2, {"reciprocity": Score(T=0.1, I=0.2, F=0.83)})).reason
    'reciprocity F 0.830 ≥ 0.500 at turn 2'
    """

    name = "any_turn"

    threshold: float = 0.5

    def __post_init__(self) -> None:
        checked = number(self.name, "threshold", self.threshold, 0.0, 1.0, never=True)
        object.__setattr__(self, "threshold", checked)

    def with_threshold(self, value: float) -> Self:
        """Return the same detector with another threshold; above 1 it never fires."""
        return replace(self, threshold=math.inf if value > 1.0 else value)

    def start(self) -> State:
        """Return the state before the first turn."""
        return {FIRED_AT: None}

    def update(self, state: State, scores: TurnScores) -> Signal:
        """Take the scores of the next turn into the state and return the signal after it."""
        values = {principle: score.F for principle, score in scores.scores.items()}
        if not values:
            return silence(state, scores.turn)
        return judge(state, scores.turn, values, "F", self.threshold)
