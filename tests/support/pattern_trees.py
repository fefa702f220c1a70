"""Random trees of the pattern language and random sparse trajectories, for hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import hypothesis.strategies as st

from turnwise.conversation import Side
from turnwise.patterns.functions import SIGNATURES, Function, Kind
from turnwise.patterns.tree import (
    ARITHMETIC,
    COMPARISONS,
    COMPONENTS,
    And,
    Arithmetic,
    Call,
    Comparison,
    Expression,
    KOf,
    Length,
    Negative,
    Not,
    Number,
    Or,
    Series,
    TurnNumber,
)
from turnwise.scoring import Score, TurnScores

PRINCIPLES = ("reciprocity", "context_integrity", "third_party_harm")
ODD_NAMES = ("my-principle", "and", "response", 'a "b" \\ c', "zwölf", "F", "turn", "mean")
GRID = (0.0, 0.1, 0.25, 0.5, 0.62, 0.66, 0.7, 0.875, 1.0)
LENGTHS = (0, 12, 300, 5_000, 5_001)
LIMITS = (-1.0, -0.125, 0.0, 0.1, 0.5, 0.617, 1.0, 2.0, 3.0)


class Grower:
    """Grows random trees; several times faster than strategies within strategies.

    Args:
        random: source of chance.
        names: principles that occur; None among them for the bare series.
        limits: numbers that occur.
    """

    def __init__(
        self,
        random: Random,
        names: Sequence[str | None] = (None, *PRINCIPLES),
        limits: Sequence[float] = LIMITS,
    ) -> None:
        self._random = random
        self._names = names
        self._limits = limits

    def grow(self, kind: Kind, depth: int) -> Expression:
        """Return a tree of a kind, of at most so many levels above its leaves."""
        return self.number(depth) if kind is Kind.NUMBER else self.condition(depth)

    def number(self, depth: int) -> Expression:
        """Return a number."""
        which = self._random.choice(["leaf", "call", "call", "call", "arithmetic", "negative"])
        if depth <= 0 or which == "leaf":
            return self._leaf()
        if which == "arithmetic":
            return Arithmetic(self._random.choice(ARITHMETIC), self.number(depth - 1), self.number(depth - 1))
        if which == "negative":
            return Negative(self.number(depth - 1))
        return self._call(Kind.NUMBER, depth - 1)

    def condition(self, depth: int) -> Expression:
        """Return a condition."""
        which = self._random.choice(["compare", "compare", "call", "not", "and", "or", "k_of"])
        if depth <= 0 or which == "compare":
            return Comparison(self._random.choice(COMPARISONS), self.number(depth - 1), self.number(depth - 1))
        if which == "call":
            return self._call(Kind.CONDITION, depth - 1)
        if which == "not":
            return Not(self.condition(depth - 1))
        operands = tuple(self.condition(depth - 1) for _ in range(self._random.randint(2, 3)))
        if which == "k_of":
            return KOf(self._random.randint(1, len(operands)), operands)
        return And(operands) if which == "and" else Or(operands)

    def call(self, function: Function, depth: int) -> Expression:
        """Return a call of one function, with parameters that lie near each other."""
        parameters: list[tuple[str, float]] = []
        for parameter in SIGNATURES[function].parameters:
            if not parameter.required and self._random.random() < 0.5:
                continue
            value = self._random.choice([0.05, 0.3, 0.5, 1.0])
            if parameter.whole:
                low = int(parameters[-1][1]) + 1 if parameter.name == "j" else int(parameter.low)
                value = self._random.randint(low, low + 6)
            parameters.append((parameter.name, value))
        return Call(function, self.grow(SIGNATURES[function].of, depth), tuple(parameters))

    def _call(self, kind: Kind, depth: int) -> Expression:
        fitting = [function for function, signature in SIGNATURES.items() if signature.gives is kind]
        return self.call(self._random.choice(fitting), depth)

    def _leaf(self) -> Expression:
        which = self._random.choice(["series", "series", "series", "number", "turn", "chars"])
        side = self._random.choice([Side.PROMPT, Side.PROMPT, Side.RESPONSE])
        if which == "series":
            return Series(self._random.choice(COMPONENTS), self._random.choice(self._names), side)
        if which == "number":
            return Number(self._random.choice(self._limits))
        return TurnNumber() if which == "turn" else Length(side)


def trees(
    kind: Kind, depth: int = 3, names: Sequence[str | None] = (None, *PRINCIPLES), limits: Sequence[float] = LIMITS
) -> st.SearchStrategy[Expression]:
    """Return random expressions of a kind, of at most so many levels above their leaves."""
    return st.builds(
        lambda seed, levels: Grower(Random(seed), names, limits).grow(kind, levels),
        st.integers(0, 2**32),
        st.integers(0, depth),
    )


def calls(function: Function, depth: int = 1) -> st.SearchStrategy[Expression]:
    """Return random calls of one function."""
    return st.builds(lambda seed: Grower(Random(seed)).call(function, depth), st.integers(0, 2**32))


def trajectories(most: int = 12) -> st.SearchStrategy[list[TurnScores]]:
    """Return random sparse trajectories: gaps of principles, turns without any score, both sides."""
    return st.lists(st.integers(0, 2**20), max_size=most).map(
        lambda seeds: [random_turn(Random(seed), turn) for turn, seed in enumerate(seeds, start=1)]
    )


def random_turn(random: Random, turn: int) -> TurnScores:
    """Return the scores of one turn: on each side those of no, some or all principles."""
    prompt, response = (
        {name: Score(*random.choices(GRID, k=3)) for name in PRINCIPLES if random.random() < part}
        for part in random.choice([(0.6, 0.0), (0.6, 0.3), (1.0, 0.5), (0.0, 0.0), (0.2, 0.2)])
    )
    return TurnScores(turn, prompt, random.choice(LENGTHS), response, random.choice(LENGTHS))
