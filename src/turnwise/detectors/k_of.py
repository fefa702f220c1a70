"""``k_of``: fires where several of its detectors do."""

from __future__ import annotations

from dataclasses import dataclass

from turnwise.detectors.kit.base import count, silence
from turnwise.detectors.kit.combined import Combination, reason_of, update_members
from turnwise.detectors.kit.protocol import Detector, Signal, State
from turnwise.errors import DetectorError
from turnwise.scoring import TurnScores


@dataclass(frozen=True, slots=True)
class KOf(Combination):
    """Fires where at least k of its members would fire now.

    score = the k-th greatest margin, a member's score less its threshold; it fires from a margin of 0. While fewer
    than k members have a value, it has none either.

    Args:
        k: members that have to fire, from 1 to their number.
        members: detectors.
        limit: margin from which it fires; infinity never fires.

    Raises:
        DetectorError: a member is no detector, or a parameter is out of range.

    >>> from turnwise.detectors import build_detector
    >>> from turnwise.scoring import Score
    >>> detector = build_detector("k_of:k=2,members=[any_turn:threshold=0.75; cusum:limit=0.5; trust_ema]")
    >>> detector.update(detector.start(), TurnScores(1, {"reciprocity": Score(T=0.2, I=0.2, F=1.0)})).fired
    True
    """

    name = "k_of"

    k: int
    members: tuple[Detector, ...]
    limit: float = 0.0

    def __post_init__(self) -> None:
        Combination.__post_init__(self)
        object.__setattr__(self, "k", count(self.name, "k", self.k, 1))
        if self.k > len(self.members):
            raise DetectorError(f"{self.name}: k={self.k} of {len(self.members)} members is never met; lower k")

    def update(self, state: State, scores: TurnScores) -> Signal:
        """Take the scores of the next turn into the state and return the signal after it."""
        margins = update_members(self.members, state, scores)
        if len(margins.values) < self.k:
            return silence(state, scores.turn, f"fewer than {self.k} of the members have a value")
        order = sorted(range(len(margins.values)), key=margins.values.__getitem__, reverse=True)[: self.k]
        score = margins.values[order[-1]]
        reason = reason_of([margins.signals[index] for index in sorted(order)], "and")
        return self.decide(state, scores.turn, score, margins.contributions, reason)
