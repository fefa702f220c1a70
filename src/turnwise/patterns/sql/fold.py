"""One pass over the turns of every sequence: `list_reduce`, whose state is a row of values.

The state is worked out level by level: fields of level 1 from what is read of the turn, fields of level 2 from
those too, and so on, each level bound once. What comes out at the end is read of the state after a turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnwise.errors import PatternError
from turnwise.patterns.sql.terms import INLINE, UNDEFINED, Term, filled, placeholders

MAX_LEVELS = 8
"""Levels of functions of functions; each one more nearly doubles what DuckDB takes to prepare a question."""


@dataclass(slots=True)
class Field:
    """One place of the state.

    Args:
        level: at which it is worked out, from 1.
        start: its value before the first turn, as SQL.
        update: its value after a turn, with placeholders.
    """

    level: int
    start: str
    update: str = ""


class Fold:
    """Columns that are worked out of the turn alone, inputs of the pass, and the fields of its state."""

    def __init__(self) -> None:
        self.fields: list[Field] = []
        self._inputs: dict[str, int] = {}
        self._columns: dict[str, tuple[str, int]] = {}

    def field(self, level: int, start: str = UNDEFINED.sql) -> int:
        """Return the place of a new field, whose update is to be set.

        Raises:
            PatternError: functions are nested too deep.
        """
        if level > MAX_LEVELS:
            raise PatternError(
                f"a query takes functions nested at most {MAX_LEVELS} levels deep; this pattern has more, and can "
                "only be evaluated live"
            )
        self.fields.append(Field(level, start))
        return len(self.fields) - 1

    def kept(self, level: int, update: str) -> str:
        """Return the placeholder of a field that holds a value of the turn."""
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
        """Return a term of level 0 as it is read inside the pass."""
        columns = placeholders(term.sql)
        plain = term.sql if columns and term.sql == f"{{{columns[0]}}}" else self.column(term.sql)
        place = self._inputs.setdefault(plain[3:-1], len(self._inputs))
        return term._replace(sql=f"{{x{place}}}", level=1)

    def inlined(self, term: Term) -> Term:
        """Return a term with the fields in it written out while that stays short, so that it is known earlier."""
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
        """Return the query of a table with the columns that were asked for beside its own."""
        query = table
        for stage in sorted({stage for _, stage in self._columns.values()}):
            made = [f"{elementwise(sql)} AS {name}" for sql, (name, at) in self._columns.items() if at == stage]
            query = f"(SELECT *, {', '.join(made)} FROM {query})"
        return query

    def sql(self) -> str:
        """Return the pass: an expression whose value is the state after the last turn."""
        start = ", ".join(field.start for field in self.fields)
        return f"list_reduce(list_zip({', '.join(self._inputs)}), lambda a, x, i: {self._body(1)}, row({start}))"

    def after(self, sql: str, state: str) -> str:
        """Return a term of fields as it is read of a state."""
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
    """Return the list of what SQL of level 0 gives at each evaluated turn.

    >>> elementwise("{c:F0} > 0.5e0")
    'list_transform(F0, lambda e: e > 0.5e0)'
    >>> elementwise("{c:F0} > {c:F1}")
    'list_transform(F0, lambda e, i: e > F1[i])'
    """
    names = [name[2:] for name in placeholders(sql)] or ["turn"]
    index = ", i" if len(names) > 1 else ""
    inside = filled(sql, lambda name: "e" if name == f"c:{names[0]}" else f"{name[2:]}[i]")
    return f"list_transform({names[0]}, lambda e{index}: {inside})"
