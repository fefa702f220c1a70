"""What most detectors share: each principle is followed on its own, and the highest value decides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from turnwise.detectors.latch import FIRED_AT, judge, silence
from turnwise.detectors.limited import Limited
from turnwise.detectors.protocol import Signal, State
from turnwise.scoring import Score, TurnScores

MEMORIES = "memories"
"""Key of the state under which the present value and the memory of each principle are kept."""


class ByPrinciple(Limited, ABC):
    """A detector that keeps a memory for each principle and fires once the highest value reaches its limit.

    A subclass is a frozen dataclass with a field ``limit``; it says in `follow` what one more score does. A
    principle that was not evaluated at a turn keeps its memory and its value.
    """

    __slots__ = ()

    name: ClassVar[str]
    label: ClassVar[str]
    """What the value is called in reasons."""

    def start(self) -> State:
        """Return the state before the first turn."""
        return {FIRED_AT: None, MEMORIES: {}}

    def update(self, state: State, scores: TurnScores) -> Signal:
        """Take the scores of the next turn into the state and return the signal after it."""
        memories: dict[str, list[Any]] = state[MEMORIES]
        for principle, score in scores.scores.items():
            known = memories.get(principle)
            memory, value = self.follow(known[1] if known else None, scores, score)
            memories[principle] = [value, memory]
        values = {principle: known[0] for principle, known in memories.items()}
        if not values:
            return silence(state, scores.turn)
        return judge(state, scores.turn, values, self.label, self.limit)

    @abstractmethod
    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        """Take one more score of a principle.

        Args:
            memory: what this returned last for the principle; None before its first score. JSON values.
            scores: the turn, for its number and length.
            score: the score of the principle at the turn.

        Returns:
            The memory from now on, and the principle's value.
        """
