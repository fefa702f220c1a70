"""``slope``: F that rises over the turns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from turnwise.detectors.kit.base import FIRED_AT, Limited, count, judge, number, silence
from turnwise.detectors.kit.protocol import Signal, State
from turnwise.errors import DetectorError
from turnwise.scoring import TurnScores

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

    >>> from turnwise.scoring import Score
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
        object.__setattr__(self, "limit", number(self.name, "limit", self.limit, never=True))
        object.__setattr__(self, "min_turns", count(self.name, "min_turns", self.min_turns, 2))
        if self.window is None:
            return
        object.__setattr__(self, "window", count(self.name, "window", self.window, 2))
        if self.window < self.min_turns:
            raise DetectorError(
                f"{self.name}: window={self.window} never holds min_turns={self.min_turns} turns; "
                "widen the window or lower min_turns"
            )

    def start(self) -> State:
        """Return the state before the first turn."""
        return {FIRED_AT: None, _SUMS if self.window is None else _POINTS: {}, _SLOPES: {}}

    def update(self, state: State, scores: TurnScores) -> Signal:
        """Take the scores of the next turn into the state and return the signal after it."""
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
        return extended(NO_POINTS, points)


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


def extended(sums: Sequence[float], points: Iterable[Sequence[float]]) -> Sequence[float]:
    """The sums with some (turn, F) points more.

    >>> extended(NO_POINTS, [(1, 0.0), (2, 0.5), (3, 1.0)])
    [3, 2.0, 0.5, 2.0, 1.0]
    """
    for turn, F in points:
        sums = added(sums, int(turn), F)
    return sums
