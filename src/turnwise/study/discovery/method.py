"""Patterns that nobody wrote down: searched on one half of the groups, tested on the other, written as a file."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from turnwise.errors import UsageError
from turnwise.patterns import Expression
from turnwise.patterns.series import Series
from turnwise.stats.examples import Example, split_by_group
from turnwise.study.discovery.beam_search import Goal, Search, Tell, choose_patterns
from turnwise.study.discovery.conditions import BitLayout, Pool, conditions_of, usual_values
from turnwise.study.discovery.quantities import (
    Quantity,
    evaluated_turns,
    first_turn_quantities,
    length_quantities,
    quantities,
    series_in,
    values_of,
)
from turnwise.study.discovery.verify import (
    MatchCounts,
    PatternGain,
    Tested,
    best_rule,
    count_matches,
    peaks_of,
    verify,
)

SINGLE_TURN = "single turn"
"""Name of the baseline that a pattern has to add to."""

HALVES = {"discovery": 0.5, "held out": 0.5}

PARTS = {"searched": 0.6, "sifting": 0.4}
"""Parts of the discovery half: limits and conjunctions are looked for on the first; the other weeds out those that
only fit the first by chance."""

MOST_PATTERNS = 10
"""Patterns that are tested, at most: each further one makes the correction harder on all."""

LEAST_SHARE = 0.05
"""Share of the attacks that a pattern has to match on the discovery half, and that each further one has to add."""

MARGIN = 0.02
"""Share of the attacks that a simpler pattern may miss and still be preferred."""

MOST_TURNS = 40_000
"""Evaluated turns that the search looks at; of more data it takes a part, chosen by a hash. Bounds the memory."""

_FEWEST = 10
"""Conversations of each label that each half needs."""


@dataclass(frozen=True, slots=True)
class HalfSize:
    """Size of one half of the data: conversations of each label, and the groups that they belong to."""

    attacks: int
    benign: int
    groups: int


@dataclass(frozen=True, slots=True)
class Baseline:
    """The best that can be done without looking at how a conversation unfolds.

    Args:
        name: what it looks at.
        expression: the best single comparison, chosen like a pattern; None where none stays within the rate.
        discovery: counts on the discovery half.
        held_out: counts on the other half.
    """

    name: str
    expression: Expression | None
    discovery: MatchCounts | None
    held_out: MatchCounts | None


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a search came to.

    Args:
        patterns: every pattern that was tested, those that were confirmed first.
        baselines: what single turns, the length and the first turn alone give away.
        discovery: size of the half that was searched.
        held_out: size of the half that was tested on.
        searched: conversations of the discovery half that the search looked at.
        conditions: different comparisons that were looked at.
        conjunctions: conjunctions that were looked at, single comparisons among them.
        max_fpr: highest false-positive rate on the discovery half.
        level: probability of any false finding.
        seed: of the split.
    """

    patterns: tuple[Tested, ...]
    baselines: tuple[Baseline, ...]
    discovery: HalfSize
    held_out: HalfSize
    searched: int
    conditions: int
    conjunctions: int
    max_fpr: float
    level: float
    seed: int

    @property
    def found(self) -> tuple[Tested, ...]:
        """The patterns that the held-out half confirmed."""
        return tuple(pattern for pattern in self.patterns if pattern.found)


