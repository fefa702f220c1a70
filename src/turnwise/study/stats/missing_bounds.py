"""Bounds for missing evaluations, of rates and of a paired test, whatever the missing verdicts were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.study.stats.judged_conversations import Judged
from turnwise.study.stats.mcnemar import McNemar, mcnemar

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
