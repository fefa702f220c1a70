"""Values and rows that are damaged: which they are, where they are, and what to do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    Connection,
    Dialect,
    Integer,
    RowMapping,
    Select,
    Table,
    Text,
    cast,
    func,
    or_,
    select,
    type_coerce,
)
from sqlalchemy.exc import DataError, OperationalError

from turnwise._support.visible import shown
from turnwise.conversation.sequence import content_hash
from turnwise.errors import StoreCorruptError, UsageError
from turnwise.store import schema
from turnwise.store.column_types import CheckedType, UnreadableValueError, UtcTime, read_stored_json, read_time

NO_UTF8 = "Could not decode to UTF-8"
"""What SQLite's driver says of a text that is none."""

MEND = "restore a copy, or import and evaluate into another store"
"""What to do where something is damaged."""

UNFIT = (ValueError, TypeError, LookupError, AttributeError)
"""What rows that don't fit together raise where objects are made of them."""

_ROW_NAMES = ("name", "sequence_id", "run", "sequence", "turn", "side", "id")
"""Columns that tell a row from the others of its table."""

_NAMED = {"run": schema.runs.c.name, "sequence": schema.sequences.c.sequence_id}
"""What a column of keys is said by."""

_SHOWN = 200
"""Characters of what a database says that a message shows."""


@contextmanager
def intact(where: str, what: str) -> Iterator[None]:
    """Turn what rows that don't fit together raise inside the block into StoreCorruptError, which names `what`."""
    try:
        yield
    except UNFIT as error:
        reason = first_line(str(error)) or type(error).__name__
        raise StoreCorruptError(
            f"{where} is damaged: {what} can't be read ({reason}); everything else can: {MEND}"
        ) from error


def read_all(connection: Connection, query: Select[Any], where: str) -> list[RowMapping]:
    """All rows of a query; StoreCorruptError, with the place, where a value can't be what its column holds."""
    try:
        return list(connection.execute(query).mappings())
    except (UnreadableValueError, OperationalError, DataError) as error:
        if isinstance(error, OperationalError) and NO_UTF8 not in str(error):
            raise
        place = _unreadable(connection, query)
        if place is None:  # mended meanwhile
            raise
        raise StoreCorruptError(f"{where} is damaged: {place}; other rows can be read: {MEND}") from error


def _unreadable(connection: Connection, query: Select[Any]) -> str | None:
    """Where the first value is that a query can't read, and what it is."""
    columns = list(query.selected_columns)
    for row in _as_stored(connection, query):
        for column, value in zip(columns, row, strict=True):
            try:
                _read_value(column, value, connection.dialect)
            except UnreadableValueError as error:
                return f"{_place(connection, columns, column, row)}: {error}"
    return None


def _as_stored(connection: Connection, query: Select[Any]) -> Iterator[Sequence[Any]]:
    """Yield the rows of a query as stored: texts of SQLite as bytes, times and JSON of PostgreSQL as text."""
    if connection.dialect.name != "sqlite":
        plain = query.with_only_columns(*map(_plain, query.selected_columns), maintain_column_froms=True)
        yield from connection.execute(plain)
        return
    driver = connection.connection.driver_connection
    assert driver is not None
    text = str(query.compile(connection, compile_kwargs={"literal_binds": True}))
    before, driver.text_factory = driver.text_factory, bytes
    try:
        rows = driver.execute(text).fetchall()
    finally:
        driver.text_factory = before
    yield from rows


def _plain(column: Any) -> Any:
    if isinstance(column.type, CheckedType):
        return type_coerce(column, column.type.impl)
    return cast(column, Text) if isinstance(column.type, UtcTime | JSON) else column


def _read_value(column: Any, value: Any, dialect: Dialect) -> None:
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise UnreadableValueError(value, "UTF-8") from None
    if isinstance(column.type, CheckedType):
        column.type.result_processor(dialect, None)(value)
    elif value is not None and isinstance(column.type, UtcTime):
        read_time(value)
    elif value is not None and isinstance(column.type, JSON):
        read_stored_json(value)


def _place(connection: Connection, columns: Sequence[Any], column: Any, row: Sequence[object]) -> str:
    name = f"{column.table.name}.{column.name}" if isinstance(column, Column) else column.name
    keys = {
        key.name: value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
        for key, value in zip(columns, row, strict=True)
    }
    for key in _NAMED.keys() & keys.keys():
        named = select(_NAMED[key]).where(_NAMED[key].table.c.id == keys[key])
        keys[key] = connection.scalar(named) or keys[key]
    if "sequence_id" in keys:
        keys.pop("sequence", None)
    told = (f"{key} is {shown(keys[key])}" for key in _ROW_NAMES if keys.get(key) is not None)
    return f"{name} where {' and '.join(told)}"


