"""Patterns that were chosen on one half, tested once on the other, beside the best rule on single turns."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from turnwise.patterns import Evaluator, Expression
from turnwise.patterns.series import Series
from turnwise.rates import Rate
from turnwise.stats import Interval, ResampleWeights, holm, interval, resamples
from turnwise.stats.examples import Example
from turnwise.stats.significance import fisher_exact, sign_test
from turnwise.study.discovery.quantities import values_of

_DECIMALS = 4
_REPLICATES = 1000


@dataclass(frozen=True, slots=True)
class SingleTurnRule:
    """Fires where F of one principle, or the highest of all, is above a limit at any turn.

    Args:
        series: what it reads.
        limit: above which it fires, in [0, 1].
    """

    series: Series
    limit: float

    @property
    def expression(self) -> Expression:
        """The rule as a pattern."""
        return self.series > self.limit


def best_rule(read: Sequence[Series], examples: Sequence[Example], most_benign: int) -> SingleTurnRule | None:
    """The rule on F that catches most attacks within a number of flagged benign ones; None where none does."""
    attack = [example.attack for example in examples]
    best: tuple[int, SingleTurnRule] | None = None
    for series in read:
        if series.component != "F":
            continue
        peaks = peaks_of(series, examples).tolist()
        benign = sorted((peak for peak, label in zip(peaks, attack, strict=True) if not label), reverse=True)
        highest_cleared = max(0.0, benign[most_benign]) if most_benign < len(benign) else 0.0
        limit = math.ceil(highest_cleared * 10**_DECIMALS - 1e-6) / 10**_DECIMALS
        caught = sum(peak > limit for peak, label in zip(peaks, attack, strict=True) if label)
        if caught and (best is None or caught > best[0]):
            best = caught, SingleTurnRule(series, limit)
    return best and best[1]


def peaks_of(series: Series, examples: Sequence[Example]) -> NDArray[np.float64]:
    """The highest value of a series in each conversation; minus infinity where it has none."""
    table = values_of([series], examples)
    peaks: NDArray[np.float64] = np.fmax.reduceat(table.columns[0], table.starts)
    return np.where(np.isnan(peaks), -np.inf, peaks)


@dataclass(frozen=True, slots=True)
class PatternGain:
    """What a pattern adds to the best rule on single turns, on held-out conversations.

    Args:
        together: attacks that the rule or the pattern matches.
        alone: attacks that the rule matches with its limit lowered until it flags as many benign conversations as
            the two together.
        benign: benign conversations that the two together match.
        recall: `together` less `alone` as shares, with the percentile interval of the paired cluster bootstrap, in
            which the limit is set anew in each resample.
        p: of the exact sign test over groups, one-sided: the two catch no more than the rule at the same rate.
    """

    together: Rate
    alone: Rate
    benign: Rate
    recall: Interval
    p: float

    @property
    def shown(self) -> bool:
        """Whether the interval lies above 0."""
        return self.recall.low > 0


def gain_of(
    rule: SingleTurnRule | None,
    fired: Sequence[bool],
    matched: Sequence[bool],
    peaks: NDArray[np.float64] | None,
    examples: Sequence[Example],
    seed: int,
) -> PatternGain:
    """What a pattern adds to a rule at the same rate of false positives; no rule at all catches nothing."""
    # `fired` is by the rule at its own limit, `peaks` are the highest values of what it reads. Sources: B. Efron
    # and R. J. Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 8; W. J. Dixon and A. M. Mood, "The
    # statistical sign test", JASA 41 (1946).
    attack = np.array([example.attack for example in examples], dtype=bool)
    either = np.array(fired, dtype=bool) | np.array(matched, dtype=bool)
    values = np.full(len(examples), -np.inf) if rule is None or peaks is None else peaks

    def caught_alone(weights: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether the rule catches each attack at the rate of the two; shape (resamples, attacks)."""
        order = np.argsort(-values[~attack], kind="stable")
        ranked = np.append(values[~attack][order], -np.inf)
        counts = weights[:, ~attack][:, order]
        total = counts.cumsum(axis=1)
        allowed = (counts * either[~attack][order]).sum(axis=1, keepdims=True)
        cleared = np.where(
            (total > allowed + 1e-9).any(axis=1), (total > allowed + 1e-9).argmax(axis=1), len(order)
        )
        flagged = np.where(allowed[:, 0] > 0, (total >= allowed - 1e-9).argmax(axis=1), len(order))
        least = np.where(allowed[:, 0] > 0, ranked[flagged], np.inf)
        peak = values[attack][None]
        caught: NDArray[np.bool_] = (peak > ranked[cleared][:, None]) | (peak >= least[:, None])
        caught &= np.isfinite(peak)
        return caught

    def difference(weights: ResampleWeights) -> NDArray[np.float64]:
        each = weights.each()
        more = either[attack][None].astype(float) - caught_alone(each)
        found: NDArray[np.float64] = (each[:, attack] * more).sum(axis=1) / each[:, attack].sum(axis=1)
        return found

    groups = [example.group for example in examples]
    drawn = resamples(groups, attack.tolist(), np.random.default_rng(seed), _REPLICATES)
    alone = caught_alone(np.ones((1, len(examples))))[0]
    together = either[attack]
    by_group: dict[str, int] = {}
    attacked = [group for group, label in zip(groups, attack, strict=True) if label]
    for group, more in zip(attacked, together.astype(int) - alone, strict=True):
        by_group[group] = by_group.get(group, 0) + int(more)
    return PatternGain(
        Rate(int(together.sum()), len(together)),
        Rate(int(alone.sum()), len(alone)),
        Rate(int(either[~attack].sum()), int((~attack).sum())),
        interval(difference, drawn),
        sign_test(
            sum(more > 0 for more in by_group.values()), sum(more < 0 for more in by_group.values()), greater=True
        ),
    )


@dataclass(frozen=True, slots=True)
class MatchCounts:
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
    discovery: MatchCounts
    held_out: MatchCounts
    gain: PatternGain
    p: float
    p_holm: float
    found: bool


def count_matches(expression: Expression, examples: Sequence[Example]) -> MatchCounts:
    """What a pattern matches at any turn, as a live guard would have seen it."""
    first = first_matches(expression, examples)
    attacks = [turn for example, turn in zip(examples, first, strict=True) if example.attack]
    benign = [turn for example, turn in zip(examples, first, strict=True) if not example.attack]
    return MatchCounts(
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
    """The patterns with their tests on the held-out half, in the given order."""
    # Fisher's exact test (R. A. Fisher, 1934) takes one conversation of each group and label, since those of a
    # group are not independent. The counts are over all.
    independent = one_of_each_group(held_out, seed)
    peaks = None if rule is None else peaks_of(rule.series, held_out)
    fired = [False] * len(held_out) if rule is None else _ever(rule.expression, held_out)
    gains = [
        gain_of(rule, fired, _ever(expression, held_out), peaks, held_out, seed) for expression in expressions
    ]
    alone = [count_matches(expression, independent) for expression in expressions]
    p_values = [
        max(fisher_exact(counts.attacks, counts.benign, greater=True), gain.p)
        for counts, gain in zip(alone, gains, strict=True)
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


def one_of_each_group(examples: Sequence[Example], seed: int) -> list[Example]:
    """One conversation of each group and label, chosen by a hash of seed and id."""

    def order(example: Example) -> bytes:
        return hashlib.sha256(f"{seed}:{example.sequence_id}".encode()).digest()

    first: dict[tuple[str, bool], Example] = {}
    for example in sorted(examples, key=order):
        first.setdefault((example.group, example.attack), example)
    return list(first.values())
