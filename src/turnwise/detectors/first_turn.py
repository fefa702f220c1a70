"""``first_turn``: the baseline that reads the opening alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from turnwise.detectors.kit.base import ByPrinciple, number
from turnwise.scoring import Score, TurnScores


@dataclass(frozen=True, slots=True)
class FirstTurn(ByPrinciple):
    """Fires on the F of the first evaluated turn alone: how far an opening gives a conversation away.

    score = max over principles of F at the principle's first evaluated turn. It can't see anything that happens
    later: where it does well, a data set tells its attacks by how they begin.

    Args:
        limit: F from which it fires, in [0, 1]; infinity never fires.

    Raises:
        DetectorError: the limit is out of range.

    >>> from turnwise.scoring import Score
    >>> detector = FirstTurn()
    >>> state = detector.start()
    >>> for turn, F in ((1, 0.1), (2, 0.9)):
    ...     signal = detector.update(state, TurnScores(turn, {"reciprocity": Score(T=0.5, I=0.2, F=F)}))
    >>> signal.fired, signal.score
    (False, 0.1)
    """

    name = "first_turn"
    label: ClassVar[str] = "first F"

    limit: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", number(self.name, "limit", self.limit, 0.0, 1.0, never=True))

    def with_threshold(self, value: float) -> Self:
        """Return the same detector with another limit; above 1 it never fires."""
        return replace(self, limit=math.inf if value > 1.0 else value)

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        """Keep the first F of a principle."""
        first = score.F if memory is None else memory
        return first, first