def check_turns(wanted: range, found: Collection[int]) -> None:
    """Raise ValueError where the turns that were found are not all those that a sequence has."""
    if len(found) != len(wanted):
        raise ValueError(f"only {len(found)} of its {len(wanted)} turns are there")
    if sorted(found) != list(wanted):
        raise ValueError(f"its turns are not numbered from {wanted.start} to {wanted.stop - 1}")


def check_content(row: Mapping[str, Any] | RowMapping, turns: Collection[Mapping[str, Any] | RowMapping]) -> None:
    """Raise ValueError where a sequence and its turns, given as rows, are not what was stored."""
    check_turns(range(1, row["turns"] + 1), [turn["turn"] for turn in turns])
    for turn in turns:
        for side in ("prompt", "response"):
            if (chars := len(turn[side] or "")) != turn[f"{side}_chars"]:
                raise ValueError(
                    f"the {side} of turn {turn['turn']} has {chars} characters, and {turn[f'{side}_chars']} are "
                    f"stored as {side}_chars"
                )
    said = ((turn["prompt"], turn["response"], turn["metadata"]) for turn in turns)
    names = row["label"], row["source"], row["metadata"], row["conversation"].get("metadata") or {}
    if content_hash(*names, said) != row["content_sha256"]:
        raise ValueError("its prompts, responses, label, source or metadata do not match its content_sha256")


def check_places(connection: Connection, where: str, table: Table, *conditions: ColumnElement[bool]) -> None:
    """Refuse rows of evaluations, failures or scores of people without their turn or provenance, without T, I and
    F in [0, 1], or twice of one key; of those for which `conditions` hold."""
    turns, origins = schema.turns.c, schema.provenances.c
    query = select(table).outerjoin(
        schema.turns, (turns.sequence == table.c.sequence) & (turns.turn == table.c.turn)
    )
    wrong = [turns.turn.is_(None)]
    if "provenance" in table.c:
        same = (origins.run == table.c.run) & (origins.principle == table.c.principle)
        query = query.outerjoin(schema.provenances, (origins.id == table.c.provenance) & same)
        wrong.append(origins.id.is_(None))
    for column in (table.c[name] for name in "TIF" if name in table.c):
        wrong += [column.is_(None), ~column.between(0, 1)]
        if connection.dialect.name == "sqlite":  # in which a column may hold anything
            wrong.append(func.typeof(column).not_in(("real", "integer")))
    bad = read_all(connection, query.where(or_(*wrong), *conditions).limit(1), where)
    reason = "there is no such turn, or its provenance is of another run or principle"
    if table is schema.evaluations and not bad:
        about = [table.c[name] for name in ("run", "sequence", "principle", "turn", "side")]
        twice = select(func.max(table.c.id)).where(*conditions).group_by(*about).having(func.count() > 1).limit(1)
        bad = read_all(connection, select(table).where(table.c.id.in_(twice)), where)
        reason = "there are two scores of that"
    for row in bad:
        columns = list(table.columns)
        place = _place(connection, columns, table.c.turn, [row[column.name] for column in columns])
        raise StoreCorruptError(f"{where} is damaged: {place}: {reason}; {MEND}")


def check_numbers(connection: Connection, where: str, after: int = 0) -> None:
    """Refuse sequences above a row number whose turns are not there, or not numbered from 1."""
    sequences, turns = schema.sequences.c, schema.turns.c
    counted = select(turns.sequence, func.count().label("n"), func.min(turns.turn, type_=Integer()).label("first"))
    counted = counted.add_columns(func.max(turns.turn, type_=Integer()).label("last"))
    there = counted.where(turns.sequence > after).group_by(turns.sequence).subquery()
    query = select(sequences.sequence_id, sequences.turns).outerjoin(there, there.c.sequence == sequences.id)
    wrong = there.c.n.is_(None), there.c.n != sequences.turns, there.c.first != 1, there.c.last != there.c.n
    for row in read_all(connection, query.where(sequences.id > after, or_(*wrong)).limit(1), where):
        raise StoreCorruptError(
            f"{where} is damaged: the turns of sequence {shown(row['sequence_id'])} are not those from 1 to "
            f"{row['turns']}; {MEND}"
        )


def first_line(text: str) -> str:
    """The first line of what somebody else says, and not more of it than is read."""
    line = text.split("\n", 1)[0]
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


def no_unicode(error: UnicodeEncodeError) -> UsageError:
    return UsageError(f"{error.object[:40]!r} has half of a surrogate pair, which is no Unicode text; remove it")
