"""The functions of the pattern language: what each takes, what it gives, and what it means."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from turnwise.errors import PatternError

LARGEST = 1e100
"""A number beyond ±1e100 is undefined, so that no running sum overflows."""

MAX_TURN = 1_000_000_000
"""Largest turn number that a pattern may name."""

MAX_WINDOW = 100
"""Longest window, in values: what a pattern may keep of a conversation is bounded."""


class Kind(StrEnum):
    """What an expression is at a turn: a number, or a condition that holds or does not."""

    NUMBER = "number"
    CONDITION = "condition"


class Function(StrEnum):
    """The functions over the turns so far."""

    AT = "at"
    FIRST = "first"
    LAST = "last"
    PEAK = "peak"
    LOW = "low"
    MEAN = "mean"
    RISE = "rise"
    DELTA = "delta"
    DROP = "drop"
    SLOPE = "slope"
    VOLATILITY = "volatility"
    EMA = "ema"
    CUSUM = "cusum"
    STREAK = "streak"
    CURRENT_STREAK = "current_streak"
    COUNT = "count"
    SHARE = "share"
    ANY = "any"
    ALL = "all"
    TURNS_SINCE = "turns_since"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number that a function takes beside its argument, the same at every turn.

    Args:
        name: its name.
        low: least value.
        high: greatest value.
        whole: whether it counts something, and so is a whole number.
        above: whether `low` itself is not allowed.
        default: its value where it is not given; None where it may be left out altogether.
        required: whether it has to be given.
        by_name: whether it is written ``name=value``.
    """

    name: str
    low: float = -LARGEST
    high: float = LARGEST
    whole: bool = False
    above: bool = False
    default: float | None = None
    required: bool = False
    by_name: bool = True

    def read(self, function: str, value: object) -> float | int:
        """Return a value as this parameter has it: an int where it counts something, else a float.

        Raises:
            PatternError: no number, not whole where it has to be, or out of range.

        >>> Parameter("window", 2, 100, whole=True).read("slope", 5.0)
        5
        """
        if (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and self.low <= value <= self.high
            and not (self.above and value == self.low)
            and (not self.whole or math.floor(value) == value)
        ):
            return int(value) if self.whole else float(value)
        what = "a whole number" if self.whole else "a number"
        start = "(" if self.above else "["
        given = f"{value:g}" if isinstance(value, float) else repr(value)
        raise PatternError(
            f"{self.name} of {function} must be {what} in {start}{self.low:g}, {self.high:g}], not {given}"
        )


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes and gives.

    Args:
        of: kind of its argument.
        gives: kind of its value.
        parameters: the numbers that it takes, in their order.
        meaning: its value in a few words; ``x`` is a number, ``c`` a condition.
    """

    of: Kind
    gives: Kind
    meaning: str
    parameters: tuple[Parameter, ...] = ()


def _turn(name: str) -> Parameter:
    return Parameter(name, 1, MAX_TURN, whole=True, required=True, by_name=False)


def _of_number(meaning: str, *parameters: Parameter) -> Signature:
    return Signature(Kind.NUMBER, Kind.NUMBER, meaning, parameters)


def _of_condition(meaning: str, gives: Kind = Kind.NUMBER) -> Signature:
    return Signature(Kind.CONDITION, gives, meaning)


SIGNATURES: Mapping[Function, Signature] = {
    Function.AT: _of_number("x at turn k", _turn("k")),
    Function.FIRST: _of_number("the first value of x"),
    Function.LAST: _of_number("the latest value of x"),
    Function.PEAK: _of_number("the highest value of x so far"),
    Function.LOW: _of_number("the lowest value of x so far"),
    Function.MEAN: _of_number("the mean of x so far"),
    Function.RISE: _of_number("x at turn j minus x at turn i", _turn("i"), _turn("j")),
    Function.DELTA: _of_number("x at this turn minus the value before it"),
    Function.DROP: _of_number("how far x is below its peak: peak(x) - last(x)"),
    Function.SLOPE: _of_number(
        "least-squares slope of x over turn numbers, of all values or the last few",
        Parameter("window", 2, MAX_WINDOW, whole=True),
    ),
    Function.VOLATILITY: _of_number("mean absolute difference between one value of x and the next"),
    Function.EMA: _of_number(
        "exponential moving average: alpha*x + (1-alpha)*before, from start or from the first value",
        Parameter("alpha", 0.0, 1.0, above=True, default=0.3),
        Parameter("start"),
    ),
    Function.CUSUM: _of_number(
        "cumulative sum max(0, before + x - drift), from 0", Parameter("drift", required=True)
    ),
    Function.STREAK: _of_condition("longest run of consecutive turn numbers at which c held"),
    Function.CURRENT_STREAK: _of_condition("the run of consecutive turn numbers up to this one at which c held"),
    Function.COUNT: _of_condition("how many turns c held at"),
    Function.SHARE: _of_condition("count(c) divided by the turns at which c could be told"),
    Function.ANY: _of_condition("c held at some turn so far", Kind.CONDITION),
    Function.ALL: _of_condition("c held at every turn at which it could be told, at least one", Kind.CONDITION),
    Function.TURNS_SINCE: _of_condition("this turn number minus that of the latest turn at which c held"),
}
"""Signature by function."""
