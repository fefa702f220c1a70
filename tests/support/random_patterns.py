"""Random patterns and random sparse trajectories, for measuring how far two evaluations agree."""

from __future__ import annotations

import random

from turnwise.conversation import Side
from turnwise.patterns import Expression, Function, Kind
from turnwise.patterns.functions import SIGNATURES, Parameter
from turnwise.patterns.tree import (
    ARITHMETIC,
    COMPARISONS,
    COMPONENTS,
    And,
    Arithmetic,
    Call,
    Comparison,
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
EDGES = (0.0, 0.25, 0.5, 0.6, 0.65, 0.75, 1.0)
"""Values at which formulas change, so that ties and thresholds come up."""


def random_turns(chance: random.Random, length: int) -> list[TurnScores]:
    """Return a conversation of so many turns; any principle, side or whole turn may be missing."""
    present = chance.choice((0.3, 0.8, 1.0))
    turns = []
    for number in range(1, length + 1):
        sides: dict[Side, dict[str, Score]] = {Side.PROMPT: {}, Side.RESPONSE: {}}
        if chance.random() < max(present, 0.7):
            for side, share in ((Side.PROMPT, present), (Side.RESPONSE, present / 2)):
                for principle in PRINCIPLES:
                    if chance.random() < share:
                        sides[side][principle] = Score(*(_component(chance) for _ in range(3)))
        chars = chance.choice((0, 12, 300, 5000, 5001, 20_000))
        turns.append(TurnScores(number, sides[Side.PROMPT], chars, sides[Side.RESPONSE], chance.randrange(9000)))
    return turns


def _component(chance: random.Random) -> float:
    return chance.choice(EDGES) if chance.random() < 0.3 else chance.random()


def random_condition(chance: random.Random, depth: int) -> Expression:
    """Return a condition of at most so many levels, at least 2."""
    kind = chance.randrange(10) if depth > 2 else 0
    deeper = depth - 1
    if kind <= 4:
        left, right = random_number(chance, deeper), random_number(chance, min(deeper, 1 + chance.randrange(3)))
        return Comparison(chance.choice(COMPARISONS), left, right)  # type: ignore[arg-type]
    if kind == 5:
        return Not(random_condition(chance, deeper))
    if kind == 6:
        return Call(chance.choice((Function.ANY, Function.ALL)), random_condition(chance, deeper))
    parts = tuple(random_condition(chance, deeper) for _ in range(chance.randint(2, 3)))
    if kind == 7:
        return And(parts)
    return Or(parts) if kind == 8 else KOf(chance.randint(1, len(parts)), parts)


def random_number(chance: random.Random, depth: int) -> Expression:
    """Return a number of at most so many levels, at least 1."""
    if depth <= 1 or chance.random() < 0.15:
        return _leaf(chance)
    kind = chance.randrange(8)
    if kind == 0:
        return Negative(random_number(chance, depth - 1))
    if kind <= 2:
        left, right = random_number(chance, depth - 1), random_number(chance, depth - 1)
        return Arithmetic(chance.choice(ARITHMETIC), left, right)  # type: ignore[arg-type]
    numeric = [name for name in Function if SIGNATURES[name].gives is Kind.NUMBER]
    if depth <= 2:
        numeric = [name for name in numeric if SIGNATURES[name].of is Kind.NUMBER]
    return random_call(chance, chance.choice(numeric), depth)


def random_call(chance: random.Random, function: Function, depth: int) -> Call:
    """Return a call of a function with random parameters and a random argument."""
    signature = SIGNATURES[function]
    make = random_number if signature.of is Kind.NUMBER else random_condition
    parameters = []
    for parameter in signature.parameters:
        if parameter.required or chance.random() < 0.6:
            parameters.append((parameter.name, _parameter(chance, parameter)))
    if function is Function.RISE:
        early = chance.randint(1, 6)
        parameters = [("i", early), ("j", early + chance.randint(1, 5))]
    return Call(function, make(chance, depth - 1), tuple(parameters))


def _parameter(chance: random.Random, parameter: Parameter) -> float:
    if parameter.whole:
        return chance.choice((2, 3, 5, 20, 100) if parameter.name == "window" else (1, 2, 3, 5, 40))
    low, high = max(parameter.low, -1.0), min(parameter.high, 1.0)
    value = chance.choice((0.05, 0.3, 1.0, chance.uniform(low, high)))
    return value if value > low else 0.5


def _leaf(chance: random.Random) -> Expression:
    kind = chance.randrange(12)
    if kind == 0:
        return TurnNumber()
    if kind == 1:
        return Length(chance.choice(tuple(Side)))
    if kind <= 3:
        return Number(chance.choice((*EDGES, 2.0, -1.0, 1e-3, 1e60, 1e100, chance.uniform(-2, 2))))
    principle = chance.choice((None, None, *PRINCIPLES))
    side = Side.RESPONSE if chance.random() < 0.25 else Side.PROMPT
    return Series(chance.choice(COMPONENTS), principle, side)  # type: ignore[arg-type]
