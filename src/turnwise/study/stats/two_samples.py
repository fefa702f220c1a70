"""Exact and rank tests of counts and of two independent samples, without a statistics library.

The explorer makes them in a page, where only its own extra is installed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from turnwise.rates import Rate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ALIKE = 1 + 1e-7
"""Two outcomes of an exact test whose chances differ by less are equally likely."""


def sign_test(more: int, less: int) -> float:
    """The two-sided exact p-value that of so many differences each falls to either side with probability 1/2.

    >>> round(sign_test(1, 6), 3)
    0.125
    >>> sign_test(0, 0)
    1.0
    """
    import numpy as np

    trials = more + less
    k = np.arange(trials)
    return min(1.0, 2 * float(_chances((trials - k) / (k + 1))[: min(more, less) + 1].sum()))


def fisher_exact(first: Rate, second: Rate) -> float:
    """The two-sided p-value of Fisher's exact test that two proportions are the same.

    It adds the chances of all tables with these margins that are no likelier than the one there is. Source: R. A.
    Fisher, "On the interpretation of χ² from contingency tables, and the calculation of P", JRSS 85 (1922).

    >>> round(fisher_exact(Rate(3, 4), Rate(1, 4)), 4)
    0.4857
    """
    import numpy as np

    counts = first.count + second.count
    low, high = max(0, counts - second.of), min(first.of, counts)
    k = np.arange(low, high)
    ratios = (first.of - k) * (counts - k) / ((k + 1.0) * (second.of - counts + k + 1))
    chances = _chances(ratios)
    return min(1.0, float(chances[chances <= chances[first.count - low] * _ALIKE].sum()))


def rank_sum(first: Sequence[float] | NDArray[np.float64], second: Sequence[float] | NDArray[np.float64]) -> float:
    """The two-sided p-value that two samples are of one distribution, against one that lies higher.

    The normal approximation of U, corrected for ties and continuity, good from about ten values each; 1.0 where a
    sample is empty. Source: H. B. Mann and D. R. Whitney, "On a test of whether one of two random variables is
    stochastically larger than the other", Annals of Mathematical Statistics 18 (1947).

    >>> round(rank_sum([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]), 4)
    0.0122
    """
    import numpy as np

    n, m = len(first), len(second)
    if not (n and m):
        return 1.0
    _, place, counts = np.unique(np.concatenate([first, second]), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    U = float(ranks[:n].sum()) - n * (n + 1) / 2
    of = n + m
    ties = float((counts.astype(float) ** 3 - counts).sum()) / (of * (of - 1))
    variance = n * m / 12 * (of + 1 - ties)
    if variance <= 0:
        return 1.0
    z = max(0.0, abs(U - n * m / 2) - 0.5) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


def _chances(ratios: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probabilities of outcomes, from the ratio of each to the one before it."""
    import numpy as np

    logs = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    weights = np.exp(logs - logs.max())
    found: NDArray[np.float64] = weights / weights.sum()
    return found
