"""Tests of two detectors on the same conversations, and bounds for missing evaluations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.study.stats.judged_conversations import Judged


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
    from scipy.stats import binomtest

    a_alone = sum(one and not other for one, other in zip(first, second, strict=True))
    b_alone = sum(other and not one for one, other in zip(first, second, strict=True))
    differing = a_alone + b_alone
    p = float(binomtest(min(a_alone, b_alone), differing, 0.5).pvalue) if differing else 1.0
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


LIMIT = 0.05
"""Share of missing conversations beyond which a report opens with a warning."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """A rate on what was evaluated, and over all, had none or had every one of the missing been flagged."""

    evaluated: Rate
    none_flagged: Rate
    all_flagged: Rate


@dataclass(frozen=True, slots=True)
class Missing:
    """How much is missing, and what it could change.

    `attacks` and `benign` are shares of conversations of which nothing was evaluated, `turns` is the share of
    turns. `warning` is what to say first of all; it is empty where at most 5 % are missing.
    """

    attacks: Rate
    benign: Rate
    turns: Rate
    recall: Bounds
    fpr: Bounds
    warning: str


@dataclass(frozen=True, slots=True)
class PairedBounds:
    """A paired test on what both evaluated, and what the missing verdicts could make of it.

    `against_second` counts every missing verdict of the first as a flag and none of the second, `for_second` the
    other way round.
    """

    complete: McNemar
    against_second: McNemar
    for_second: McNemar


def missing_bounds(judged: Iterable[Judged]) -> Missing:
    """What is missing, and the bounds that hold whatever the reason.

    Source: C. F. Manski, "Partial Identification of Probability Distributions", 2003, whose worst-case bounds
    these are: they assume nothing about why a conversation is missing. A conversation of which some turns are
    missing is judged by the others; the share of such turns is given beside.

    >>> judged = [Judged(f"a{n}", "g", True, 4, 0.9, fired=True, turn=2) for n in range(9)]
    >>> found = missing_bounds([*judged, Judged("a9", "g", True, 4, None, missing_turns=4)])
    >>> str(found.recall.none_flagged), str(found.recall.all_flagged)
    ('9/10 = 90.0 % [55.5, 99.7]', '10/10 = 100.0 % [69.2, 100.0]')
    >>> found.warning
    '1 of 10 conversations (10.0 %) were not evaluated: read the bounds, not the rates alone'
    """
    given = list(judged)
    attacks, benign = ([one for one in given if one.attack is label] for label in (True, False))
    absent = sum(not one.evaluated for one in given)
    warning = ""
    if given and absent / len(given) > LIMIT:
        warning = (
            f"{absent} of {len(given)} conversations ({100 * absent / len(given):.1f} %) were not evaluated: "
            "read the bounds, not the rates alone"
        )
    return Missing(
        attacks=_absent(attacks),
        benign=_absent(benign),
        turns=Rate(sum(one.missing_turns for one in given), sum(one.turns for one in given)),
        recall=_bounds(attacks),
        fpr=_bounds(benign),
        warning=warning,
    )


def paired_bounds(first: Sequence[Judged], second: Sequence[Judged], attack: bool = True) -> PairedBounds:
    """McNemar's test on what both arms evaluated, and with missing verdicts counted either way.

    If the conclusion is the same in all three, missing evaluations can't have made it.
    """
    ones = {one.sequence_id: one for one in first if one.attack is attack}
    others = {one.sequence_id: one for one in second if one.attack is attack}
    if ones.keys() != others.keys():
        raise UsageError("bounds need the same conversations in both arms, missing ones included")
    pairs = [(ones[name], others[name]) for name in ones]

    def test(of_first: bool, of_second: bool) -> McNemar:
        return mcnemar(
            [one.fired if one.evaluated else of_first for one, _ in pairs],
            [other.fired if other.evaluated else of_second for _, other in pairs],
            [one.group for one, _ in pairs],
        )

    both = [(one, other) for one, other in pairs if one.evaluated and other.evaluated]
    complete = mcnemar(
        [one.fired for one, _ in both], [other.fired for _, other in both], [one.group for one, _ in both]
    )
    return PairedBounds(complete, test(True, False), test(False, True))


def _absent(judged: Sequence[Judged]) -> Rate:
    return Rate(sum(not one.evaluated for one in judged), len(judged))


def _bounds(judged: Sequence[Judged]) -> Bounds:
    known = [one for one in judged if one.evaluated]
    flagged, absent = sum(one.fired for one in known), len(judged) - len(known)
    return Bounds(
        evaluated=Rate(flagged, len(known)),
        none_flagged=Rate(flagged, len(judged)),
        all_flagged=Rate(flagged + absent, len(judged)),
    )
