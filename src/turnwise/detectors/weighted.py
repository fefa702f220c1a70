"""``weighted``: a weighted sum of the scores of several detectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from turnwise.detectors.combined import MEMBERS, checked_members, start_members
from turnwise.detectors.latch import latch, silence
from turnwise.detectors.parameters import number
from turnwise.detectors.protocol import Detector, Signal, State
from turnwise.errors import DetectorError
from turnwise.scoring import TurnScores


@dataclass(frozen=True, slots=True)
class Weighted:
    """Fires on a weighted sum of what its members say.

    score = Σ weight · score over the members that have a value; the thresholds of the members play no part. A
    member without a value counts as 0.

    Args:
        members: detectors, at least one.
        weights: weight of each member, at least 0 and in their order; None weighs them all 1.
        limit: sum from which it fires; infinity never fires.

    Raises:
        DetectorError: a member is no detector, or a parameter is out of range.

    >>> from turnwise.detectors import build_detector
    >>> from turnwise.scoring import Score
    >>> detector = build_detector("weighted:members=[any_turn; cusum],weights=[1; 2],limit=2")
    >>> detector.update(detector.start(), TurnScores(1, {"reciprocity": Score(T=0.2, I=0.2, F=1.0)})).reason
    '1·any_turn 1.000 + 2·cusum 0.750 = 2.500 ≥ 2.000 at turn 1'
    """

    name: ClassVar[str] = "weighted"
    threshold_parameter: ClassVar[str] = "limit"

    members: tuple[Detector, ...]
    weights: tuple[float, ...] | None = None
    limit: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", checked_members(self.name, self.members))
        object.__setattr__(self, "limit", number(self.name, "limit", self.limit, never=True))
        if self.weights is None:
            return
        weights = tuple(number(self.name, "weights", weight, 0.0) for weight in self.weights)
        object.__setattr__(self, "weights", weights)
        if len(weights) != len(self.members):
            raise DetectorError(f"{self.name}: {len(weights)} weights for {len(self.members)} members")

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
        weights = self.weights or (1.0,) * len(self.members)
        total, parts = 0.0, []
        contributions: dict[str, float] = {}
        for member, weight, own in zip(self.members, weights, state[MEMBERS], strict=True):
            signal = member.update(own, scores)
            if not signal.contributions:
                continue
            total += weight * signal.score
            parts.append(f"{weight:g}·{member.name} {signal.score:.3f}")
            for principle, value in signal.contributions.items():
                contributions[principle] = contributions.get(principle, 0.0) + weight * value
        if not parts:
            return silence(state, scores.turn)
        active = total >= self.limit
        sign = "≥" if active else "<"
        reason = f"{' + '.join(parts)} = {total:.3f} {sign} {self.limit:.3f} at turn {scores.turn}"
        return latch(state, scores.turn, total, active=active, contributions=contributions, reason=reason)
