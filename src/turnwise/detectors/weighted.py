"""``weighted``: a weighted sum of the scores of several detectors."""

from __future__ import annotations

from dataclasses import dataclass

from turnwise.detectors.kit.base import number, silence
from turnwise.detectors.kit.combined import MEMBERS, Combination
from turnwise.detectors.kit.protocol import Detector, Signal, State
from turnwise.errors import DetectorError
from turnwise.scoring import TurnScores


@dataclass(frozen=True, slots=True)
class Weighted(Combination):
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

    name = "weighted"

    members: tuple[Detector, ...]
    weights: tuple[float, ...] | None = None
    limit: float = 1.0

    def __post_init__(self) -> None:
        Combination.__post_init__(self)
        if self.weights is None:
            return
        weights = tuple(number(self.name, "weights", weight, 0.0) for weight in self.weights)
        object.__setattr__(self, "weights", weights)
        if len(weights) != len(self.members):
            raise DetectorError(
                f"{self.name}: {len(self.members)} members need as many weights, not {len(weights)}"
            )

    def update(self, state: State, scores: TurnScores) -> Signal:
        """Take the scores of the next turn into the state and return the signal after it."""
        weights = self.weights or (1.0,) * len(self.members)
        total, parts = 0.0, []
        contributions: dict[str, float] = {}
        for member, weight, own in zip(self.members, weights, state[MEMBERS], strict=True):
            signal = member.update(own, scores)
            if not signal.evidence:
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
        return self.decide(state, scores.turn, total, contributions, reason)
