"""The tables that an export carries, as a store has them at one moment: all of them, or what a choice leaves."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache, cached_property
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Protocol, TypeVar

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Float,
    Integer,
    Select,
    Table,
    exists,
    func,
    select,
    tuple_,
)

from turnwise._support.batches import batched
from turnwise._support.visible import shown
from turnwise.errors import StoreCorruptError, UnknownNameError, UsageError
from turnwise.store import schema
from turnwise.store.column_types import CheckedType, Share, UtcTime, Whole
from turnwise.store.damaged_rows import UNFIT, check_content, check_places, read_all
from turnwise.store.database import PAGE, Database
from turnwise.store.where import known_names, parse_where

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

TellTable = Callable[[str, int], None]
"""Is told the name of each table that is done, and how many rows that were."""

_WHOLE = range(-(2**63), 2**63)


class ColumnKind(Enum):
    """What a column holds."""

    WHOLE = "a whole number"
    NUMBER = "a number"
    TRUTH = "true or false"
    TIME = "a time with a zone, such as 2025-01-31T12:00:00+00:00"
    JSON = "JSON"
    TEXT = "a text"


class Importable(Protocol):
    """What can be imported: a store, or the folder of an export; messages call it `name`."""

    name: str

    def pages(self, table: Table) -> Iterator[list[Row]]:
        """Yield the rows of a table in the order of their keys, some hundreds at a time; StoreError if damaged."""


def conversations(source: Importable) -> Iterator[list[tuple[Row, list[Row]]]]:
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


def kind_of(column: Column[Any]) -> ColumnKind:
    kinds: dict[type, ColumnKind] = {
        UtcTime: ColumnKind.TIME,
        JSON: ColumnKind.JSON,
        Boolean: ColumnKind.TRUTH,
        Share: ColumnKind.NUMBER,
        Float: ColumnKind.NUMBER,
        Whole: ColumnKind.WHOLE,
        Integer: ColumnKind.WHOLE,
    }
    return next((kind for known, kind in kinds.items() if isinstance(column.type, known)), ColumnKind.TEXT)


def key_of(table: Table) -> tuple[Column[Any], ...]:
    return tuple(table.primary_key.columns)


def time_text(time: datetime) -> str:
    """A time as files hold it: ISO 8601 in UTC, with microseconds.

    >>> time_text(datetime(2025, 1, 31, 12, tzinfo=UTC))
    '2025-01-31T12:00:00.000000+00:00'
    """
    return time.astimezone(UTC).isoformat(timespec="microseconds")


@cache
def _times(table: Table) -> frozenset[str]:
    return frozenset(column.name for column in table.columns if kind_of(column) is ColumnKind.TIME)


def json_values(table: Table, row: Row) -> dict[str, Any]:
    """The values of a row by name of its column, as JSON has them: times as text."""
    times = _times(table)
    return {
        name: time_text(row[name]) if name in times and row[name] is not None else row[name]
        for name in table.columns.keys()  # noqa: SIM118 - iterating gives columns
    }


def value_reader(column: Column[Any]) -> Callable[[Any], Any]:
    """A function that turns a value in a file, JSON being read already, into the store's, or raises ValueError."""
    kind, name, nullable = kind_of(column), column.name, column.nullable
    if kind is ColumnKind.JSON:
        return lambda value: value
    make, fits, what = _READ[kind], None, kind.value
    if isinstance(column.type, CheckedType):
        fits, what = column.type.fits, column.type.what

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


_READ: Mapping[ColumnKind, Callable[[Any], Any]] = {
    ColumnKind.WHOLE: lambda value: value if type(value) is int and value in _WHOLE else None,
    ColumnKind.NUMBER: _read_number,
    ColumnKind.TRUTH: lambda value: value if isinstance(value, bool) else None,
    ColumnKind.TIME: _read_time,
    ColumnKind.TEXT: _read_text,
}


Result = TypeVar("Result")

_OUTCOMES = (schema.evaluations, schema.failures)
_PEOPLE = (schema.corrections, schema.human_scores, schema.reviews)


