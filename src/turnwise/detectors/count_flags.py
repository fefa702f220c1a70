"""``count_flags``: the baseline that counts flagged turns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from turnwise.detectors.kit.base import ByPrinciple, number
from turnwise.scoring import Score, TurnScores


@dataclass(frozen=True, slots=True)
class CountFlags(ByPrinciple):
    """Fires once single turns were flagged often enough.

    score = max over principles of the number of turns so far with F ≥ flag. With k = 1 it is `any_turn` at the
    threshold `flag`.

    Args:
        k: flagged turns of one principle from which it fires, at least 0; infinity never fires.
        flag: F from which a turn is flagged, in [0, 1].

    Raises:
        DetectorError: a parameter is out of range.

    >>> from turnwise.scoring import Score
    >>> detector = CountFlags(k=2)
    >>> state = detector.start()
    >>> for turn, F in ((1, 0.6), (2, 0.1), (3, 0.7)):
    ...     signal = detector.update(state, TurnScores(turn, {"reciprocity": Score(T=0.5, I=0.2, F=F)}))
    >>> signal.reason
    'reciprocity flagged turns 2.000 ≥ 2.000 at turn 3'
    """

    name = "count_flags"
    label: ClassVar[str] = "flagged turns"

    k: float = 3.0
    flag: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", number(self.name, "k", self.k, 0.0, never=True))
        object.__setattr__(self, "flag", number(self.name, "flag", self.flag, 0.0, 1.0))

    @property
    def limit(self) -> float:  # type: ignore[override]  # the base class names the field, here it has another name
        """The same as k."""
        return self.k

    def with_threshold(self, value: float) -> Self:
        """Return the same detector with another k."""
        return replace(self, k=value)

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        """Count the turn if it is flagged."""
        flagged = (memory or 0) + (int(self.flag <= score.F))
        return flagged, float(flagged)
