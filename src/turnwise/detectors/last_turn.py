"""``last_turn``: the baseline that reads the end alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from turnwise.detectors.latch import FIRED_AT, judge, silence
from turnwise.detectors.parameters import number
from turnwise.detectors.protocol import Signal, State
from turnwise.scoring import TurnScores


@dataclass(frozen=True, slots=True)
class LastTurn:
    """Judges a whole conversation by its last evaluated turn alone.

    score = max over principles of F at this turn. Live it is `any_turn`; the verdict on a whole conversation is
    that of its last evaluated turn, so it needs no memory either.

    Args:
        threshold: F from which it fires, in [0, 1]; infinity never fires.

    Raises:
        DetectorError: the threshold is out of range.

    >>> from turnwise.detectors import run_detector
    >>> from turnwise.scoring import Score
    >>> turns = [TurnScores(n, {"reciprocity": Score(0.5, 0.2, F)}) for n, F in enumerate((0.9, 0.1), start=1)]
    >>> run_detector(LastTurn(), turns).fired
    False
    """

    name: ClassVar[str] = "last_turn"
    threshold_parameter: ClassVar[str] = "threshold"
    judges_last: ClassVar[bool] = True

    threshold: float = 0.5

    def __post_init__(self) -> None:
        checked = number(self.name, "threshold", self.threshold, 0.0, never=True)
        object.__setattr__(self, "threshold", checked)

    def with_threshold(self, value: float) -> Self:
        """Return the same detector with another threshold; above 1 it never fires."""
        return replace(self, threshold=value)

    def start(self) -> State:
        """Return the state before the first turn."""
        return {FIRED_AT: None}

    def update(self, state: State, scores: TurnScores) -> Signal:
        """Take the scores of the next turn into the state and return the signal after it."""
        values = {principle: score.F for principle, score in scores.scores.items()}
        if not values:
            return silence(state, scores.turn)
        return judge(state, scores.turn, values, "F", self.threshold)