@dataclass(frozen=True, slots=True)
class Choice:
    """What of a store is wanted: keys of runs and of sequences."""

    runs: frozenset[int]
    sequences: frozenset[int]


class Snapshot:
    """The rows of a store as they were at one moment; an `Importable`. `choice` is None for all of them."""

    def __init__(self, connection: Connection, name: str, choice: Choice | None = None) -> None:
        self.name = name
        self._connection = connection
        self.choice = choice

    def pages(self, table: Table, *, named: bool = False) -> Iterator[list[Row]]:
        """Yield the rows of a table by key, some hundreds at a time; `named` ones also say what keys stand for."""
        pages = self._pages(table, _named(table) if named else select(table))
        if not named:
            yield from pages
            return
        for page in pages:
            for row in page:
                if None in (row.get("sequence_id", ""), row.get("run_name", "")):
                    raise self._damaged(f"row {row.get('id')} of {table.name} is about what is not there")
            yield page

    def _pages(self, table: Table, query: Select[Any]) -> Iterator[list[Row]]:
        choice = self.choice
        if choice is None:
            yield from self._all(query, key_of(table))
        elif table is schema.sequences:
            yield from self._some(query, table.c.id, choice.sequences)
        elif table is schema.turns:
            yield from self._some(query, table.c.sequence, choice.sequences)
        elif table is schema.replies:
            yield from self._some(query, table.c.id, self._replies)
        elif table is not schema.audit_events:
            if table is schema.calls:
                query = _calls()
            elif "run" in table.c:
                query = query.where(table.c.run.in_(choice.runs))
            for page in self._all(query, key_of(table)):
                if rows := [row for row in page if _chosen(table, row, choice)]:
                    yield rows

    def check(self) -> None:
        """Refuse sequences with other content than was stored, and rows that are about what is not there."""
        for row, turns in chain.from_iterable(conversations(self)):
            try:
                check_content(row, turns)
            except UNFIT as error:
                raise self._damaged(f"sequence {row['sequence_id']!r} can't be read ({error})") from error
        for table in TABLES if self.choice is None else ():
            for column in table.columns:
                for other in (foreign.column for foreign in column.foreign_keys):
                    lost = column.is_not(None) & ~exists().where(other == column)
                    if (key := self._connection.scalar(select(column).where(lost).limit(1))) is not None:
                        what = f"a row of {table.name} is about row {key} of {other.table.name}"
                        raise self._damaged(f"{what}, which is not there")
        for table in (*_OUTCOMES, schema.human_scores):
            for conditions in self._parts(table):
                check_places(self._connection, self.name, table, *conditions)

    def _parts(self, table: Table) -> Iterator[list[ColumnElement[bool]]]:
        """Yield conditions for the rows of a table that are wanted, some sequences at a time."""
        if self.choice is None:
            yield []
            return
        of_runs = [table.c.run.in_(self.choice.runs)] if "run" in table.c else []
        for some in batched(sorted(self.choice.sequences), PAGE):
            yield [table.c.sequence.in_(some), *of_runs]

    def _damaged(self, reason: str) -> StoreCorruptError:
        return StoreCorruptError(
            f"{self.name} is damaged: {reason}; restore a copy, or export the rest with --run and --where"
        )

    def calls_with_outcomes(self) -> Iterator[Row]:
        """Yield the calls with what identifies the evaluation or failure of each."""
        for page in self._all(_calls(), key_of(schema.calls)):
            for row in page:
                if self.choice is None or _chosen(schema.calls, row, self.choice):
                    yield row

    @cached_property
    def _replies(self) -> frozenset[int]:
        """Keys of the replies that what is wanted rests on."""
        tables = (*_OUTCOMES, schema.calls)
        rows = (row for table in tables for page in self.pages(table) for row in page)
        return frozenset(row["reply"] for row in rows if row["reply"] is not None)

    def _all(self, query: Select[Any], key: tuple[Column[Any], ...]) -> Iterator[list[Row]]:
        ordered = query.order_by(*key).limit(PAGE)
        page: list[Any] = self._read(ordered)
        while page:
            yield page
            last = [page[-1][column.name] for column in key]
            page = self._read(ordered.where(tuple_(*key) > last if len(key) > 1 else key[0] > last[0]))

    def _some(self, query: Select[Any], column: Column[Any], keys: Collection[int]) -> Iterator[list[Row]]:
        for some in batched(sorted(keys), PAGE):
            if page := self._read(query.where(column.in_(some)).order_by(*key_of(column.table))):
                yield page

    def _read(self, query: Select[Any]) -> list[Any]:
        return read_all(self._connection, query, self.name)


