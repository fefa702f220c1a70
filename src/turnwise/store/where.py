"""Which sequences a question is about, in a line: ``source = mhj and turns >= 5 and metadata.tactic = "x"``.

    where      = both ("or" both)*
    both       = one ("and" one)*
    one        = "not" one | "(" where ")" | field comparison value
    field      = id | label | source | turns | chars | response_chars | cost | status | assignee
               | metadata.KEY[.KEY ...]
    comparison = "=" | "!=" | "<" | "<=" | ">" | ">="
    value      = a number | a word | a text in double quotes

It is read with the words of the pattern language and tried on rows in Python: nothing of it becomes SQL.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, func, select, union_all

from turnwise.conversation import Label
from turnwise.errors import UnknownNameError
from turnwise.patterns.tokeniser import Token, TokenReader
from turnwise.store import schema
from turnwise.store.people import NOBODY, Review, Status, stored_reviews

if TYPE_CHECKING:
    from sqlalchemy import ScalarSelect

STORED = frozenset(("cost", "status", "assignee"))
"""Fields that only a sequence of a store has."""

FIELDS = ("id", "label", "source", "turns", "chars", "response_chars", "cost", "status", "assignee", "metadata")
"""What can be asked of a sequence; the characters are summed over its turns, the cost is the run's, in US $."""

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip

_MOST_NESTED = 60

_UNSAID: Mapping[str, str] = {"status": str(Status.NEW), "assignee": NOBODY}
"""Of a sequence that nobody said anything of."""

Row = Mapping[str, Any]

Labels = Mapping[str, Label | None]
"""By sequence the label that people gave it; None where they disagree."""


@dataclass(frozen=True, slots=True)
class Where:
    """A condition on sequences: its text, the `FIELDS` that it reads, and whether it holds for their values."""

    text: str
    fields: frozenset[str]
    holds: Callable[[Row], bool]

    def sequences(self, record: Connection, run: str, labels: Labels) -> list[int]:
        """The row numbers of the sequences for which it holds; `run` is the one whose cost is meant."""
        table = schema.sequences.c
        columns = {
            "id": table.sequence_id,
            "label": table.label,
            "source": table.source,
            "turns": table.turns,
            "chars": _summed("prompt_chars"),
            "response_chars": _summed("response_chars"),
            "metadata": table.metadata,
        }
        reviews = stored_reviews(record) if self.by_id else ()
        fields = self.fields | {"id"} if labels or self.by_id else self.fields
        read = [column.label(name) for name, column in columns.items() if name in fields]
        cost = _costs(record, run) if "cost" in self.fields else {}
        rows = record.execute(select(table.id.label("number"), *read)).mappings()
        given = (([row["number"]], {**row, "cost": cost.get(row["number"])}) for row in rows)
        return self.chosen(given, labels, reviews)

    @property
    def by_id(self) -> bool:
        """Whether it asks where a sequence stands, which is known by its id."""
        return bool(self.fields & {"status", "assignee"})

    def chosen(
        self, rows: Iterable[tuple[list[int], Row]], labels: Labels, reviews: Iterable[Review] = ()
    ) -> list[int]:
        """The row numbers of the sequences for which it holds, of rows with the numbers that each is about."""
        found: list[int] = []
        said = {one.sequence_id: _standing(one) for one in reviews}  # the last counts
        for numbers, row in rows:
            given = {**row, "label": labels[row["id"]]} if labels and row["id"] in labels else row
            if self.by_id:
                given = {**given, **said.get(row["id"], _UNSAID)}
            if self.holds(given):
                found += numbers
        return found


def _standing(review: Review) -> Row:
    return {"status": str(review.status), "assignee": review.assignee or NOBODY}


def parse_where(text: str, known: Callable[[str], Collection[str]] | None = None) -> Where:
    """The condition on sequences that a text says; the grammar is at the top of this module.

    `known` gives the names that there are of ``"metadata"`` or ``"source"``; None takes every name. PatternError
    points at the place that can't be read, and lists the names that there are.

    >>> where = parse_where('turns >= 5 and not metadata.tactic = "slow boil"')
    >>> where.holds({"turns": 6, "metadata": {"tactic": "slow boil"}}), where.holds({"turns": 6, "metadata": {}})
    (False, True)
    """
    reader = _WhereReader(text, known)
    holds = reader.read()
    return Where(text, frozenset(reader.fields), holds)


def known_names(record: Connection) -> Callable[[str], Collection[str]]:
    """A function that gives the sources, or the keys of the metadata, that a record has."""

    @cache
    def names(what: str) -> Collection[str]:
        if what == "source":
            return set(record.scalars(select(schema.sequences.c.source).distinct()))
        return {str(key) for row in record.scalars(select(schema.sequences.c.metadata)) for key in row}

    return names


