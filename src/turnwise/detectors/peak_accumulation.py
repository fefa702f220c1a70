"""``peak_accumulation``: one bad turn counts, more so where many are bad or the last ones rise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from turnwise.detectors.kit.base import ByPrinciple, number
from turnwise.scoring import Score, TurnScores

_RISING = 3
"""Turns in a row that have to rise."""


@dataclass(frozen=True, slots=True)
class PeakAccumulation(ByPrinciple):
    """Fires on a bad turn, and on a lesser one where many are suspicious or the last ones rise.

    score = peak of F + share · (share of turns with F ≥ positive) + rise · (1 if the last three or more F rise,
    else 0), for each principle on its own over its evaluated turns; then the highest over principles. Source: the
    specification's turn-level risk aggregation, peak + 0.45 · share of positive turns + 0.2 for an escalation,
    threshold 0.7.

    The peak never falls: what it adds up is forgotten only as the share of suspicious turns shrinks, so it
    recovers from suspicion, not from a plainly bad turn.

    Args:
        limit: score from which it fires; infinity never fires.
        share: weight of the share of positive turns, at least 0.
        rise: what rising turns add, at least 0.
        positive: F from which a turn counts as positive, in [0, 1].

    Raises:
        DetectorError: a parameter is out of range.

    >>> from turnwise.scoring import Score
    >>> detector = PeakAccumulation()
    >>> state = detector.start()
    >>> for turn, F in enumerate((0.1, 0.3, 0.4), start=1):
    ...     signal = detector.update(state, TurnScores(turn, {"reciprocity": Score(T=0.5, I=0.2, F=F)}))
    >>> signal.reason
    'reciprocity peak and accumulation 0.900 ≥ 0.700 at turn 3'
    """

    name = "peak_accumulation"
    label: ClassVar[str] = "peak and accumulation"

    limit: float = 0.7
    share: float = 0.45
    rise: float = 0.2
    positive: float = 0.3

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", number(self.name, "limit", self.limit, never=True))
        object.__setattr__(self, "share", number(self.name, "share", self.share, 0.0))
        object.__setattr__(self, "rise", number(self.name, "rise", self.rise, 0.0))
        object.__setattr__(self, "positive", number(self.name, "positive", self.positive, 0.0, 1.0))

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        """Take one more F into count, positive turns, peak, last F and length of the present rise."""
        n, positives, peak, last, rising = memory or (0, 0, 0.0, 0.0, 0)
        rising = rising + 1 if n and score.F - last > 0.0 else 1
        n += 1
        positives += self.positive <= score.F
        peak = max(peak, score.F)
        value = peak + self.share * positives / n + (self.rise if rising >= _RISING else 0.0)
        return [n, positives, peak, score.F, rising], value
