"""Random patterns and trajectories for hypothesis; several times faster than strategies within strategies."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import hypothesis.strategies as st
from random_patterns import NAMES, PatternGenerator, random_turn

from turnwise.patterns import Expression, ValueKind
from turnwise.scoring import TurnScores

ODD_NAMES = ("my-principle", "and", "response", 'a "b" \\ c', "zwölf", "F", "turn", "mean")
LIMITS = (-1.0, -0.125, 0.0, 0.1, 0.5, 0.617, 1.0, 2.0, 3.0)
"""Numbers that two ways to reckon agree on, since no sum of them loses digits."""


def trees(
    kind: ValueKind, depth: int = 7, names: Sequence[str | None] = NAMES, limits: Sequence[float] = LIMITS
) -> st.SearchStrategy[Expression]:
    """Return random expressions of a kind, of at most so many levels."""

    def make(seed: int, levels: int) -> Expression:
        generator = PatternGenerator(Random(seed), names, limits)
        return generator.number(levels) if kind is ValueKind.NUMBER else generator.condition(levels)

    return st.builds(make, st.integers(0, 2**32), st.integers(1 if kind is ValueKind.NUMBER else 2, depth))


def calls(function: str, depth: int = 3) -> st.SearchStrategy[Expression]:
    """Return random calls of one function."""
    seeds = st.integers(0, 2**32)
    return seeds.map(lambda seed: PatternGenerator(Random(seed), limits=LIMITS).call(function, depth))


def trajectories(most: int = 12) -> st.SearchStrategy[list[TurnScores]]:
    """Return random sparse trajectories: gaps of principles, turns without any score, both sides."""
    turns = st.tuples(st.integers(0, 2**20), st.sampled_from((0.0, 0.3, 0.8, 1.0)))
    return st.lists(turns, max_size=most).map(
        lambda drawn: [
            random_turn(Random(seed), number, present) for number, (seed, present) in enumerate(drawn, start=1)
        ]
    )
