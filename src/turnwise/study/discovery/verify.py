"""Patterns that were chosen on one half, tested once on the other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.errors import UsageError
from turnwise.patterns import Evaluator, Expression
from turnwise.rates import Rate
from turnwise.study.discovery.single_turn import Gain, SingleTurnRule, gain_of, peaks_of
from turnwise.study.examples import Example
from turnwise.study.stats.paired import holm


@dataclass(frozen=True, slots=True)
class Counts:
    """What a pattern matches of some conversations.

    Args:
        attacks: attacks that it matches, with the exact interval.
        benign: benign conversations that it matches: false positives.
        at_first_turn: of the attacks that it matches, those that it matches at their first turn already.
    """

    attacks: Rate
    benign: Rate
    at_first_turn: int

    def above(self, max_fpr: float) -> bool:
        """Return whether the share of false positives is above a rate."""
        return self.benign.count > max_fpr * self.benign.of


@dataclass(frozen=True, slots=True)
class Tested:
    """A pattern with its test.

    Args:
        expression: the pattern.
        discovery: counts on the half that it was chosen on, which flatter it.
        held_out: counts on the other half.
        gain: what it adds on the held-out half to the best rule on single turns.
        p: the larger of two p-values on the held-out half: Fisher's exact test, one-sided (attacks match no more
            often than benign ones), and that of `gain`. Both must be refuted.
        p_holm: the same, corrected for the number of patterns tested.
        found: whether `p_holm` is below the level and the interval of `gain` lies above 0.
    """

    expression: Expression
    discovery: Counts
    held_out: Counts
    gain: Gain
    p: float
    p_holm: float
    found: bool


def count_matches(expression: Expression, examples: Sequence[Example]) -> Counts:
    """What a pattern matches at any turn, as a live guard would have seen it."""
    first = first_matches(expression, examples)
    attacks = [turn for example, turn in zip(examples, first, strict=True) if example.attack]
    benign = [turn for example, turn in zip(examples, first, strict=True) if not example.attack]
    return Counts(
        Rate(sum(turn is not None for turn in attacks), len(attacks)),
        Rate(sum(turn is not None for turn in benign), len(benign)),
        sum(turn == 1 for turn in attacks),
    )


def first_matches(expression: Expression, examples: Sequence[Example]) -> list[int | None]:
    """The first turn at which a pattern holds in each conversation, None where it never does."""
    evaluator = Evaluator(expression)
    return [
        next(
            (
                scores.turn
                for scores, value in zip(example.turns, evaluator.run(example.turns), strict=True)
                if value.holds
            ),
            None,
        )
        for example in examples
    ]


def verify(
    expressions: Sequence[Expression],
    discovery: Sequence[Example],
    held_out: Sequence[Example],
    rule: SingleTurnRule | None,
    *,
    level: float,
    seed: int,
) -> tuple[Tested, ...]:
    """The patterns with their tests on the held-out half, in the given order.

    Conversations of one group are not independent of each other, so Fisher's exact test takes one of each group
    and label. The counts are over all. Source: R. A. Fisher, "Statistical Methods for Research Workers", 1934;
    Holm's correction.
    """
    independent = one_of_each_group(held_out, seed)
    peaks = None if rule is None else peaks_of(rule.series, held_out)
    fired = [False] * len(held_out) if rule is None else _ever(rule.expression, held_out)
    gains = [
        gain_of(rule, fired, _ever(expression, held_out), peaks, held_out, seed) for expression in expressions
    ]
    p_values = [
        max(fisher(count_matches(expression, independent)), gain.p)
        for expression, gain in zip(expressions, gains, strict=True)
    ]
    return tuple(
        Tested(
            expression,
            count_matches(expression, discovery),
            count_matches(expression, held_out),
            gain,
            p,
            adjusted,
            adjusted < level and gain.shown,
        )
        for expression, gain, p, adjusted in zip(expressions, gains, p_values, holm(p_values), strict=True)
    )


def _ever(expression: Expression, examples: Sequence[Example]) -> list[bool]:
    return [turn is not None for turn in first_matches(expression, examples)]


def fisher(counts: Counts) -> float:
    """The p-value of Fisher's exact test, one-sided: attacks match no more often than benign ones.

    >>> round(fisher(Counts(Rate(3, 4), Rate(1, 4), 0)), 4)
    0.2429
    """
    try:
        from scipy.stats import fisher_exact
    except ImportError as error:
        raise UsageError('the tests need scipy: pip install "turnwise[study]"') from error
    table = [[rate.count, rate.of - rate.count] for rate in (counts.attacks, counts.benign)]
    return float(fisher_exact(table, alternative="greater").pvalue)


def one_of_each_group(examples: Sequence[Example], seed: int) -> list[Example]:
    """One conversation of each group and label, chosen by a hash of seed and id."""

    def order(example: Example) -> bytes:
        return hashlib.sha256(f"{seed}:{example.sequence_id}".encode()).digest()

    first: dict[tuple[str, bool], Example] = {}
    for example in sorted(examples, key=order):
        first.setdefault((example.group, example.attack), example)
    return list(first.values())
