"""``f_ema``: a smoothed F that is high, or rises fast."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from turnwise.detectors.kit.base import ByPrinciple, number
from turnwise.errors import DetectorError
from turnwise.scoring import Score, TurnScores


@dataclass(frozen=True, slots=True)
class FEma(ByPrinciple):
    """Fires when the moving average of F is high, or rises fast from one evaluated turn to the next.

    ema_k = alpha · F_k + (1 - alpha) · ema_{k-1} with ema_1 = F_1, for each principle on its own over its
    evaluated turns; score = max over principles of max(ema_k / level, (ema_k - ema_{k-1}) / slope_limit): how
    much of the nearer of the two limits is used up. Source: the average is that of S. W. Roberts, "Control chart
    tests based on geometric moving averages", Technometrics 1 (1959).

    An average never exceeds the highest value that went in: with `slope_limit` infinite it can't catch what
    `any_turn` misses at the same threshold, only be steadier.

    Args:
        alpha: weight of the present turn, in (0, 1].
        level: average at which it fires, above 0; infinity leaves the level out.
        slope_limit: rise of the average a turn at which it fires, above 0; infinity leaves the rise out.
        limit: score from which it fires, 1 by its definition; infinity never fires.

    Raises:
        DetectorError: a parameter is out of range, or both limits are infinite.

    >>> from turnwise.scoring import Score
    >>> detector = FEma(alpha=0.5, slope_limit=0.2)
    >>> state = detector.start()
    >>> for turn, F in ((1, 0.1), (2, 0.2), (3, 0.6)):
    ...     signal = detector.update(state, TurnScores(turn, {"reciprocity": Score(T=0.5, I=0.2, F=F)}))
    >>> signal.reason
    'reciprocity EMA of F against its limits 1.125 ≥ 1.000 at turn 3'
    """

    name = "f_ema"
    label: ClassVar[str] = "EMA of F against its limits"

    alpha: float = 0.3
    level: float = 0.5
    slope_limit: float = 0.15
    limit: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", number(self.name, "alpha", self.alpha, 0.0, 1.0, above=True))
        for name in ("level", "slope_limit"):
            checked = number(self.name, name, getattr(self, name), 0.0, above=True, never=True)
            object.__setattr__(self, name, checked)
        object.__setattr__(self, "limit", number(self.name, "limit", self.limit, never=True))
        if math.isinf(self.level) and math.isinf(self.slope_limit):
            raise DetectorError(f"{self.name}: level and slope_limit are both infinite; set one of them")

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        """Take one more F into the average of a principle."""
        if memory is None:
            return score.F, score.F / self.level
        average = self.alpha * score.F + (1.0 - self.alpha) * memory
        return average, max(average / self.level, (average - memory) / self.slope_limit)
