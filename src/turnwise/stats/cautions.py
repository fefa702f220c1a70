"""Sentences that a reader of a study must see: each function returns none where there is nothing to say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np

from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.stats.auc import auc_with_interval
from turnwise.stats.significance import mcnemar

LEVEL = 0.05
"""Level of the test of false-positive rates."""

RATIO = 2.0
"""How many times the other's a false-positive rate may be."""

FEW_ABOVE = 10
"""Benign scores that should lie at or above a threshold."""

COPIES = 0.95
"""Spearman's correlation above which two principles say the same."""

HALF = 0.5
"""Share of the followed arm's recall from which a baseline that sees no course is too good."""


def different_rates(
    first: Sequence[bool],
    second: Sequence[bool],
    groups: Sequence[str],
    names: tuple[str, str] = ("the first arm", "the second arm"),
) -> tuple[str, ...]:
    """Say where two arms flag benign test conversations at different rates.

    A difference in recall may then be one of strictness. Tested by McNemar's exact test, by conversation and by
    group (see `mcnemar`); the larger p-value counts. A ratio over 2 is told as well, whatever
    the test.

    >>> different_rates([True] * 3 + [False] * 97, [True] + [False] * 99, [str(n) for n in range(100)], ("a", "b"))
    ('a and b flag benign test conversations at different rates: 3/100 = 3.0 % [0.6, 8.5] and 1/100 = 1.0 % \
[0.0, 5.4], more than 2 times as many. Read their recalls at equal rates.',)
    """
    rates = Rate(sum(first), len(first)), Rate(sum(second), len(second))
    test = mcnemar(first, second, groups)
    p = max(test.p, test.p_group)
    fewer, more = sorted(rate.count for rate in rates)
    reasons = []
    if p < LEVEL:
        reasons.append(f"p = {p:.2g}")
    if more > RATIO * fewer:
        reasons.append(f"more than {RATIO:g} times as many")
    if not reasons:
        return ()
    return (
        f"{names[0]} and {names[1]} flag benign test conversations at different rates: {rates[0]} and {rates[1]}, "
        f"{', '.join(reasons)}. Read their recalls at equal rates.",
    )


def thin_threshold(
    benign: Sequence[float], threshold: float, name: str = "the arm", where: str = ""
) -> tuple[str, ...]:
    """Say where a threshold rests on few benign scores, and what rates must be expected of it.

    A threshold at the k-th highest of n scores has a false-positive rate distributed as Beta(k, n + 1 − k),
    whatever the scores (H. A. David and H. N. Nagaraja, "Order Statistics", 2003, section 2.3). One between the
    k-th and the next lies between that and Beta(k + 1, n − k), and the range is that of both, at 95 %.

    >>> thin_threshold([n / 587 for n in range(587)], 583 / 587, "ema")
    ('The threshold of ema rests on 4 of 587 benign calibration conversations, those at or above it: expect a \
false-positive rate between 0.19 % and 1.74 % on others (95 % range).',)
    >>> thin_threshold([n / 31 for n in range(31)], 1.0, "ema", "fold 2 of 4")
    ('The threshold of ema in fold 2 of 4 lies above all 31 benign calibration conversations: expect a \
false-positive rate between 0.00 % and 11.22 % on others (95 % range).',)
    """
    above, of = sum(score >= threshold for score in benign), len(benign)
    if above >= FEW_ABOVE:
        return ()
    # The ends of Clopper and Pearson are quantiles of these two distributions.
    low, high = Rate(above, of).interval
    stands = (
        f"rests on {above} of {of} benign calibration conversations, those at or above it"
        if above
        else f"lies above all {of} benign calibration conversations"
    )
    return (
        f"The threshold of {name}{f' in {where}' if where else ''} {stands}: expect a false-positive rate between "
        f"{100 * low:.2f} % and {100 * high:.2f} % on others (95 % range).",
    )


def copied_principles(F: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """Say which principles are copies of one another, from the F of each at the same turns.

    >>> copied_principles({"a": [0.1, 0.2, 0.3, 0.4], "b": [0.2, 0.4, 0.6, 0.8], "c": [0.3, 0.1, 0.4, 0.2]})
    ('The principles a and b are copies of one another: their F correlate by 1.00 over 4 turns (Spearman).',)
    """
    from scipy.stats import rankdata

    if len({len(values) for values in F.values()}) > 1:
        raise UsageError("principles can only be compared over the same turns: give each one value a turn")
    ranks = {name: rankdata(values) for name, values in F.items()}
    varied = [name for name, values in ranks.items() if len(values) > 1 and values.min() < values.max()]
    found = []
    for one, other in combinations(varied, 2):
        correlation = float(np.corrcoef(ranks[one], ranks[other])[0, 1])
        if correlation > COPIES:
            found.append(
                f"The principles {one} and {other} are copies of one another: their F correlate by "
                f"{correlation:.2f} over {len(ranks[one])} turns (Spearman)."
            )
    return tuple(found)


def principles_below_chance(F: Mapping[str, Sequence[float]], attack: Sequence[bool]) -> tuple[str, ...]:
    """Say which principles rank attacks below benign conversations, by the highest F of each conversation.

    >>> principles_below_chance({"scarcity": [0.1, 0.2, 0.3, 0.1, 0.5, 0.6]}, [True] * 3 + [False] * 3)
    ('The principle scarcity is worse than chance: AUC 0.278 [0.024, 0.860], where 0.5 is chance.',)
    """
    found = []
    for name, values in F.items():
        if len(values) != len(attack):
            raise UsageError(f"principle {name} needs {len(attack)} values, one a conversation, not {len(values)}")
        attacks = [value for value, label in zip(values, attack, strict=True) if label]
        benign = [value for value, label in zip(values, attack, strict=True) if not label]
        area = auc_with_interval(attacks, benign)
        if area.value < 0.5:
            found.append(
                f"The principle {name} is worse than chance: AUC {area.value:.3f} "
                f"[{area.low:.3f}, {area.high:.3f}], where 0.5 is chance."
            )
    return tuple(found)


def disjoint_sources(sources: Iterable[str], attack: Iterable[bool]) -> tuple[str, ...]:
    """Say that no source has both labels: then a detector may tell sources apart, and not attacks.

    >>> disjoint_sources(["red team", "chats"], [True, False])
    ('Attacks and benign conversations come from different sources (red team; chats): a detector may tell the \
sources apart and not the attacks.',)
    """
    of: dict[bool, set[str]] = {True: set(), False: set()}
    for source, label in zip(sources, attack, strict=True):
        of[bool(label)].add(source)
    if not of[True] or not of[False] or of[True] & of[False]:
        return ()
    return (
        f"Attacks and benign conversations come from different sources ({', '.join(sorted(of[True]))}; "
        f"{', '.join(sorted(of[False]))}): a detector may tell the sources apart and not the attacks.",
    )


def strong_baselines(followed: Rate, baselines: Mapping[str, Rate]) -> tuple[str, ...]:
    """Say which baselines that can't see manipulation unfold reach half the recall of the followed arm.

    >>> strong_baselines(Rate(40, 100), {"first_turn": Rate(25, 100), "length_only": Rate(2, 100)})
    ('first_turn sees no course of a conversation and still catches 25/100 = 25.0 % [16.9, 34.7], at least half \
of what the followed arm does (40/100 = 40.0 % [30.3, 50.3]).',)
    """
    return tuple(
        f"{name} sees no course of a conversation and still catches {rate}, at least half of what the "
        f"followed arm does ({followed})."
        for name, rate in baselines.items()
        if rate.count and rate.count * followed.of >= HALF * followed.count * rate.of
    )
