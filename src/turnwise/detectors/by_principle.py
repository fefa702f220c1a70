"""What most detectors share: each principle is followed on its own, and the highest value decides."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from turnwise.detectors.latch import FIRED_AT, judge, silence
from turnwise.detectors.protocol import Signal, State
from turnwise.scoring import Score, TurnScores

MEMORIES = "memories"
"""Key of the state under which the memory of each principle is kept."""

VALUES = "values"
"""Key of the state under which the present value of each principle is kept."""


class ByPrinciple:
    """A detector that keeps a memory for each principle and fires once the highest value reaches its limit.

    A subclass is a frozen dataclass with a field ``limit``; it says in `follow` what one more score does. A
    principle that was not evaluated at a turn keeps its memory and its value.
    """

    __slots__ = ()

    name: ClassVar[str]
    label: ClassVar[str]
    """What the value is called in reasons."""

    threshold_parameter: ClassVar[str] = "limit"

    if TYPE_CHECKING:
        limit: float

    @property
    def threshold(self) -> float:
        """The limit: score from which it fires."""
        return self.limit

    def with_threshold(self, value: float) -> Self:
        """Return the same detector with another limit."""
        detector: Any = self
        moved: Self = replace(detector, limit=value)
        return moved

    def start(self) -> State:
        """Return the state before the first turn."""
        return {FIRED_AT: None, MEMORIES: {}, VALUES: {}}

    def update(self, state: State, scores: TurnScores) -> Signal:
        """Take the scores of the next turn into the state and return the signal after it."""
        memories: dict[str, Any] = state[MEMORIES]
        values: dict[str, float] = state[VALUES]
        for principle, score in scores.scores.items():
            memories[principle], value = self.follow(memories.get(principle), scores, score)
            if value is not None:
                values[principle] = value
        if not values:
            return silence(state, scores.turn, self.silent_reason())
        return judge(state, scores.turn, dict(values), self.label, self.limit)

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float | None]:
        """Take one more score of a principle.

        Args:
            memory: what this returned last for the principle; None before its first score. JSON values.
            scores: the turn, for its number and length.
            score: the score of the principle at the turn.

        Returns:
            The memory from now on, and the principle's value; None while it has none.
        """
        raise NotImplementedError

    def silent_reason(self) -> str:
        """Return why no principle has a value."""
        return "no principle was evaluated"
