"""Where F is heading: its slope over the turns, its moving average, and the trust that it earns or loses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from turnwise.detectors.base import (
    FIRED_AT,
    ByPrinciple,
    Limited,
    check_count,
    check_number,
    judge,
    latch,
    number,
    silence,
    strongest,
)
from turnwise.detectors.protocol import Signal, State
from turnwise.errors import DetectorError
from turnwise.scoring import Score, TurnScores, trust_strength

NO_POINTS: Sequence[float] = (0, 0.0, 0.0, 0.0, 0.0)
"""Count, mean of t, mean of F, Σ(t - mean t)² and Σ(t - mean t)(F - mean F) of no points."""

_SUMS = "sums"
_POINTS = "points"
_SLOPES = "slopes"
_DIGITS = 9
"""Decimals of F that a window keeps, so that the state stays small."""


@dataclass(frozen=True, slots=True)
class Slope(Limited):
    """Fires when F rises fast enough over the turns.

    slope = Σ(t - mean t)(F - mean F) / Σ(t - mean t)², the least-squares slope of F over turn numbers t, for
    each principle on its own over its evaluated turns; score = max over principles. The sums are updated turn
    by turn as in B. P. Welford, "Note on a method for calculating corrected sums of squares and products",
    Technometrics 4 (1962), which keeps them exact over long conversations. With a window the cost of a turn
    grows with the window, never with the conversation.

    Args:
        limit: rise of F a turn from which it fires; infinity never fires.
        window: how many evaluated turns count, the last ones; None for all turns so far.
        min_turns: evaluated turns that a principle needs to have a slope, at least 2; while none has one, the
            score is 0.0.

    Raises:
        DetectorError: a parameter is out of range, or the window shorter than `min_turns`.

    >>> detector = Slope(limit=0.1)
    >>> state = detector.start()
    >>> for turn, F in enumerate((0.0, 0.25, 0.5), start=1):
    ...     signal = detector.update(state, TurnScores(turn, {"reciprocity": Score(T=0.5, I=0.2, F=F)}))
    >>> signal.reason
    'reciprocity slope of F 0.250 ≥ 0.100 at turn 3'
    """

    name = "slope"

    limit: float = 0.1
    window: int | None = None
    min_turns: int = 3

    def __post_init__(self) -> None:
        check_number(self, "limit", never=True)
        check_count(self, "min_turns", 2)
        if self.window is None:
            return
        check_count(self, "window", 2)
        if self.window < self.min_turns:
            raise DetectorError(
                f"{self.name}: window={self.window} never holds min_turns={self.min_turns} turns; "
                "widen the window or lower min_turns"
            )

    def start(self) -> State:
        return {FIRED_AT: None, _SUMS if self.window is None else _POINTS: {}, _SLOPES: {}}

    def update(self, state: State, scores: TurnScores) -> Signal:
        slopes: dict[str, float] = state[_SLOPES]
        for principle, score in scores.scores.items():
            sums = self._add(state, principle, scores.turn, score.F)
            if sums[0] >= self.min_turns and sums[3] > 0.0:
                slopes[principle] = sums[4] / sums[3]
        if not slopes:
            return silence(state, scores.turn, f"no principle was evaluated at {self.min_turns} turns")
        return judge(state, scores.turn, dict(slopes), "slope of F", self.limit)

    def _add(self, state: State, principle: str, turn: int, F: float) -> Sequence[float]:
        """Take one point into the state of a principle and return the sums over the points that count."""
        if self.window is None:
            table: dict[str, list[float]] = state[_SUMS]
            sums = added(table.get(principle, NO_POINTS), turn, F)
            table[principle] = sums
            return sums
        points: list[list[float]] = state[_POINTS].setdefault(principle, [])
        points.append([turn, round(F, _DIGITS)])
        del points[: -self.window]
        sums_of_window = NO_POINTS
        for at, value in points:
            sums_of_window = added(sums_of_window, int(at), value)
        return sums_of_window


def added(sums: Sequence[float], turn: int, F: float) -> list[float]:
    """The sums of `NO_POINTS` with one point more; as by Welford (see `Slope`), exact over long conversations.

    >>> added(added(NO_POINTS, 1, 0.0), 3, 1.0)
    [2, 2.0, 0.5, 2.0, 1.0]
    """
    n, mean_t, mean_F, tt, tF = sums
    n += 1
    from_mean = turn - mean_t
    mean_t += from_mean / n
    mean_F += (F - mean_F) / n
    moved = turn - mean_t
    return [n, mean_t, mean_F, tt + from_mean * moved, tF + from_mean * (F - mean_F)]


@dataclass(frozen=True, slots=True)
class FEma(ByPrinciple):
    """Fires when the moving average of F is high, or rises fast from one evaluated turn to the next.

    ema_k = alpha · F_k + (1 - alpha) · ema_{k-1} with ema_1 = F_1, for each principle on its own over its
    evaluated turns; score = max over principles of max(ema_k / level, (ema_k - ema_{k-1}) / slope_limit): how
    much of the nearer of the two limits is used up. Source: the average is that of S. W. Roberts, "Control chart
    tests based on geometric moving averages", Technometrics 1 (1959).

    An average never exceeds the highest value that went in: with `slope_limit` infinite it can't catch what
    `any_turn` misses at the same threshold, only be steadier.

    Args:
        alpha: weight of the present turn, in (0, 1].
        level: average at which it fires, above 0; infinity leaves the level out.
        slope_limit: rise of the average a turn at which it fires, above 0; infinity leaves the rise out.
        limit: score from which it fires, 1 by its definition; infinity never fires.

    Raises:
        DetectorError: a parameter is out of range, or both limits are infinite.

    >>> detector = FEma(alpha=0.5, slope_limit=0.2)
    >>> state = detector.start()
    >>> for turn, F in ((1, 0.1), (2, 0.2), (3, 0.6)):
    ...     signal = detector.update(state, TurnScores(turn, {"reciprocity": Score(T=0.5, I=0.2, F=F)}))
    >>> signal.reason
    'reciprocity EMA of F against its limits 1.125 ≥ 1.000 at turn 3'
    """

    name = "f_ema"
    label: ClassVar[str] = "EMA of F against its limits"

    alpha: float = 0.3
    level: float = 0.5
    slope_limit: float = 0.15
    limit: float = 1.0

    def __post_init__(self) -> None:
        check_number(self, "alpha", 0.0, 1.0, above=True)
        check_number(self, "level", 0.0, above=True, never=True)
        check_number(self, "slope_limit", 0.0, above=True, never=True)
        check_number(self, "limit", never=True)
        if math.isinf(self.level) and math.isinf(self.slope_limit):
            raise DetectorError(f"{self.name}: level and slope_limit are both infinite; set one of them")

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        if memory is None:
            return score.F, score.F / self.level
        average = self.alpha * score.F + (1.0 - self.alpha) * memory
        return average, max(average / self.level, (average - memory) / self.slope_limit)


_TRUST = "trust"


@dataclass(frozen=True, slots=True)
class TrustEma:
    """Fires when trust, an exponential moving average, falls below a limit.

    trust_k = alpha · strength_k + (1 - alpha) · trust_{k-1} with trust_0 = initial, for each principle on its
    own over its evaluated turns; strength is `turnwise.scoring.trust_strength`; score = 1 - min over
    principles of trust. `initial` alone never fires: trust is judged once a turn was evaluated. Source: the
    specification's session memory; the average is that of S. W. Roberts, "Control chart tests based on
    geometric moving averages", Technometrics 1 (1959).

    Args:
        alpha: weight of the present turn, in (0, 1].
        initial: trust before the first turn, in [0, 1].
        limit: trust below which it fires, in [0, 1]; at 0 it never fires.

    >>> detector = TrustEma()
    >>> state = detector.start()
    >>> for turn, F in enumerate((0.1, 0.9, 0.9), start=1):
    ...     signal = detector.update(state, TurnScores(turn, {"reciprocity": Score(T=0.5, I=0.2, F=F)}))
    ...     print(signal.reason)
    reciprocity trust 0.650 ≥ 0.600 at turn 1
    reciprocity trust 0.545 < 0.600 at turn 2
    reciprocity trust 0.471 < 0.600 at turn 3
    """

    name = "trust_ema"

    alpha: float = 0.3
    initial: float = 0.5
    limit: float = 0.60

    def __post_init__(self) -> None:
        check_number(self, "alpha", 0.0, 1.0, above=True)
        check_number(self, "initial", 0.0, 1.0)
        check_number(self, "limit", 0.0, 1.0)

    @property
    def threshold(self) -> float:
        """Score above which it fires: 1 - limit."""
        return 1.0 - self.limit

    def with_threshold(self, value: float) -> Self:
        return replace(self, limit=1.0 - min(number(self.name, "threshold", value, 0.0, never=True), 1.0))

    def start(self) -> State:
        return {FIRED_AT: None, _TRUST: {}}

    def update(self, state: State, scores: TurnScores) -> Signal:
        trusts: dict[str, float] = state[_TRUST]
        for principle, score in scores.scores.items():
            strength = trust_strength(score, scores.length)
            trusts[principle] = self.alpha * strength + (1.0 - self.alpha) * trusts.get(principle, self.initial)
        if not trusts:
            return silence(state, scores.turn)
        distrusts = {principle: 1.0 - trust for principle, trust in trusts.items()}
        principle, distrust = strongest(distrusts)
        trust = trusts[principle]
        # Trust itself is compared: 1 - trust and 1 - limit are rounded, and may disagree at the limit.
        active = min(trusts.values()) < self.limit
        sign = "<" if active else "≥"
        reason = f"{principle} trust {trust:.3f} {sign} {self.limit:.3f} at turn {scores.turn}"
        return latch(state, scores.turn, distrust, active=active, contributions=distrusts, reason=reason)
