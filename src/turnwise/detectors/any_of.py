"""``any_of``: fires where one of several detectors does."""

from __future__ import annotations

from dataclasses import dataclass

from turnwise.detectors.kit.base import silence
from turnwise.detectors.kit.combined import Combination, reason_of, update_members
from turnwise.detectors.kit.protocol import Detector, Signal, State
from turnwise.scoring import TurnScores


@dataclass(frozen=True, slots=True)
class AnyOf(Combination):
    """Fires where at least one of its members would fire now.

    score = the greatest margin, a member's score less its threshold; it fires from a margin of 0. A member that is
    exactly at its threshold counts as firing. Margins of detectors of different units are not of one size, so
    calibrate the members before they are combined.

    Args:
        members: detectors, at least one.
        limit: margin from which it fires; infinity never fires.

    Raises:
        DetectorError: a member is no detector, or the limit is out of range.

    >>> from turnwise.detectors import build_detector
    >>> from turnwise.scoring import Score
    >>> detector = build_detector("any_of:members=[any_turn:threshold=0.75; cusum:limit=0.5]")
    >>> detector.update(detector.start(), TurnScores(1, {"reciprocity": Score(T=0.2, I=0.2, F=1.0)})).score
    0.25
    """

    name = "any_of"

    members: tuple[Detector, ...]
    limit: float = 0.0

    def update(self, state: State, scores: TurnScores) -> Signal:
        """Take the scores of the next turn into the state and return the signal after it."""
        margins = update_members(self.members, state, scores)
        if not margins.values:
            return silence(state, scores.turn)
        best = max(range(len(margins.values)), key=margins.values.__getitem__)
        score = margins.values[best]
        reason = reason_of([margins.signals[best]], "or")
        return self.decide(state, scores.turn, score, margins.contributions, reason)
