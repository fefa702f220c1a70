"""Pieces of SQL with what has to be known to put them together: where they can stand, and how large they get.

Terms hold placeholders instead of names, since the same value has another name in each place it is read at:

    {c:F0}    element of the list column F0 at the present turn
    {x3}      input 3 of the fold at the present turn
    {n7}      field 7 of the state, after this turn
    {o7}      field 7 of the state, before this turn
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import NamedTuple

from turnwise.patterns.functions import LARGEST

SHORT = 60
"""Characters up to which a term may stand in several places instead of being worked out once."""

INLINE = 200
"""Characters up to which the update of a field is written out where its value is needed, rather than bound."""

_SAFE = LARGEST / 1e3
"""Bounds within this leave room for rounding, so that no check is needed."""

_PLACEHOLDER = re.compile(r"\{(\w+(?::\w+)?)\}")


class Term(NamedTuple):
    """A piece of SQL.

    Args:
        sql: its text; NULL is an undefined number, or a condition that can't be told.
        level: -1 of a constant, 0 of what is read of the turn alone, else the level of the fold at which it can be
            worked with.
        condition: whether it is true or false rather than a number.
        low: no defined value is below this; minus infinity where nothing is known.
        high: no defined value is above this.
    """

    sql: str
    level: int
    condition: bool = False
    low: float = float("-inf")
    high: float = float("inf")


def number(value: float) -> Term:
    """Return a number as a literal that DuckDB reads as exactly this DOUBLE.

    >>> number(0.1).sql, number(-2.0).sql, number(1e-07).sql
    ('0.1e0', '(-2.0e0)', '1e-07')
    """
    text = repr(abs(value))
    text = text if "e" in text else f"{text}e0"
    return Term(f"(-{text})" if value < 0 else text, -1, False, value, value)


UNDEFINED = Term("NULL::DOUBLE", -1, False, 0.0, 0.0)
"""A number that is undefined at every turn."""


def needs_check(low: float, high: float) -> bool:
    """Return whether a number with these bounds may be beyond what a pattern reckons with."""
    return not (low >= -_SAFE and high <= _SAFE)


def checked(sql: str) -> str:
    """Return a number that is undefined where it is beyond what a pattern reckons with; it stands twice in it."""
    return f"CASE WHEN abs({sql}) <= {number(LARGEST).sql} THEN {sql} END"


def interval(sign: str, left: Term, right: Term) -> tuple[float, float]:
    """Return between which bounds the result of arithmetic lies.

    >>> interval("*", number(-2.0), Term("x", 0, False, 0.0, 1.0))
    (-2.0, -0.0)
    """
    pairs: list[float]
    match sign:
        case "+":
            return left.low + right.low, left.high + right.high
        case "-":
            return left.low - right.high, left.high - right.low
        case "*":
            pairs = [x * y for x in (left.low, left.high) for y in (right.low, right.high)]
        case _:
            if right.low <= 0 <= right.high:
                return float("-inf"), float("inf")
            pairs = [x / y for x in (left.low, left.high) for y in (right.low, right.high)]
    if any(map(math.isnan, pairs)):  # an infinite bound times zero says nothing
        return float("-inf"), float("inf")
    return min(pairs), max(pairs)


def filled(sql: str, name: Callable[[str], str]) -> str:
    """Return SQL with every placeholder replaced by the name that it has where the SQL is to stand.

    >>> filled("{o1} + {x0}", lambda placeholder: {"o1": "a[2]", "x0": "x[1]"}[placeholder])
    'a[2] + x[1]'
    """
    return _PLACEHOLDER.sub(lambda found: name(found[1]), sql)


def placeholders(sql: str) -> tuple[str, ...]:
    """Return the placeholders in SQL, each once, in order.

    >>> placeholders("{o1} + {x0} + {o1}")
    ('o1', 'x0')
    """
    return tuple(dict.fromkeys(_PLACEHOLDER.findall(sql)))
