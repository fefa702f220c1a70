"""Least-squares sums that grow point by point."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NO_POINTS: Sequence[float] = (0, 0.0, 0.0, 0.0, 0.0)
"""Count, mean of t, mean of F, Σ(t - mean t)² and Σ(t - mean t)(F - mean F) of no points."""


def extended(sums: Sequence[float], points: Iterable[Sequence[float]]) -> list[float]:
    """Return the sums with some points more.

    Source: B. P. Welford, "Note on a method for calculating corrected sums of squares and products", Technometrics
    4 (1962), which stays exact over long conversations.

    Args:
        sums: as `NO_POINTS` names them.
        points: (turn, F) pairs.

    >>> extended(NO_POINTS, [(1, 0.0), (2, 0.5), (3, 1.0)])
    [3, 2.0, 0.5, 2.0, 1.0]
    """
    n, mean_t, mean_F, tt, tF = sums
    for turn, F in points:
        n += 1
        from_mean = turn - mean_t
        mean_t += from_mean / n
        mean_F += (F - mean_F) / n
        tt += from_mean * (turn - mean_t)
        tF += from_mean * (F - mean_F)
    return [n, mean_t, mean_F, tt, tF]
