"""Least-squares sums that grow point by point."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NO_POINTS: Sequence[float] = (0, 0.0, 0.0, 0.0, 0.0)
"""Count, mean of t, mean of F, Σ(t - mean t)² and Σ(t - mean t)(F - mean F) of no points."""


def added(sums: Sequence[float], turn: int, F: float) -> list[float]:
    """Return the sums with one point more.

    Source: B. P. Welford, "Note on a method for calculating corrected sums of squares and products",
    Technometrics 4 (1962), which stays exact over long conversations.

    Args:
        sums: as `NO_POINTS` names them.
        turn: number of the turn.
        F: its falsity.

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
    """Return the sums with some (turn, F) points more.

    >>> extended(NO_POINTS, [(1, 0.0), (2, 0.5), (3, 1.0)])
    [3, 2.0, 0.5, 2.0, 1.0]
    """
    for turn, F in points:
        sums = added(sums, int(turn), F)
    return sums