def discover(
    examples: Sequence[Example],
    *,
    max_fpr: float = 0.01,
    level: float = 0.01,
    seed: int = 0,
    tell: Tell = lambda line: None,
) -> Discovery:
    """Search for patterns that separate attacks from benign conversations, and test them.

    The groups are divided in two halves. On three fifths of the first a beam search joins up to three comparisons
    with limits at quantiles; the rest of that half weeds out what only fits by chance, and at most ten are chosen
    that each add something to the best rule on single turns. Only then the second half is looked at, once for each
    of them. What adds nothing there to that rule, at the same rate of false positives, is not found.

    Args:
        examples: conversations of both labels with at least one evaluated turn; others are passed over.
        max_fpr: highest false-positive rate of a pattern on the discovery half, in (0, 1).
        level: probability of any false finding, in (0, 1).
        seed: of the split; the same examples and seed give the same patterns.
        tell: takes a line now and then on how far the search is.

    Raises:
        UsageError: an argument out of range, or too few conversations of a label in a half.
    """
    for name, value in (("the false-positive rate", max_fpr), ("the level", level)):
        if not 0 < value < 1:
            raise UsageError(f"{name} must lie in (0, 1), not {value:g}")
    ordered = sorted((e for e in examples if evaluated_turns(e)), key=lambda example: example.sequence_id)
    first, second = halves_of(ordered, seed)
    halves = _size("discovery", first), _size("held-out", second)
    looked_through = _bounded(first, seed)
    work = _DiscoverySearch(looked_through, max_fpr, seed)
    tell(f"searching {len(looked_through)} of {len(first)} conversations of the discovery half")
    chosen, conditions, conjunctions = work.search(tell)
    tell(f"testing {len(chosen)} patterns on {len(second)} held-out conversations")
    tested = verify(chosen, first, second, work.rule, level=level, seed=seed)
    rules = {
        SINGLE_TURN: None if work.rule is None else work.rule.expression,
        "length": work.best_single(length_quantities()),
        "first turn": work.best_single(first_turn_quantities(work.series)),
    }
    baselines = tuple(_baseline(name, expression, first, second) for name, expression in rules.items())
    return Discovery(
        patterns=tuple(sorted(tested, key=lambda pattern: not pattern.found)),
        baselines=baselines,
        discovery=halves[0],
        held_out=halves[1],
        searched=len(looked_through),
        conditions=conditions,
        conjunctions=conjunctions,
        max_fpr=max_fpr,
        level=level,
        seed=seed,
    )


def halves_of(examples: Sequence[Example], seed: int) -> tuple[list[Example], list[Example]]:
    """Return the half that is searched and the half that is tested on; no group is in both.

    Args:
        seed: of the split.
    """
    parts = split_by_group(examples, HALVES, seed)
    return parts["discovery"], parts["held out"]


class _DiscoverySearch:
    """The search on the discovery half."""

    def __init__(self, examples: Sequence[Example], max_fpr: float, seed: int) -> None:
        parts = split_by_group(examples, PARTS, seed + 1)
        searched, rest = parts["searched"], parts["sifting"]
        by_label = [
            [example for example in part if example.attack is attack]
            for attack in (False, True)
            for part in (searched, rest)
        ]
        self._examples = [example for part in by_label for example in part]
        self.series: tuple[Series, ...] = series_in(self._examples)
        self._max_fpr = max_fpr
        searched_benign, other_benign, searched_attacks, other_attacks = map(len, by_label)
        lengths = np.array([len(evaluated_turns(example)) for example in self._examples], dtype=np.intp)
        benign = searched_benign + other_benign
        self._layout = BitLayout(lengths, benign, searched_benign, searched_attacks)
        self._benign_turns = int(lengths[:benign].sum())
        self._goal = self._goal_for(searched_attacks + other_attacks, benign)
        self._searched_goal = self._goal_for(searched_attacks, searched_benign)
        self.rule = best_rule(self.series, self._examples, self._goal.most_benign)

    def _goal_for(self, attacks: int, benign: int) -> Goal:
        allowed = math.floor(self._max_fpr * benign + 1e-9)
        return Goal(attacks, benign, allowed, max(3, math.ceil(LEAST_SHARE * attacks)))

    def search(self, tell: Tell) -> tuple[list[Expression], int, int]:
        """The patterns worth testing, and how many conditions and conjunctions were looked at."""
        raw = values_of(self.series, self._examples)
        usual = {
            series: usual_values(values[: self._benign_turns])
            for series, values in zip(self.series, raw.columns, strict=True)
        }
        looked_at = quantities(self.series, usual)
        pool = self._pool(looked_at)
        tell(f"{len(looked_at)} quantities at {raw.columns.shape[1]} turns")
        search = Search(pool, self._searched_goal)
        margin = math.floor(MARGIN * self._goal.attacks)
        missed = self._missed_by_rule()
        chosen = choose_patterns(pool, search.run(tell), self._goal, missed, margin=margin, most=MOST_PATTERNS)
        return list(map(pool.expression, chosen)), len(pool.conditions), search.looked_at

    def _missed_by_rule(self) -> NDArray[np.bool_]:
        attacks = self._examples[self._layout.benign :]
        if self.rule is None:
            return np.ones(len(attacks), dtype=np.bool_)
        missed: NDArray[np.bool_] = peaks_of(self.rule.series, attacks) <= self.rule.limit
        return missed

    def best_single(self, looked_at: Sequence[Quantity]) -> Expression | None:
        """The comparison of one of the quantities that matches most attacks within the rate."""
        pool = self._pool(looked_at)
        best: tuple[int, Expression] | None = None
        for place, condition in enumerate(pool.conditions):
            hits = pool.matched((place,))
            attacks = int(hits[self._layout.benign :].sum())
            allowed = hits[: self._layout.benign].sum() <= self._goal.most_benign
            if allowed and attacks and (best is None or attacks > best[0]):
                best = attacks, condition.expression
        return best and best[1]

    def _pool(self, looked_at: Sequence[Quantity]) -> Pool:
        table = values_of([quantity.expression for quantity in looked_at], self._examples)
        return conditions_of(looked_at, table, self._layout, self._max_fpr)


