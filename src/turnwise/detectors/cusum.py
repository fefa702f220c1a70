"""``cusum``: evidence that adds up over turns, less what a harmless turn may have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from turnwise.detectors.kit.base import ByPrinciple, number
from turnwise.scoring import Score, TurnScores


@dataclass(frozen=True, slots=True)
class Cusum(ByPrinciple):
    """Fires when F stays above what a harmless turn may have for long enough, or far enough above it.

    S_k = max(0, S_{k-1} + F_k - drift) with S_0 = 0, for each principle on its own over its evaluated
    turns; score = max over principles of S. Source: the one-sided cumulative sum of E. S. Page, "Continuous
    inspection schemes", Biometrika 41 (1954).

    With the defaults one turn of F 0.75, two of 0.5 or six of 0.35 are enough, and a turn of F below 0.25
    takes evidence away. They fit no observer in particular: calibrate `limit` on harmless conversations.

    Args:
        drift: F that a harmless turn may have before evidence adds up, in [0, 1]; best halfway between the
            mean F of harmless turns and that of the turns to catch.
        limit: sum from which it fires, at least 0; infinity never fires.

    Raises:
        DetectorError: a parameter is out of range.

    >>> from turnwise.scoring import Score
    >>> detector = Cusum(drift=0.25, limit=0.5)
    >>> state = detector.start()
    >>> for turn in (1, 2):
    ...     signal = detector.update(state, TurnScores(turn, {"reciprocity": Score(T=0.4, I=0.3, F=0.5)}))
    ...     print(signal.score, signal.fired)
    0.25 False
    0.5 True
    """

    name = "cusum"
    label: ClassVar[str] = "CUSUM"

    drift: float = 0.25
    limit: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "drift", number(self.name, "drift", self.drift, 0.0, 1.0))
        object.__setattr__(self, "limit", number(self.name, "limit", self.limit, 0.0, never=True))

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        """Take one more F into the sum of a principle."""
        total = max(0.0, (memory or 0.0) + score.F - self.drift)
        return total, total