def read_snapshot(
    database: Database,
    job: Callable[[Snapshot], Result],
    runs: Collection[str] | None = None,
    where: str | None = None,
) -> Result:
    """What a job makes of one state of a store, or of what `runs` and `where` choose; it may run several times."""

    def read(connection: Connection) -> Result:
        choice = None if runs is None and where is None else _choose(connection, runs, where)
        return job(Snapshot(connection, database.where, choice))

    return database.ask(read)


def _choose(connection: Connection, runs: Collection[str] | None, where: str | None) -> Choice:
    keys = {row.name: row.id for row in connection.execute(select(schema.runs.c.name, schema.runs.c.id))}
    for name in runs or ():
        if name not in keys:
            raise UnknownNameError("run", name, keys)
    chosen = frozenset(keys[name] for name in (keys if runs is None else runs))
    sequences: frozenset[int] | None = None
    if runs is not None:
        queries = (select(table.c.sequence).where(table.c.run.in_(chosen)).distinct() for table in _OUTCOMES)
        sequences = frozenset(key for query in queries for key in connection.scalars(query))
    if where is not None:
        condition = parse_where(where, known_names(connection))
        if "cost" in condition.fields and (runs is None or len(set(runs)) != 1):
            raise UsageError("--where asks for the cost of sequences: name the one run that is meant with --run")
        holds = frozenset(condition.sequences(connection, next(iter(runs or ()), ""), {}))
        sequences = holds if sequences is None else sequences & holds
        if not sequences:
            raise UsageError(f"no sequence is left to export: --where {where!r} holds for none of them")
    return Choice(chosen, sequences or frozenset())


def _chosen(table: Table, row: Row, choice: Choice) -> bool:
    if table is schema.runs:
        return row["id"] in choice.runs
    if table is schema.provenances:
        return row["run"] in choice.runs
    if table in _PEOPLE:
        return row["sequence"] in choice.sequences
    if table is schema.calls:
        return row["of_run"] in choice.runs and row["of_sequence"] in choice.sequences
    return row["run"] in choice.runs and row["sequence"] in choice.sequences


def _calls() -> Select[Any]:
    calls, (scores, failures), runs, sequences = schema.calls, _OUTCOMES, schema.runs, schema.sequences
    names = ("run", "sequence", "principle", "turn", "side")
    about = {name: func.coalesce(scores.c[name], failures.c[name]) for name in names}
    labels = {"run": "of_run", "sequence": "of_sequence"}
    columns: list[Any] = [column.label(labels.get(name, name)) for name, column in about.items()]
    columns += [runs.c.name.label("run_name"), sequences.c.sequence_id]
    query = select(calls, *columns).outerjoin(scores, scores.c.id == calls.c.evaluation)
    query = query.outerjoin(failures, failures.c.id == calls.c.failure)
    return query.join(runs, runs.c.id == about["run"]).join(sequences, sequences.c.id == about["sequence"])


def _named(table: Table) -> Select[Any]:
    query, sequences, runs, provenances = select(table), schema.sequences, schema.runs, schema.provenances
    if "sequence" in table.c:
        about = sequences.c.sequence_id, sequences.c.label, sequences.c.source
        query = query.add_columns(*about).outerjoin(sequences, sequences.c.id == table.c.sequence)
    if "run" in table.c:
        query = query.add_columns(runs.c.name.label("run_name")).outerjoin(runs, runs.c.id == table.c.run)
    if "provenance" in table.c:
        versions = provenances.c.principle_version, provenances.c.code_version
        query = query.add_columns(*versions).outerjoin(provenances, provenances.c.id == table.c.provenance)
    return query
