"""Detectors of detectors: members run side by side, each measured against its own threshold, or weighed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turnwise.detectors.base import FIRED_AT, Limited, check_count, check_number, latch, number, silence
from turnwise.detectors.protocol import Detector, Signal, State
from turnwise.errors import DetectorError
from turnwise.scoring import TurnScores

_MEMBERS = "members"
"""Key of the state under which the members' states are kept."""


class Combination(Limited):
    """Base of detectors of detectors: a frozen dataclass with the fields ``members`` and ``limit``."""

    __slots__ = ()

    name: str

    if TYPE_CHECKING:
        members: tuple[Detector, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", _checked_members(self.name, self.members))
        check_number(self, "limit", never=True)

    def start(self) -> State:
        return {FIRED_AT: None, _MEMBERS: [member.start() for member in self.members]}

    def decide(
        self, state: State, turn: int, score: float, contributions: Mapping[str, float], reason: str
    ) -> Signal:
        """The signal of a turn: it fires from the limit."""
        active = score >= self.limit
        return latch(state, turn, score, active=active, contributions=contributions, reason=reason)

    def kth_margin(self, state: State, scores: TurnScores, k: int, lacking: str) -> Signal:
        """The signal whose score is the k-th greatest margin; a member that never fires has none."""
        margins: list[float] = []
        reasons: list[str] = []
        contributions: dict[str, float] = {}
        for member, own in zip(self.members, state[_MEMBERS], strict=True):
            signal, threshold = member.update(own, scores), member.threshold
            if not signal.evidence or threshold == float("inf"):
                continue
            margins.append(signal.score - threshold)
            reasons.append(signal.reason.partition("; fired at")[0])
            for principle, value in signal.contributions.items():
                contributions[principle] = max(value - threshold, contributions.get(principle, float("-inf")))
        if len(margins) < k:
            return silence(state, scores.turn, lacking)
        largest = sorted(range(len(margins)), key=margins.__getitem__, reverse=True)[:k]
        reason = " and ".join(reasons[place] for place in sorted(largest))
        return self.decide(state, scores.turn, margins[largest[-1]], contributions, reason)


def _checked_members(name: str, members: Any) -> tuple[Detector, ...]:
    if isinstance(members, str) or not isinstance(members, Sequence):
        raise DetectorError(
            f"{name}: members must be detectors, such as members=[cusum; trust_ema], not {members!r}"
        )
    for member in members:
        if not all(hasattr(member, part) for part in ("start", "update", "threshold")):
            raise DetectorError(f"{name}: members must be detectors, not {member!r}")
    if not members:
        raise DetectorError(f"{name}: 0 members are too few: at least 1 is needed")
    return tuple(members)


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
        return self.kth_margin(state, scores, 1, "no principle was evaluated")


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
        return self.kth_margin(state, scores, len(self.members), "not every member has a value")


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
        check_count(self, "k", 1)
        if self.k > len(self.members):
            raise DetectorError(f"{self.name}: k={self.k} of {len(self.members)} members is never met; lower k")

    def update(self, state: State, scores: TurnScores) -> Signal:
        return self.kth_margin(state, scores, self.k, f"fewer than {self.k} of the members have a value")


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
        weights = self.weights or (1.0,) * len(self.members)
        total, parts = 0.0, []
        contributions: dict[str, float] = {}
        for member, weight, own in zip(self.members, weights, state[_MEMBERS], strict=True):
            signal = member.update(own, scores)
            if not signal.evidence:
                continue
            total += weight * signal.score
            parts.append(f"{weight:g}·{member.name} {signal.score:.3f}")
            for principle, value in signal.contributions.items():
                contributions[principle] = contributions.get(principle, 0.0) + weight * value
        if not parts:
            return silence(state, scores.turn)
        sign = "≥" if total >= self.limit else "<"
        reason = f"{' + '.join(parts)} = {total:.3f} {sign} {self.limit:.3f} at turn {scores.turn}"
        return self.decide(state, scores.turn, total, contributions, reason)
