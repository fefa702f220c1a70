"""Random patterns and random sparse trajectories: the one generator of tests and benchmarks."""

from __future__ import annotations

import random
from collections.abc import Sequence

from turnwise.conversation import Side
from turnwise.patterns import FUNCTIONS, Expression, ValueKind
from turnwise.patterns.expression import (
    COMPARISONS,
    And,
    Arithmetic,
    Call,
    Comparison,
    KOf,
    Negative,
    Not,
    Number,
    Or,
)
from turnwise.patterns.series import COMPONENTS, Length, OtherRun, Series, TurnNumber
from turnwise.scoring import Score, TurnScores

PRINCIPLES = ("reciprocity", "context_integrity", "third_party_harm")
NAMES = (None, None, *PRINCIPLES)
"""Principles of series, None for the bare series."""

EDGES = (0.0, 0.25, 0.5, 0.6, 0.65, 0.75, 1.0)
"""Values at which formulas change, so that ties and thresholds come up."""


def random_turns(chance: random.Random, length: int) -> list[TurnScores]:
    """Return a conversation of so many turns; any principle, side or whole turn may be missing."""
    present = chance.choice((0.3, 0.8, 1.0))
    return [random_turn(chance, number, present) for number in range(1, length + 1)]


def random_turn(chance: random.Random, number: int, present: float) -> TurnScores:
    """Return scores of one turn: a principle has one of the prompt with chance `present`, else half as often."""
    sides: dict[Side, dict[str, Score]] = {Side.PROMPT: {}, Side.RESPONSE: {}}
    if chance.random() < max(present, 0.7):
        for side, share in ((Side.PROMPT, present), (Side.RESPONSE, present / 2)):
            for principle in PRINCIPLES:
                if chance.random() < share:
                    sides[side][principle] = Score(*(_component(chance) for _ in range(3)))
    chars = chance.choice((0, 12, 300, 5000, 5001, 20_000))
    return TurnScores(number, sides[Side.PROMPT], chars, sides[Side.RESPONSE], chance.randrange(9000))


def _component(chance: random.Random) -> float:
    return chance.choice(EDGES) if chance.random() < 0.3 else chance.random()


def random_condition(chance: random.Random, depth: int) -> Expression:
    """Return a condition of at most so many levels, at least 2."""
    return PatternGenerator(chance).condition(depth)


def random_call(chance: random.Random, function: str, depth: int) -> Call:
    """Return a call of a function with random parameters and a random argument."""
    return PatternGenerator(chance).call(function, depth)


class PatternGenerator:
    """Makes random patterns of some principles and numbers; with `runs`, half of the series are of those."""

    def __init__(
        self,
        chance: random.Random,
        names: Sequence[str | None] = NAMES,
        limits: Sequence[float] | None = None,
        runs: Sequence[str] = (),
    ) -> None:
        self._chance = chance
        self._names = names
        self._limits = limits
        self._runs = runs

    def condition(self, depth: int) -> Expression:
        """Return a condition of at most so many levels, at least 2."""
        chance, deeper = self._chance, depth - 1
        kind = chance.randrange(10) if depth > 2 else 0
        if kind <= 4:
            left, right = self.number(deeper), self.number(min(deeper, 1 + chance.randrange(3)))
            return Comparison(chance.choice(COMPARISONS), left, right)  # type: ignore[arg-type]
        if kind == 5:
            return Not(self.condition(deeper))
        if kind == 6:
            return Call(chance.choice(("any", "all")), self.condition(deeper))
        parts = tuple(self.condition(deeper) for _ in range(chance.randint(2, 3)))
        if kind == 7:
            return And(parts)
        return Or(parts) if kind == 8 else KOf(chance.randint(1, len(parts)), parts)

    def number(self, depth: int) -> Expression:
        """Return a number of at most so many levels, at least 1."""
        chance = self._chance
        if depth <= 1 or chance.random() < 0.15:
            return self._leaf()
        kind = chance.randrange(8)
        if kind == 0:
            return Negative(self.number(depth - 1))
        if kind <= 2:
            left, right = self.number(depth - 1), self.number(depth - 1)
            return Arithmetic(chance.choice("+-*/"), left, right)  # type: ignore[arg-type]
        numeric = [name for name in FUNCTIONS if FUNCTIONS[name].gives is ValueKind.NUMBER]
        if depth <= 2:
            numeric = [name for name in numeric if FUNCTIONS[name].of is ValueKind.NUMBER]
        return self.call(chance.choice(numeric), depth)

    def call(self, function: str, depth: int) -> Call:
        """Return a call of a function of at most so many levels, at least 3 where it is of a condition."""
        chance, signature = self._chance, FUNCTIONS[function]
        make = self.number if signature.of is ValueKind.NUMBER else self.condition
        parameters = []
        for one in signature.parameters:
            if one.required or chance.random() < 0.6:
                parameters.append((one.name, self._parameter(one.name, one.whole, one.low, one.high)))
        if function == "rise":
            early = chance.randint(1, 6)
            parameters = [("i", early), ("j", early + chance.randint(1, 5))]
        return Call(function, make(depth - 1), tuple(parameters))

    def _parameter(self, name: str, whole: bool, low: float, high: float) -> float:
        chance = self._chance
        if whole:
            return chance.choice((2, 3, 5, 20, 100) if name == "window" else (1, 2, 3, 5, 40))
        low, high = max(low, -1.0), min(high, 1.0)
        value = chance.choice((0.05, 0.3, 1.0, chance.uniform(low, high)))
        return value if value > low else 0.5

    def _leaf(self) -> Expression:
        chance = self._chance
        kind = chance.randrange(12)
        if kind == 0:
            return TurnNumber()
        if kind == 1:
            return Length(chance.choice(tuple(Side)))
        if kind <= 3:
            limits = self._limits or (*EDGES, 2.0, -1.0, 1e-3, 1e60, 1e100, chance.uniform(-2, 2))
            return Number(chance.choice(limits))
        principle = chance.choice(self._names)
        side = Side.RESPONSE if chance.random() < 0.25 else Side.PROMPT
        series = Series(chance.choice(COMPONENTS), principle, side)  # type: ignore[arg-type]
        return OtherRun(chance.choice(self._runs), series) if self._runs and chance.random() < 0.5 else series
