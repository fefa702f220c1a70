"""``boundary_testing``: someone who tries again and again where the limits are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from turnwise.detectors.kit.base import ByPrinciple, count, number
from turnwise.errors import DetectorError
from turnwise.scoring import Score, TurnScores, balance, trust_strength

_DIGITS = 10
"""Decimals that are kept of a balance, so that the state stays small."""

_NEEDED_DELTAS = 2
"""Changes of balance that have to be known before their mean counts."""


@dataclass(frozen=True, slots=True)
class BoundaryTesting(ByPrinciple):
    """Fires when limits are tried again and again: breakers, bad turns in a row, or balance that keeps falling.

    For each principle on its own over its evaluated turns, the largest of
    - breakers / 3, where a breaker is a turn of cut trust strength (F > 0.65, or a text that saturates its
    context);
    - turns with F > 0.6 among the last 5, / 3;
    - -(mean of the last 5 changes of balance) / 0.3, once two changes are known;
    score = the highest over principles; it fires at 1, where a rule is met. Source: the specification's session
    memory, whose fourth rule, on refusals, needs the responses and is in `turnwise.sessions`. Breakers are not
    forgotten: they count over the whole conversation.

    Args:
        breakers: breakers at which the first rule is met, at least 1.
        bad: turns with F > 0.6 at which the second rule is met, at least 1.
        fall: mean fall of balance a turn at which the third rule is met, above 0.
        window: evaluated turns that the second and third rule look at, at least `bad` and 2.
        limit: score from which it fires, 1 by its definition; infinity never fires.

    Raises:
        DetectorError: a parameter is out of range.

    >>> from turnwise.scoring import Score
    >>> detector = BoundaryTesting()
    >>> state = detector.start()
    >>> for turn, F in enumerate((0.62, 0.1, 0.63, 0.1, 0.64), start=1):
    ...     signal = detector.update(state, TurnScores(turn, {"reciprocity": Score(T=0.5, I=0.2, F=F)}))
    >>> signal.reason
    'reciprocity boundary testing 1.000 ≥ 1.000 at turn 5'
    """

    name = "boundary_testing"
    label: ClassVar[str] = "boundary testing"

    breakers: int = 3
    bad: int = 3
    fall: float = 0.3
    window: int = 5
    limit: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "breakers", count(self.name, "breakers", self.breakers, 1))
        object.__setattr__(self, "bad", count(self.name, "bad", self.bad, 1))
        object.__setattr__(self, "fall", number(self.name, "fall", self.fall, 0.0, above=True))
        object.__setattr__(self, "window", count(self.name, "window", self.window, 2))
        object.__setattr__(self, "limit", number(self.name, "limit", self.limit, never=True))
        if self.window < self.bad:
            raise DetectorError(
                f"{self.name}: window={self.window} never holds bad={self.bad} turns; widen the window"
            )

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        """Take one more score into breakers, the last balance, its changes and the last marks of a principle."""
        broken, last, changes, marks = memory or (0, None, [], [])
        broken += trust_strength(score, scores.length) < 1.0
        now = round(balance(score, scores.length), _DIGITS)
        changes = [*changes, round(now - last, _DIGITS)][-self.window :] if last is not None else changes
        marks = [*marks, int(score.F > 0.6)][-self.window :]
        value = max(broken / self.breakers, sum(marks) / self.bad)
        if len(changes) >= _NEEDED_DELTAS:
            value = max(value, -sum(changes) / len(changes) / self.fall)
        return [broken, now, changes, marks], value
