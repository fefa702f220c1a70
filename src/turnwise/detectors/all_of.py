"""``all_of``: fires where all of its detectors do."""

from __future__ import annotations

from dataclasses import dataclass

from turnwise.detectors.kit.base import silence
from turnwise.detectors.kit.combined import Combination, reason_of, update_members
from turnwise.detectors.kit.protocol import Detector, Signal, State
from turnwise.scoring import TurnScores


@dataclass(frozen=True, slots=True)
class AllOf(Combination):
    """Fires where all of its members would fire now.

    score = the least margin, a member's score less its threshold; it fires from a margin of 0. While a member has
    no value, it has none either.

    Args:
        members: detectors, at least one.
        limit: margin from which it fires; infinity never fires.

    Raises:
        DetectorError: a member is no detector, or the limit is out of range.

    >>> from turnwise.detectors import build_detector
    >>> from turnwise.scoring import Score
    >>> detector = build_detector("all_of:members=[any_turn:threshold=0.75; cusum:limit=2]")
    >>> detector.update(detector.start(), TurnScores(1, {"reciprocity": Score(T=0.2, I=0.2, F=1.0)})).score
    -1.25
    """

    name = "all_of"

    members: tuple[Detector, ...]
    limit: float = 0.0

    def update(self, state: State, scores: TurnScores) -> Signal:
        """Take the scores of the next turn into the state and return the signal after it."""
        margins = update_members(self.members, state, scores)
        if len(margins.values) < len(self.members):
            return silence(state, scores.turn, "not every member has a value")
        score = min(margins.values)
        reason = reason_of(margins.signals, "and")
        return self.decide(state, scores.turn, score, margins.contributions, reason)
