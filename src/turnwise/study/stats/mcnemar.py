"""McNemar's test of two detectors on the same conversations, exact, and by groups of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.errors import UsageError
from turnwise.study.stats.two_samples import sign_test


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
    import numpy as np

    sizes = [abs(value) for value in differences if value]
    observed = abs(sum(differences))
    total = sum(sizes)
    chance = np.zeros(2 * total + 1)
    chance[total] = 1.0
    for size in sizes:
        chance = (np.roll(chance, size) + np.roll(chance, -size)) / 2
    far = np.abs(np.arange(-total, total + 1)) >= observed
    return min(1.0, float(chance[far].sum()))
