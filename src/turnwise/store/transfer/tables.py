"""The tables that an export carries, and their values as files can hold them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from enum import Enum
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Protocol

from sqlalchemy import JSON, Boolean, Column, Float, Integer, Table

from turnwise._support.visible import shown
from turnwise.errors import StoreCorruptError
from turnwise.store import schema
from turnwise.store.column_types import Checked, Share, UtcTime, Whole

TABLES: tuple[Table, ...] = (
    schema.sequences,
    schema.turns,
    schema.runs,
    schema.provenances,
    schema.replies,
    schema.evaluations,
    schema.failures,
    schema.calls,
    schema.corrections,
    schema.human_scores,
    schema.reviews,
    schema.audit_events,
)
"""All that a record holds, each table behind those that it names; the history of the schema is left
out, and receipts of erasures, which are about this record alone."""

Row = Mapping[str, Any]
"""A row by name of the column: times are aware, JSON is read."""

Progress = Callable[[str, int], None]
"""Is told the name of each table that is done, and how many rows that were."""

_WHOLE = range(-(2**63), 2**63)


class Kind(Enum):
    """What a column holds."""

    WHOLE = "a whole number"
    NUMBER = "a number"
    TRUTH = "true or false"
    TIME = "a time with a zone, such as 2025-01-31T12:00:00+00:00"
    JSON = "JSON"
    TEXT = "a text"


class Record(Protocol):
    """What can be imported: a store, or the folder of an export; messages call it `name`."""

    name: str

    def pages(self, table: Table) -> Iterator[list[Row]]:
        """Yield the rows of a table in the order of their keys, some hundreds at a time; StoreError if damaged."""


def conversations(source: Record) -> Iterator[list[tuple[Row, list[Row]]]]:
    """Yield the sequences of a record with their turns, some hundreds at a time."""
    turns = groupby(chain.from_iterable(source.pages(schema.turns)), itemgetter("sequence"))
    of, some = next(turns, (None, iter(())))
    for page in source.pages(schema.sequences):
        found = []
        for row in page:
            found.append((row, list(some) if of == row["id"] else []))
            if of == row["id"]:
                of, some = next(turns, (None, iter(())))
        yield found
    if of is not None:
        raise StoreCorruptError(f"{source.name} is damaged: turns of a missing sequence {of}; restore a copy")


def kind_of(column: Column[Any]) -> Kind:
    """What a column holds."""
    kinds: dict[type, Kind] = {
        UtcTime: Kind.TIME,
        JSON: Kind.JSON,
        Boolean: Kind.TRUTH,
        Share: Kind.NUMBER,
        Float: Kind.NUMBER,
        Whole: Kind.WHOLE,
        Integer: Kind.WHOLE,
    }
    return next((kind for known, kind in kinds.items() if isinstance(column.type, known)), Kind.TEXT)


def key_of(table: Table) -> tuple[Column[Any], ...]:
    """The columns by which the rows of a table are ordered."""
    return tuple(table.primary_key.columns)


def time_text(time: datetime) -> str:
    """A time as files hold it: ISO 8601 in UTC, with microseconds.

    >>> time_text(datetime(2025, 1, 31, 12, tzinfo=UTC))
    '2025-01-31T12:00:00.000000+00:00'
    """
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def value_reader(column: Column[Any]) -> Callable[[Any], Any]:
    """A function that turns a value in a file into the one that the store takes, or raises ValueError.

    A time may be a text; JSON is read already.
    """
    kind, name, nullable = kind_of(column), column.name, column.nullable
    if kind is Kind.JSON:
        return lambda value: value
    make, fits, what = _READ[kind], None, kind.value
    if isinstance(column.type, Checked):
        fits, what = column.type.fits(), column.type.what

    def read(value: Any) -> Any:
        if value is None:
            if nullable:
                return None
            raise ValueError(f"{name} is missing")
        made = make(value)
        if made is None or not (fits is None or fits(made)):
            raise ValueError(f"{name} is {shown(value)}, not {what}")
        return made

    return read


def _read_time(value: Any) -> datetime | None:
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        return time.astimezone(UTC) if time.tzinfo else None
    except (TypeError, ValueError, OverflowError):
        return None


def _read_text(value: Any) -> str | None:
    try:
        return value if isinstance(value, str) and value.encode() is not None else None
    except UnicodeEncodeError:  # half of a surrogate pair
        return None


def _read_number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        return float(value) if is_number and not math.isnan(value) else None
    except OverflowError:
        return None


_READ: Mapping[Kind, Callable[[Any], Any]] = {
    Kind.WHOLE: lambda value: value if type(value) is int and value in _WHOLE else None,
    Kind.NUMBER: _read_number,
    Kind.TRUTH: lambda value: value if isinstance(value, bool) else None,
    Kind.TIME: _read_time,
    Kind.TEXT: _read_text,
}
