"""``page_hinkley``: F that exceeds its own average so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from turnwise.detectors.kit.base import ByPrinciple, number
from turnwise.scoring import Score, TurnScores


@dataclass(frozen=True, slots=True)
class PageHinkley(ByPrinciple):
    """Fires when F has risen above its own average so far, by enough or for long enough.

    mean_k = average of F_1 to F_k; U_k = U_{k-1} + F_k - mean_k - drift with U_0 = 0; PH_k = U_k - min over j ≤ k
    of U_j, for each principle on its own over its evaluated turns; score = max over principles of PH. Source: the
    one-sided test for an increase of E. S. Page (Biometrika 41, 1954) and D. V. Hinkley, "Inference about the
    change-point from cumulative sum tests", Biometrika 58 (1971). The fading that libraries for streams add is
    left
    out: it lets U rise from its minimum while nothing happens.

    It compares with the conversation itself, not with a fixed level: a user whose turns all have the same high F
    does not fire.

    Args:
        drift: F above the average that a turn may have before evidence adds up, at least 0.
        limit: evidence from which it fires, at least 0; infinity never fires.

    Raises:
        DetectorError: a parameter is out of range.

    >>> from turnwise.scoring import Score
    >>> detector = PageHinkley(drift=0.0, limit=0.5)
    >>> state = detector.start()
    >>> for turn, F in enumerate((0.1, 0.1, 0.5, 0.7), start=1):
    ...     signal = detector.update(state, TurnScores(turn, {"reciprocity": Score(T=0.5, I=0.2, F=F)}))
    >>> signal.reason
    'reciprocity Page-Hinkley 0.617 ≥ 0.500 at turn 4'
    """

    name = "page_hinkley"
    label: ClassVar[str] = "Page-Hinkley"

    drift: float = 0.02
    limit: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "drift", number(self.name, "drift", self.drift, 0.0))
        object.__setattr__(self, "limit", number(self.name, "limit", self.limit, 0.0, never=True))

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        """Take one more F into count, mean, sum and least sum of a principle."""
        n, mean, total, least = memory or (0, 0.0, 0.0, 0.0)
        n += 1
        mean += (score.F - mean) / n
        total += score.F - mean - self.drift
        least = total if n == 1 else min(least, total)
        return [n, mean, total, least], total - least
