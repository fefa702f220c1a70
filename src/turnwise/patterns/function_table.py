"""What a function of the pattern language is, and the table of all; their forms in Python say what each means.

Live, a function keeps a cell, a list of JSON values. An update takes the cell, the turn number and the value of
the argument, None where undefined; it changes the cell in place and returns the function's value after the turn,
None where undefined. In SQL a function is fields of a fold, with the same arithmetic step by step, so that both
agree to the last digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from turnwise.errors import PatternError

if TYPE_CHECKING:
    from turnwise.patterns.sql_fold import Term

Cell = list[Any]
Update = Callable[[Cell, int, Any], Any]
PythonForm = TypeVar("PythonForm", bound=Callable[..., Any])

LARGEST = 1e100
"""A number beyond ±1e100 is undefined, so that no running sum overflows."""

MAX_TURN = 1_000_000_000
"""Largest turn number that a pattern may name."""

MAX_WINDOW = 100
"""Longest window, in values: what a pattern may keep of a conversation is bounded."""


def bounded(value: float) -> float | None:
    """Return a number, or None where it is beyond `LARGEST` or not a number at all.

    >>> bounded(0.5), bounded(1e101), bounded(float("nan"))
    (0.5, None, None)
    """
    return value if -LARGEST <= value <= LARGEST else None


def without_parameters(*start: Any) -> Callable[[Update], Callable[[], tuple[Cell, Update]]]:
    """Make an update the live form of a function without parameters, whose cell holds `start` at first."""
    return lambda update: lambda: ([*start], update)


class ValueKind(StrEnum):
    """What an expression is at a turn: a number, or a condition that holds or does not."""

    NUMBER = "number"
    CONDITION = "condition"


class Function(str):
    """The name of a function; its repr goes into the digest of saved states, so it has to stay as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<Function.{self.upper()}: {str(self)!r}>"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number that a function takes beside its argument, the same at every turn; in [low, high]."""

    name: str
    low: float = -LARGEST
    high: float = LARGEST
    whole: bool = False
    above: bool = False  # excludes `low`
    default: float | None = None
    required: bool = False
    by_name: bool = True  # written ``name=value``

    def read(self, function: str, value: object) -> float | int:
        """Return a value as an int where the parameter is whole, else as a float; PatternError out of range.

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
class Definition:
    """A function of the language: what it takes and gives, and how it is evaluated, live and in SQL."""

    of: ValueKind
    gives: ValueKind
    parameters: tuple[Parameter, ...]
    live: Callable[..., tuple[Cell, Update]]
    sql: Callable[..., Term]
    pointwise: bool = False  # it depends on the present turn alone


FUNCTIONS: dict[str, Definition] = {}
"""Definition by name, of every function of the language; `number_functions` and `conditional` fill it."""


def define(
    live: Callable[..., tuple[Cell, Update]],
    sql: Callable[..., Term],
    *parameters: Parameter,
    of: ValueKind = ValueKind.NUMBER,
    gives: ValueKind = ValueKind.NUMBER,
    pointwise: bool = False,
) -> Callable[[PythonForm], PythonForm]:
    """Define a function under the name of its Python form, which ends in ``_`` where Python has one like it."""

    def defined(form: PythonForm) -> PythonForm:
        name = form.__name__.removesuffix("_")
        FUNCTIONS[name] = Definition(of, gives, parameters, live, sql, pointwise)
        return form

    return defined