class _WhereReader(TokenReader):
    """Reads one condition, once."""

    def __init__(self, text: str, known: Callable[[str], Collection[str]] | None) -> None:
        super().__init__(text)
        self.fields: set[str] = set()
        self._known = known
        self._nested = 0

    def read(self) -> Callable[[Row], bool]:
        holds = self._either()
        if self.next.kind != "end":
            raise self.error(f"expected 'and', 'or' or the end before {self.shown(self.next)}", self.next)
        return holds

    def _either(self) -> Callable[[Row], bool]:
        parts = [self._both()]
        while self.operator() == "or":
            self.take()
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else lambda row: any(part(row) for part in parts)

    def _both(self) -> Callable[[Row], bool]:
        parts = [self._one()]
        while self.operator() == "and":
            self.take()
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else lambda row: all(part(row) for part in parts)

    def _one(self) -> Callable[[Row], bool]:
        self._nested += 1
        if self._nested > _MOST_NESTED:
            raise self.error(f"nested more than {_MOST_NESTED} levels deep", self.next)
        first = self.take()
        if first.kind == "name" and first.text == "not":
            inner = self._one()
            holds: Callable[[Row], bool] = lambda row: not inner(row)  # noqa: E731
        elif first.kind == "symbol" and first.text == "(":
            holds = self._either()
            self.closing(first)
        else:
            holds = self._comparison(first)
        self._nested -= 1
        return holds

    def _comparison(self, first: Token) -> Callable[[Row], bool]:
        value_of, field = self._field(first)
        sign = self.take()
        if sign.kind != "symbol" or sign.text not in _COMPARE:
            raise self.error(f"expected a comparison after the field: one of {' '.join(_COMPARE)}", sign)
        wanted = self._value(field)
        compare = _COMPARE[sign.text]
        return lambda row: _compared(compare, value_of(row), wanted)

    def _field(self, first: Token) -> tuple[Callable[[Row], Any], str]:
        name = first.text
        if first.kind != "name" or name not in FIELDS:
            if first.kind == "name" and self._known is not None and name in self._known("metadata"):
                raise self.error(f"{name} is in the metadata of sequences: write metadata.{name}", first)
            raise self.error(str(UnknownNameError("field", self.shown(first) or "the end", FIELDS)), first)
        self.fields.add(name)
        if name != "metadata":
            return operator.itemgetter(name), name
        path: list[str] = []
        while self.comes("."):
            self.take()
            if self.next.kind not in ("name", "quoted"):
                raise self.error("expected a metadata key after the dot", self.next)
            path.append(self.next.text)
            if len(path) == 1 and self._known is not None and path[0] not in (keys := self._known("metadata")):
                raise self.error(str(UnknownNameError("key of the metadata", path[0], keys)), self.next)
            self.take()
        if not path:
            keys = () if self._known is None else sorted(self._known("metadata"))
            raise self.error(f"write metadata.KEY; known keys: {', '.join(keys) or 'none'}", first)
        return lambda row: _inside(row["metadata"], path), name

    def _value(self, field: str) -> float | str:
        sign = "-" if self.comes("-") and self.take() else ""
        token = self.take()
        if token.kind not in ("number", "quoted") and (token.kind != "name" or sign):
            raise self.error("expected a number, a word, or text in double quotes", token)
        if token.kind == "number":
            return float(f"{sign}{token.text}")
        words: Mapping[str, type[StrEnum]] = {"label": Label, "status": Status}
        known: Iterable[str] | None = list(map(str, words[field])) if field in words else None
        if field == "source" and self._known is not None:
            known = self._known("source")
        if known is not None and token.text not in known:
            raise self.error(str(UnknownNameError(field, token.text, known)), token)
        if self.comes("-") and self.next.start == token.end:
            raise self.error("put a value that is not a plain word in double quotes", self.next)
        return token.text


def _inside(value: Any, path: Iterable[str]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _compared(compare: Callable[[Any, Any], bool], value: Any, wanted: float | str) -> bool:
    """How a value compares: of a list one item is enough, and what is not there compares to nothing."""
    if isinstance(value, list):
        return any(_compared(compare, item, wanted) for item in value)
    if value is None or isinstance(value, Mapping):
        return False
    if isinstance(wanted, str):
        return compare(value if isinstance(value, str) else json.dumps(value), wanted)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return compare is operator.ne
    return compare(value, wanted)


def _summed(column: str) -> ScalarSelect[Any]:
    turns = schema.turns.c
    return (
        select(func.coalesce(func.sum(turns[column]), 0)).where(turns.sequence == schema.sequences.c.id)
    ).scalar_subquery()


def _costs(record: Connection, run: str) -> dict[int, float]:
    """What a run spent on each sequence, of those whose cost is known."""
    key = select(schema.runs.c.id).where(schema.runs.c.name == run).scalar_subquery()
    parts = [
        select(table.c.sequence, table.c.cost_usd).where(table.c.run == key, table.c.cost_usd.is_not(None))
        for table in (schema.evaluations, schema.failures)
    ]
    both = union_all(*parts).subquery()
    query = select(both.c.sequence, func.sum(both.c.cost_usd).label("cost")).group_by(both.c.sequence)
    return {row.sequence: row.cost for row in record.execute(query)}
