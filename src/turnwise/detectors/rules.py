"""Rules of the specification over all turns so far: peaks that add up, and limits that are tried again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from turnwise.detectors.base import ByPrinciple, check_count, check_number
from turnwise.errors import DetectorError
from turnwise.scoring import Score, TurnScores, balance, trust_strength

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
        check_number(self, "limit", never=True)
        check_number(self, "share", 0.0)
        check_number(self, "rise", 0.0)
        check_number(self, "positive", 0.0, 1.0)

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        n, positives, peak, last, rising = memory or (0, 0, 0.0, 0.0, 0)
        rising = rising + 1 if n and score.F - last > 0.0 else 1
        n += 1
        positives += self.positive <= score.F
        peak = max(peak, score.F)
        value = peak + self.share * positives / n + (self.rise if rising >= _RISING else 0.0)
        return [n, positives, peak, score.F, rising], value


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
        check_count(self, "breakers", 1)
        check_count(self, "bad", 1)
        check_number(self, "fall", 0.0, above=True)
        check_count(self, "window", 2)
        check_number(self, "limit", never=True)
        if self.window < self.bad:
            raise DetectorError(
                f"{self.name}: window={self.window} never holds bad={self.bad} turns; widen the window"
            )

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        broken, last, changes, marks = memory or (0, None, [], [])
        broken += trust_strength(score, scores.length) < 1.0
        now = round(balance(score, scores.length), _DIGITS)
        changes = [*changes, round(now - last, _DIGITS)][-self.window :] if last is not None else changes
        marks = [*marks, int(score.F > 0.6)][-self.window :]
        value = max(broken / self.breakers, sum(marks) / self.bad)
        if len(changes) >= _NEEDED_DELTAS:
            value = max(value, -sum(changes) / len(changes) / self.fall)
        return [broken, now, changes, marks], value
