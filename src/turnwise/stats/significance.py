"""P-values: the sign test, McNemar's, Fisher's, Mann and Whitney's, and Holm's correction of several.

Without a statistics library: the explorer makes them in a page, where only its own extra is installed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from turnwise.errors import UsageError
from turnwise.rates import Rate

_ALIKE = 1 + 1e-7
"""Two outcomes of an exact test whose chances differ by less are equally likely."""


def sign_test(more: int, less: int, *, greater: bool = False) -> float:
    """The exact p-value that of so many differences each falls to either side with probability 1/2.

    Two-sided, or with `greater` against more of them.

    >>> round(sign_test(1, 6), 3)
    0.125
    >>> sign_test(0, 0)
    1.0
    """
    trials = more + less
    k = np.arange(trials)
    chances = _chances((trials - k) / (k + 1))
    if greater:
        return min(1.0, float(chances[more:].sum()))
    return min(1.0, 2 * float(chances[: min(more, less) + 1].sum()))


def fisher_exact(first: Rate, second: Rate, *, greater: bool = False) -> float:
    """The p-value of Fisher's exact test that two proportions are the same.

    It adds the chances of all tables with these margins that are no likelier than the one there is, or with
    `greater`, against a higher first proportion, of those in which that is as high or higher. Source: R. A.
    Fisher, "On the interpretation of χ² from contingency tables, and the calculation of P", JRSS 85 (1922).

    >>> three, one = Rate(3, 4), Rate(1, 4)
    >>> round(fisher_exact(three, one), 4), round(fisher_exact(three, one, greater=True), 4)
    (0.4857, 0.2429)
    """
    counts = first.count + second.count
    low, high = max(0, counts - second.of), min(first.of, counts)
    k = np.arange(low, high)
    ratios = (first.of - k) * (counts - k) / ((k + 1.0) * (second.of - counts + k + 1))
    chances = _chances(ratios)
    if greater:
        return min(1.0, float(chances[first.count - low :].sum()))
    return min(1.0, float(chances[chances <= chances[first.count - low] * _ALIKE].sum()))


def rank_sum(first: Sequence[float] | NDArray[np.float64], second: Sequence[float] | NDArray[np.float64]) -> float:
    """The two-sided p-value that two samples are of one distribution, against one that lies higher.

    The normal approximation of U, corrected for ties and continuity, good from about ten values each; 1.0 where a
    sample is empty. Source: H. B. Mann and D. R. Whitney, "On a test of whether one of two random variables is
    stochastically larger than the other", Annals of Mathematical Statistics 18 (1947).

    >>> round(rank_sum([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]), 4)
    0.0122
    """
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
    logs = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    weights = np.exp(logs - logs.max())
    found: NDArray[np.float64] = weights / weights.sum()
    return found


@dataclass(frozen=True, slots=True)
class McNemar:
    """A test of two paired verdicts.

    Args:
        a_alone: conversations that the first alone flagged.
        b_alone: conversations that the second alone flagged.
        p: two-sided exact p-value; 1.0 where the two never differ.
        p_group: two-sided exact p-value with groups as the unit; equals `p` where every group has one
            conversation.
        pairs: conversations that both judged.
    """

    a_alone: int
    b_alone: int
    p: float
    p_group: float
    pairs: int


def mcnemar(first: Sequence[bool], second: Sequence[bool], groups: Sequence[str] | None = None) -> McNemar:
    """Test whether two detectors flag the same share of the same conversations.

    Under the null hypothesis a conversation on which they differ falls to either with probability 1/2, so the
    count is Binomial(b + c, 1/2). Source: Q. McNemar, "Note on the sampling error of the difference between
    correlated proportions or percentages", Psychometrika 12 (1947), in its exact form.

    Conversations of a group are not independent. `p_group` turns whole groups: each group's net difference
    keeps or changes its sign with probability 1/2, and the distribution of the sum is computed exactly. Source:
    E. J. G. Pitman, "Significance tests which may be applied to samples from any populations", JRSS Supplement
    4 (1937).

    Args:
        first: verdicts of one detector, one a conversation.
        second: verdicts of the other on the same conversations, in the same order.
        groups: the group of each conversation; each its own group by default.

    Raises:
        UsageError: the lengths differ.

    >>> test = mcnemar([False] * 6 + [True], [True] * 6 + [False])
    >>> test.a_alone, test.b_alone, round(test.p, 6)
    (1, 6, 0.125)
    >>> round(mcnemar([False] * 6, [True] * 6, ["x"] * 3 + ["y"] * 3).p_group, 6)
    0.5
    """
    if len(first) != len(second) or (groups is not None and len(groups) != len(first)):
        raise UsageError("paired verdicts need one of each detector, and one group, for every conversation")
    a_alone = sum(one and not other for one, other in zip(first, second, strict=True))
    b_alone = sum(other and not one for one, other in zip(first, second, strict=True))
    p = sign_test(a_alone, b_alone)
    if groups is None or len(set(groups)) == len(groups):
        return McNemar(a_alone, b_alone, p, p, len(first))
    net: dict[str, int] = {}
    for group, one, other in zip(groups, first, second, strict=True):
        net[group] = net.get(group, 0) + int(other) - int(one)
    return McNemar(a_alone, b_alone, p, sign_flip([*net.values()]), len(first))


def sign_flip(differences: Sequence[int]) -> float:
    """The two-sided exact p-value of a sum of whole numbers whose signs could each have been the other.

    That is the probability, over all choices of signs, of a sum at least as far from zero.

    >>> sign_flip([1, 1, 1, 1, 1, -1])
    0.21875
    >>> sign_flip([3, -3, 0])
    1.0
    """
    sizes = [abs(value) for value in differences if value]
    observed = abs(sum(differences))
    total = sum(sizes)
    chance = np.zeros(2 * total + 1)
    chance[total] = 1.0
    for size in sizes:
        chance = (np.roll(chance, size) + np.roll(chance, -size)) / 2
    far = np.abs(np.arange(-total, total + 1)) >= observed
    return min(1.0, float(chance[far].sum()))


T = TypeVar("T", bound=Any)  # a dataclass with p and p_holm


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return the adjusted p-values of a family of tests, in their given order.

    Rejecting what is below a level keeps the probability of any false rejection at or below that level, whatever
    the dependence between the tests. Source: S. Holm, "A simple sequentially rejective multiple test procedure",
    Scandinavian Journal of Statistics 6 (1979).

    Args:
        p_values: each in [0, 1].

    Raises:
        UsageError: a value outside [0, 1].

    >>> holm([0.01, 0.04, 0.03])
    (0.03, 0.06, 0.06)
    """
    for value in p_values:
        if not 0 <= value <= 1:
            raise UsageError(f"a p-value must lie in [0, 1], not {value}")
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return tuple(adjusted)


def holm_corrected(tests: Sequence[T]) -> tuple[T, ...]:
    """A family of tests with `p_holm`, Holm's correction of `p`, or of `p_group` where that is larger."""
    adjusted = holm([max(test.p, getattr(test, "p_group", test.p)) for test in tests])
    return tuple(replace(test, p_holm=p) for test, p in zip(tests, adjusted, strict=True))


def p_cell(p: float) -> str:
    """A p-value.

    >>> p_cell(0.04321), p_cell(3.2e-20), p_cell(1.0)
    ('0.043', '3.2e-20', '1.000')
    """
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"
