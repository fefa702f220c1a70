"""One pass over the turns of every sequence, as SQL: `list_reduce`, whose state is a row of values.

The state is worked out level by level: fields of level 1 from what is read of the turn, fields of level 2 from
those too, and so on, each level bound once. What comes out at the end is read from the state after a turn.

Terms, pieces of SQL, hold placeholders, since the same value has another name in each place where it is read:

    {c:F0}    element of the list column F0 at the present turn
    {x3}      input 3 of the fold at the present turn
    {n7}      field 7 of the state, after this turn
    {o7}      field 7 of the state, before this turn
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from turnwise.errors import PatternError
from turnwise.patterns.function_table import LARGEST

SHORT = 60
"""Characters up to which a term may stand in several places instead of being worked out once."""

INLINE = 200
"""Characters up to which the update of a field is written out where its value is needed, rather than bound."""

_SAFE = LARGEST / 1e3
"""Bounds within this leave room for rounding, so that no check is needed."""

_PLACEHOLDER = re.compile(r"\{(\w+(?::\w+)?)\}")


class Term(NamedTuple):
    """A piece of SQL with bounds of its value; NULL is an undefined number, or a condition that can't be told."""

    sql: str
    level: (
        int  # -1 for a constant, 0 for what is read of the turn alone, else that of the fold where it can be used
    )
    condition: bool = False
    low: float = float("-inf")
    high: float = float("inf")


def number(value: float) -> Term:
    """A number as a literal that DuckDB reads as exactly this DOUBLE.

    >>> number(0.1).sql, number(-2.0).sql, number(1e-07).sql
    ('0.1e0', '(-2.0e0)', '1e-07')
    """
    text = repr(abs(value))
    text = text if "e" in text else f"{text}e0"
    return Term(f"(-{text})" if value < 0 else text, -1, False, value, value)


UNDEFINED = Term("NULL::DOUBLE", -1, False, 0.0, 0.0)
"""A number that is undefined at every turn."""


def needs_check(low: float, high: float) -> bool:
    """Whether a number with these bounds may be beyond what a pattern reckons with."""
    return not (low >= -_SAFE and high <= _SAFE)


def checked(sql: str) -> str:
    """A number that is undefined where it is beyond what a pattern reckons with; the SQL stands in it twice."""
    return f"CASE WHEN abs({sql}) <= {number(LARGEST).sql} THEN {sql} END"


