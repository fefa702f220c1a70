"""A detector: the mean F of the last few turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from turnwise.detectors import ByPrinciple
from turnwise.errors import DetectorError
from turnwise.scoring import Score, TurnScores


@dataclass(frozen=True, slots=True)
class RecentMean(ByPrinciple):
    """Fires once the mean F of a principle over its last scores reaches a limit.

    Args:
        turns: scores that the mean is taken over, at least 1; fewer at the beginning.
        limit: mean from which it fires, in [0, 1].
    """

    name = "recent_mean"
    label: ClassVar[str] = "mean F"
    turns: int = 3
    limit: float = 0.5

    def __post_init__(self) -> None:
        if self.turns < 1:
            raise DetectorError(f"recent_mean: turns must be at least 1, not {self.turns}")

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        """Return the last scores of a principle, this one among them, and their mean."""
        recent = [*(memory or ()), score.F][-self.turns :]
        return recent, sum(recent) / len(recent)
