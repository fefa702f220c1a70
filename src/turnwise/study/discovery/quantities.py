"""The numbers that the search compares with limits, and their values at every evaluated turn."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from turnwise.conversation import Side
from turnwise.patterns import (
    Expression,
    at,
    chars,
    count,
    current_streak,
    cusum,
    delta,
    drop,
    ema,
    first,
    low,
    mean,
    peak,
    series,
    share,
    slope,
    streak,
    turn,
    turns_since,
    volatility,
)
from turnwise.patterns.program import Program
from turnwise.patterns.series import Series
from turnwise.scoring import TurnScores
from turnwise.stats.examples import Example

WINDOWS = (3, 5)
"""Values that a slope is taken over, beside all of them."""

TIMES = (2.0, 3.0, 4.0)
"""Turns that a condition is asked to have held at."""

AGO = (1.0, 2.0)
"""Turns since a condition held."""

_LONGEST = 12
"""The last turn number that the baseline of length asks for."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number that conditions are made from by comparing it; `family` is shared by variants of each other."""

    # `alone`: a comparison says by itself what no simpler one says. That the highest value so far is above a limit
    # at some turn, say, is the same as that the value itself is. Given `limits` are compared by >= and <=, others
    # by > and <.

    expression: Expression
    family: str
    above: bool = True
    below: bool = True
    alone: bool = True
    limits: tuple[float, ...] = ()


def series_in(examples: Sequence[Example]) -> tuple[Series, ...]:
    """The series that some turn has a value of: of each principle, and the worst over several.

    >>> from turnwise.scoring import Score, TurnScores
    >>> turns = (TurnScores(1, {"reciprocity": Score(0.9, 0.1, 0.1)}),)
    >>> [str(found) for found in series_in([Example("a", "a", False, turns)])]
    ['reciprocity.T', 'reciprocity.I', 'reciprocity.F', 'balance', 'strength']
    """
    found: dict[Side, set[str]] = {Side.PROMPT: set(), Side.RESPONSE: set()}
    for example in examples:
        for scores in example.turns:
            found[Side.PROMPT].update(scores.scores)
            found[Side.RESPONSE].update(scores.response_scores)
    read: list[Series] = []
    for side, principles in found.items():
        named: tuple[str | None, ...] = (*sorted(principles), *([None] if len(principles) > 1 else []))
        for name in named:
            read += Series("T", name, side), Series("I", name, side), Series("F", name, side)
        if principles:
            read += Series("balance", None, side), Series("strength", None, side)
    return tuple(read)


def quantities(read: Sequence[Series], usual: Mapping[Series, Sequence[float]]) -> tuple[Quantity, ...]:
    """Every number that the search compares; `usual` has the five `usual_values` of a series."""
    found: list[Quantity] = []
    for x in read:
        found += _over_values(x, usual[x])
        found += _over_conditions(x, usual[x])
    falsities = [x for x in read if x.component == "F" and x.principle is not None]
    for one, other in itertools.permutations(falsities, 2):
        if one.side is other.side:
            found.append(Quantity(one - other, f"{one} - {other}", below=False))
    found += (Quantity(series(side=x.side).trust, f"{x} trust") for x in read if x.component == "strength")
    return tuple(found)


def _over_values(x: Series, usual: Sequence[float]) -> Iterator[Quantity]:
    yield Quantity(x, f"{x} value")
    yield Quantity(peak(x), f"{x} peak", alone=False)
    yield Quantity(low(x), f"{x} low", alone=False)
    yield Quantity(mean(x), f"{x} mean")
    yield Quantity(ema(x), f"{x} mean")
    yield Quantity(delta(x), f"{x} change")
    yield Quantity(slope(x), f"{x} slope")
    for window in WINDOWS:
        yield Quantity(slope(x, window=window), f"{x} slope")
    yield Quantity(x - first(x), f"{x} risen", below=False)
    yield Quantity(first(x) - x, f"{x} fallen", below=False)
    yield Quantity(drop(x), f"{x} drop", below=False)
    yield Quantity(peak(x) - low(x), f"{x} range", below=False)
    yield Quantity(volatility(x), f"{x} volatility")
    # Sums grow with what is bad: F and I as they are, the others as what they lack to 1.
    high_is_bad = x.component in ("F", "I")
    summed = x if high_is_bad else 1 - x
    for drift in dict.fromkeys(usual[2:4] if high_is_bad else [round(1 - q, 9) for q in usual[2:0:-1]]):
        yield Quantity(cusum(summed, drift=drift), f"{x} cusum", below=False)


def _over_conditions(x: Series, usual: Sequence[float]) -> Iterator[Quantity]:
    conditions = [x < usual[0], x < usual[1], x > usual[3], x > usual[4]]
    for condition in dict.fromkeys(conditions):
        yield Quantity(share(condition), f"{x} share", below=False)
        yield Quantity(count(condition), f"{x} count", below=False, limits=TIMES)
        yield Quantity(streak(condition), f"{x} streak", below=False, limits=TIMES)
        yield Quantity(current_streak(condition), f"{x} streak now", below=False, alone=False, limits=TIMES)
        yield Quantity(turns_since(condition), f"{x} ago", above=False, alone=False, limits=AGO)


def length_quantities() -> tuple[Quantity, ...]:
    """What looks at the length alone: number of turns, characters of a prompt."""
    turns = tuple(float(number) for number in range(2, _LONGEST + 1))
    return Quantity(turn(), "turns", below=False, limits=turns), Quantity(chars(), "characters")


def first_turn_quantities(read: Sequence[Series]) -> tuple[Quantity, ...]:
    """What looks at the first turn alone."""
    return tuple(Quantity(at(x, 1), f"{x} first") for x in read)


@dataclass(frozen=True, slots=True)
class TurnValues:
    """Values: a row an expression, a column an evaluated turn, conversation by conversation; NaN is undefined."""

    columns: NDArray[np.float64]
    starts: NDArray[np.intp]
    lengths: NDArray[np.intp]


def values_of(expressions: Sequence[Expression], examples: Sequence[Example]) -> TurnValues:
    """The values of expressions at every evaluated turn; parts that several share are reckoned once."""
    program = Program()
    places = [program.value(expression) for expression in expressions]
    fresh = json.dumps(program.start())  # the state before the first turn; read back far faster than copied deeply
    lengths = np.array([len(evaluated_turns(example)) for example in examples], dtype=np.intp)
    columns = np.empty((len(expressions), int(lengths.sum())))
    row = 0
    for example in examples:
        cells = json.loads(fresh)
        for scores in evaluated_turns(example):
            values = program.run(cells, scores)
            columns[:, row] = np.array([values[place] for place in places], dtype=np.float64)
            row += 1
    return TurnValues(columns, np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)


def evaluated_turns(example: Example) -> list[TurnScores]:
    """The turns of a conversation that have a score; at the others nothing holds."""
    return [scores for scores in example.turns if scores.scores or scores.response_scores]
