"""Values and rows that can't be what they should: which they are, where they are, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import JSON, Column, Connection, RowMapping, Select, Text, cast
from sqlalchemy.exc import DataError, OperationalError

from turnwise.errors import StoreCorruptError, UsageError
from turnwise.store import schema

NO_UTF8 = "Could not decode to UTF-8"
"""What SQLite's driver says of a text that is none."""

MEND = "restore a copy, or import and evaluate into another store"
"""What to do where something is damaged."""

_ROW_NAMES = ("name", "sequence_id", "id", "sequence", "turn")
"""Columns that tell a row from the others of its table."""

_SHOWN = 200
"""Characters of what a database says that a message shows."""


@contextmanager
def intact(where: str, what: str) -> Iterator[None]:
    """Turn what is raised where rows do not fit together inside the block into an error that names them.

    Args:
        where: the store, as messages name it.
        what: what the rows are about, such as ``"sequence 'a'"``.

    Raises:
        StoreCorruptError: a value is missing, or can't be.
    """
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        reason = first_line(str(error)) or type(error).__name__
        raise StoreCorruptError(
            f"{where} is damaged: {what} can't be read ({reason}); everything else can: {MEND}"
        ) from error


def read_all(connection: Connection, query: Select[Any], where: str) -> list[RowMapping]:
    """Return all rows of a query.

    Args:
        connection: in a transaction.
        query: the query.
        where: the store, as messages name it.

    Raises:
        StoreCorruptError: a value can't be what its column holds; the message says where it is.
    """
    try:
        return list(connection.execute(query).mappings())
    except (schema.UnreadableValueError, OperationalError, DataError) as error:
        if isinstance(error, OperationalError) and NO_UTF8 not in str(error):
            raise
        place = _unreadable(connection, query)
        if place is None:  # mended meanwhile
            raise
        raise StoreCorruptError(f"{where} is damaged: {place}; other rows can be read: {MEND}") from error


def _unreadable(connection: Connection, query: Select[Any]) -> str | None:
    """Return where the first value is that a query can't read, and what it is."""
    columns = list(query.selected_columns)
    for row in _as_stored(connection, query):
        for column, value in zip(columns, row, strict=True):
            try:
                _read_value(column, value)
            except schema.UnreadableValueError as error:
                return f"{_place(columns, column, row)}: {error}"
    return None


def _as_stored(connection: Connection, query: Select[Any]) -> Iterator[Sequence[Any]]:
    """Yield the rows of a query as they are stored: texts of SQLite as bytes, and all of PostgreSQL as text."""
    if connection.dialect.name != "sqlite":
        texts = (cast(column, Text) for column in query.selected_columns)
        yield from connection.execute(query.with_only_columns(*texts, maintain_column_froms=True))
        return
    driver = connection.connection.driver_connection
    assert driver is not None
    text = str(query.compile(connection, compile_kwargs={"literal_binds": True}))
    before, driver.text_factory = driver.text_factory, bytes
    try:
        yield from driver.execute(text)
    finally:
        driver.text_factory = before


def _read_value(column: Any, value: Any) -> None:
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise schema.UnreadableValueError(value, "UTF-8") from None
    if value is not None and isinstance(column.type, schema.UtcTime):
        schema.read_time(value)
    elif value is not None and isinstance(column.type, JSON):
        schema.read_stored_json(value)


def _place(columns: Sequence[Any], column: Any, row: Sequence[object]) -> str:
    name = f"{column.table.name}.{column.name}" if isinstance(column, Column) else column.name
    keys = {
        key.name: value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
        for key, value in zip(columns, row, strict=True)
    }
    return " ".join([name, "where", " and ".join(f"{key} is {keys[key]!r}" for key in _ROW_NAMES if key in keys)])


def first_line(text: str) -> str:
    """Return the first line of what somebody else says, and not more of it than is read."""
    line = text.split("\n", 1)[0]
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


def no_unicode(error: UnicodeEncodeError) -> UsageError:
    """Return the error for a text that can't be written as UTF-8."""
    return UsageError(f"{error.object[:40]!r} contains an unpaired surrogate, which is not valid Unicode")