def interval(sign: str, left: Term, right: Term) -> tuple[float, float]:
    """Bounds of the result of arithmetic.

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
    """Replace every placeholder by the name that it has where the SQL is to stand.

    >>> filled("{o1} + {x0}", lambda placeholder: {"o1": "a[2]", "x0": "x[1]"}[placeholder])
    'a[2] + x[1]'
    """
    return _PLACEHOLDER.sub(lambda found: name(found[1]), sql)


def placeholders(sql: str) -> tuple[str, ...]:
    """The placeholders in SQL, each once, in order.

    >>> placeholders("{o1} + {x0} + {o1}")
    ('o1', 'x0')
    """
    return tuple(dict.fromkeys(_PLACEHOLDER.findall(sql)))


MAX_LEVELS = 8
"""Levels of functions of functions; each one more nearly doubles what DuckDB takes to prepare a question."""


@dataclass(slots=True)
class Field:
    """One place of the state: ``start`` is SQL, ``update`` SQL with placeholders; levels count from 1."""

    level: int
    start: str
    update: str = ""


class SqlFold:
    """Columns that are worked out of the turn alone, inputs of the pass, and the fields of its state."""

    def __init__(self) -> None:
        self.fields: list[Field] = []
        self._inputs: dict[str, int] = {}
        self._columns: dict[str, tuple[str, int]] = {}

    def field(self, level: int, start: str = UNDEFINED.sql) -> int:
        if level > MAX_LEVELS:
            raise PatternError(
                f"a query takes functions nested at most {MAX_LEVELS} levels deep; this pattern has more, and can "
                "only be evaluated live"
            )
        self.fields.append(Field(level, start))
        return len(self.fields) - 1

    def kept(self, level: int, update: str) -> str:
        place = self.field(level, "NULL")
        self.fields[place].update = update
        return f"{{n{place}}}"

    def column(self, sql: str) -> str:
        """Return the placeholder of a list column that holds, turn by turn, what SQL of level 0 gives."""
        if sql not in self._columns:
            stages = dict(self._columns.values())
            before = max((stages.get(name[2:], 0) for name in placeholders(sql)), default=0)
            self._columns[sql] = f"y{len(self._columns)}", before + 1
        return f"{{c:{self._columns[sql][0]}}}"

    def input(self, term: Term) -> Term:
        """A term of level 0 as it is read inside the pass."""
        columns = placeholders(term.sql)
        plain = term.sql if columns and term.sql == f"{{{columns[0]}}}" else self.column(term.sql)
        place = self._inputs.setdefault(plain[3:-1], len(self._inputs))
        return term._replace(sql=f"{{x{place}}}", level=1)

    def inlined(self, term: Term) -> Term:
        """Write out the fields in a term while it stays short, so that it is known at an earlier level."""
        sql = term.sql
        while new := [int(name[1:]) for name in placeholders(sql) if name[0] == "n"]:
            highest = max(new, key=lambda place: self.fields[place].level)
            longer = sql.replace(f"{{n{highest}}}", f"({self.fields[highest].update})")
            if len(longer) > INLINE:
                break
            sql = longer
        fields = (int(name[1:]) for name in placeholders(sql) if name[0] == "n")
        return term._replace(sql=sql, level=1 + max((self.fields[place].level for place in fields), default=0))

    # What comes out --------------------------------------------------------------------------------------

    def columns_sql(self, table: str) -> str:
        """The query of a table with the columns that were asked for beside its own."""
        query = table
        for stage in sorted({stage for _, stage in self._columns.values()}):
            made = [f"{elementwise(sql)} AS {name}" for sql, (name, at) in self._columns.items() if at == stage]
            query = f"(SELECT *, {', '.join(made)} FROM {query})"
        return query

    def sql(self) -> str:
        """The pass: an expression whose value is the state after the last turn."""
        start = ", ".join(field.start for field in self.fields)
        return f"list_reduce(list_zip({', '.join(self._inputs)}), lambda a, x, i: {self._body(1)}, row({start}))"

    def after(self, sql: str, state: str) -> str:
        """A term of fields as it is read from a state."""
        return filled(sql, lambda name: f"{state}[{int(name[1:]) + 1}]")

    def _body(self, level: int) -> str:
        last = max(field.level for field in self.fields)
        if level < last:
            bound = [filled(field.update, self._named) for field in self.fields if field.level == level]
            return f"list_transform([row({', '.join(bound)})], lambda n{level}: {self._body(level + 1)})[1]"
        values = [
            self._named(f"n{place}") if field.level < last else filled(field.update, self._named)
            for place, field in enumerate(self.fields)
        ]
        return f"row({', '.join(values)})"

    def _named(self, placeholder: str) -> str:
        kind, place = placeholder[0], int(placeholder[1:])
        if kind in "xo":
            return f"{'x' if kind == 'x' else 'a'}[{place + 1}]"
        level = self.fields[place].level
        same = [at for at, field in enumerate(self.fields) if field.level == level]
        return f"n{level}[{same.index(place) + 1}]"


def elementwise(sql: str) -> str:
    """The list of what SQL of level 0 gives at each evaluated turn.

    >>> elementwise("{c:F0} > 0.5e0")
    'list_transform(F0, lambda e: e > 0.5e0)'
    >>> elementwise("{c:F0} > {c:F1}")
    'list_transform(F0, lambda e, i: e > F1[i])'
    """
    names = [name[2:] for name in placeholders(sql)] or ["turn"]
    index = ", i" if len(names) > 1 else ""
    inside = filled(sql, lambda name: "e" if name == f"c:{names[0]}" else f"{name[2:]}[i]")
    return f"list_transform({names[0]}, lambda e{index}: {inside})"


def set_field(fold: SqlFold, level: int, update: str, start: str = UNDEFINED.sql) -> str:
    """Return the placeholder of a new field; ``{o}`` in its update is its own old value."""
    place = fold.field(level, start)
    fold.fields[place].update = update.replace("{o}", f"{{o{place}}}")
    return f"{{n{place}}}"


def before_of(placeholder: str) -> str:
    """The placeholder of a field's value before this turn, from that after it."""
    return placeholder.replace("{n", "{o")


def number_term(sql: str, level: int, low: float, high: float) -> Term:
    """The term of a number that is read from fields of a level."""
    return Term(sql, level + 1, False, low, high)
