"""A file that is locked, read-only or damaged, and rows that do not fit together: which error, and what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, RowMapping, Select
from sqlalchemy.exc import DatabaseError, OperationalError

from turnwise.errors import StoreCorruptError, StoreError, StoreLockedError, UsageError
from turnwise.store import schema

_NO_UTF8 = "Could not decode to UTF-8"
"""What the driver says of a text that is none."""

_ROW_NAMES = ("name", "sequence_id", "id", "sequence", "turn")
"""Columns that tell a row from the others of its table."""

_SHOWN = 200
"""Characters of what SQLite says that a message shows."""

_MEND = "restore a copy, or import and evaluate into another store"


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn what SQLite raises inside the block into an error that says what to do.

    Raises:
        StoreError: what SQLite says of the file.
        UsageError: a text that can't be written as UTF-8.
    """
    try:
        yield
    except (DatabaseError, sqlite3.DatabaseError) as error:
        cause = getattr(error, "orig", None) or error
        text = str(cause)
        if "locked" in text or "busy" in text:
            raise StoreLockedError(
                f"{path} is locked by another process; wait for it to finish, or use another store"
            ) from error
        if "readonly" in text:
            raise StoreError(f"{path} can't be written: the file or its folder is read-only") from error
        if "not a database" in text:
            raise StoreCorruptError(f"{path} is not a turnwise store; name another file with --store") from error
        if "malformed" in text or "disk image" in text or _NO_UTF8 in text:
            raise StoreCorruptError(f"{path} is damaged ({_line(text)}); {_MEND}") from error
        if isinstance(error, OperationalError | sqlite3.OperationalError):
            raise StoreError(f"{path}: {text}") from error
        raise
    except schema.UnreadableValueError as error:
        raise StoreCorruptError(f"{path} is damaged ({error}); {_MEND}") from error
    except UnicodeDecodeError as error:  # a name in the file that even the message of SQLite can't hold
        raise StoreCorruptError(f"{path} is damaged (a name in it is not UTF-8); {_MEND}") from error
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{error.object[:40]!r} contains an unpaired surrogate, which is not valid Unicode"
        ) from error


@contextmanager
def intact(path: Path, what: str) -> Iterator[None]:
    """Turn what is raised where rows do not fit together inside the block into an error that names them.

    Args:
        path: the file of the store.
        what: what the rows are about, such as ``"sequence 'a'"``.

    Raises:
        StoreCorruptError: a value is missing, or can't be.
    """
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        reason = _line(str(error)) or type(error).__name__
        raise StoreCorruptError(
            f"{path} is damaged: {what} can't be read ({reason}); everything else can: {_MEND}"
        ) from error


def read_all(connection: Connection, query: Select[Any], path: Path) -> list[RowMapping]:
    """Return all rows of a query.

    Args:
        connection: in a transaction.
        query: the query.
        path: the file of the store, for messages.

    Raises:
        StoreCorruptError: a value can't be what its column holds; the message says where it is.
    """
    try:
        return list(connection.execute(query).mappings())
    except (schema.UnreadableValueError, OperationalError) as error:
        if isinstance(error, OperationalError) and _NO_UTF8 not in str(error):
            raise
        place = _unreadable(connection, query)
        if place is None:  # mended meanwhile
            raise
        raise StoreCorruptError(f"{path} is damaged: {place}; other rows can be read: {_MEND}") from error


def _unreadable(connection: Connection, query: Select[Any]) -> str | None:
    """Return where the first value is that a query can't read, and what it is."""
    driver = connection.connection.driver_connection
    assert driver is not None
    text = str(query.compile(connection, compile_kwargs={"literal_binds": True}))
    columns = list(query.selected_columns)
    before, driver.text_factory = driver.text_factory, bytes
    try:
        for row in driver.execute(text):
            for column, value in zip(columns, row, strict=True):
                try:
                    _read_value(connection, column, value)
                except schema.UnreadableValueError as error:
                    return f"{_place(columns, column, row)}: {error}"
    finally:
        driver.text_factory = before
    return None


def _read_value(connection: Connection, column: Any, value: object) -> None:
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise schema.UnreadableValueError(value, "UTF-8") from None
    read = column.type.dialect_impl(connection.dialect).result_processor(connection.dialect, None)
    if read is not None:
        read(value)


def _place(columns: Sequence[Any], column: Any, row: Sequence[object]) -> str:
    name = f"{column.table.name}.{column.name}" if isinstance(column, Column) else column.name
    keys = {
        key.name: value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
        for key, value in zip(columns, row, strict=True)
    }
    return " ".join([name, "where", " and ".join(f"{key} is {keys[key]!r}" for key in _ROW_NAMES if key in keys)])


def _line(text: str) -> str:
    """Return the first line of what somebody else says, and not more of it than is read."""
    line = text.split("\n", 1)[0]
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
