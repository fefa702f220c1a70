"""``all_of``: fires where all of its detectors do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from turnwise.detectors.combined import checked_members, reason_of, start_members, update_members
from turnwise.detectors.latch import latch, silence
from turnwise.detectors.parameters import number
from turnwise.detectors.protocol import Detector, Signal, State
from turnwise.scoring import TurnScores


@dataclass(frozen=True, slots=True)
class AllOf:
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

    name: ClassVar[str] = "all_of"
    threshold_parameter: ClassVar[str] = "limit"

    members: tuple[Detector, ...]
    limit: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", checked_members(self.name, self.members))
        object.__setattr__(self, "limit", number(self.name, "limit", self.limit, never=True))

    @property
    def threshold(self) -> float:
        """The limit: score from which it fires."""
        return self.limit

    def with_threshold(self, value: float) -> Self:
        """Return the same detector with another limit; the members keep theirs."""
        return replace(self, limit=value)

    def start(self) -> State:
        """Return the state before the first turn."""
        return start_members(self.members)

    def update(self, state: State, scores: TurnScores) -> Signal:
        """Take the scores of the next turn into the state and return the signal after it."""
        margins = update_members(self.members, state, scores)
        if len(margins.values) < len(self.members):
            return silence(state, scores.turn, "not every member has a value")
        score = min(margins.values)
        reason = reason_of(margins.signals, "and")
        return latch(
            state,
            scores.turn,
            score,
            active=score >= self.limit,
            contributions=margins.contributions,
            reason=reason,
        )