def _baseline(
    name: str, expression: Expression | None, first: Sequence[Example], second: Sequence[Example]
) -> Baseline:
    if expression is None:
        return Baseline(name, None, None, None)
    return Baseline(name, expression, count_matches(expression, first), count_matches(expression, second))


def _size(name: str, examples: Sequence[Example]) -> HalfSize:
    attacks = sum(example.attack for example in examples)
    half = HalfSize(attacks, len(examples) - attacks, len({example.group for example in examples}))
    for label, count in (("attacks", half.attacks), ("benign conversations", half.benign)):
        if count < _FEWEST:
            raise UsageError(
                f"{count} evaluated {label} are too few for the {name} half: at least {_FEWEST} are needed, in "
                "groups that can be divided"
            )
    return half


def _bounded(examples: Sequence[Example], seed: int) -> list[Example]:
    """As many conversations as fit into `MOST_TURNS`, in the order of a hash."""

    def order(example: Example) -> bytes:
        return hashlib.sha256(f"{seed}:{example.sequence_id}".encode()).digest()

    kept: list[Example] = []
    turns = 0
    for example in sorted(examples, key=order):
        turns += len(evaluated_turns(example))
        if turns > MOST_TURNS and kept:
            break
        kept.append(example)
    return kept


def names_of(discovery: Discovery) -> dict[str, Tested]:
    """Return the confirmed patterns by name: ``found_1`` and so on."""
    return {f"found_{number}": pattern for number, pattern in enumerate(discovery.found, start=1)}


def to_yaml(discovery: Discovery, run: str, observer: str) -> str:
    """Return the confirmed patterns as a file that `turnwise.patterns.load_patterns` reads.

    Args:
        discovery: what a search came to; at least one pattern was confirmed.
        run: name of the run that was searched.
        observer: what scored it, with its version.
    """
    import yaml

    reference = (
        f"turnwise study discover --run {run} --max-fpr {discovery.max_fpr:g} --level {discovery.level:g} "
        f"--seed {discovery.seed}; scored by {observer}"
    )
    patterns = {
        name: {
            "version": 1,
            "description": describe(pattern, discovery.max_fpr),
            "reference": reference,
            "expression": str(pattern.expression),
        }
        for name, pattern in names_of(discovery).items()
    }
    text: str = yaml.safe_dump(patterns, sort_keys=False, allow_unicode=True, width=110)
    return text


def gain_words(gain: PatternGain) -> str:
    """Return a gain in points of recall with its interval."""
    low, high = 100 * gain.recall.low, 100 * gain.recall.high
    return f"{100 * gain.recall.value:+.1f} [{low:+.1f}, {high:+.1f}]"


def describe(pattern: Tested, max_fpr: float) -> str:
    """Return what a pattern did on the held-out half, in a sentence or two."""
    counts = pattern.held_out
    beyond = f", more than the {100 * max_fpr:g} % allowed" if counts.above(max_fpr) else ""
    return (
        f"Found by search, not written by a person. On held-out conversations it matched {counts.attacks} of "
        f"attacks, {counts.at_first_turn} of them at their first turn, and {counts.benign} of benign ones{beyond} "
        f"(95 % intervals; p = {pattern.p_holm:.2g} after Holm's correction). To the best rule on single turns it "
        f"adds {gain_words(pattern.gain)} points of recall at the same false-positive rate."
    )
