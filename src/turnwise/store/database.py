"""Opening the database behind a store: where it is, how SQLite is set, and what its errors mean."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Column, Connection, Engine, RowMapping, Select, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, OperationalError

from turnwise.errors import StoreCorruptError, StoreError, StoreLockedError, UsageError
from turnwise.store import schema

BUSY_SECONDS = 10.0
"""How long a statement waits for another process before it says that the store is locked."""

PAGE = 500
"""Rows, or keys in a condition, that one statement deals with."""

Read = Callable[[Select[Any]], list[RowMapping]]
"""Answers a query with all its rows."""

_MEMORY = ":memory:"

_NO_UTF8 = "Could not decode to UTF-8"
"""What the driver says of a text that is none."""

_ROW_NAMES = ("name", "sequence_id", "id", "sequence", "turn")
"""Columns that tell a row from the others of its table."""

_SHOWN = 200
"""Characters of what SQLite says that a message shows."""

_MEND = "restore a copy, or import and evaluate into another store"


def path_of(location: str) -> Path:
    """Return the file of a store given as a path or as ``sqlite:///path``.

    Raises:
        UsageError: a URL of another kind of database, or one without a file; a name that no file can have.
    """
    if "\0" in location:
        raise UsageError(f"{location!r} is no store: a file name can't have a NUL character")
    if location == _MEMORY:
        raise UsageError(f"{location!r} is no store: it has to be a file, so that it outlives the command")
    if "://" not in location:
        return Path(location)
    try:
        url = make_url(location)
    except (ArgumentError, ValueError) as error:  # a ValueError where the port is no number
        raise UsageError(f"{location!r} is no store: give a file, or sqlite:///file") from error
    if url.get_backend_name() != "sqlite" or not url.database or url.database == _MEMORY:
        shown = url.render_as_string(hide_password=True)
        raise UsageError(f"{shown!r} is no store that this version can open: give a file, or sqlite:///file")
    return Path(url.database)


def connect(path: Path, busy_seconds: float = BUSY_SECONDS) -> Engine:
    """Return an engine on a SQLite file: write-ahead log, full durability, foreign keys on.

    Transactions begin as ``BEGIN IMMEDIATE`` where the execution option ``writes`` is set, so that two writers
    queue instead of failing half-way; all others are read transactions. With the option ``single`` there is none:
    every statement stands alone.

    In a folder that may not be written there can be no log beside the file, so it is read as one that nobody
    changes; each write is refused.
    """
    sealed = path.is_file() and not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists()
    url = (  # never as text: a file name may hold a question mark
        URL.create("sqlite", database=path.absolute().as_uri(), query={"immutable": "1", "uri": "true"})
        if sealed
        else URL.create("sqlite", database=str(path))
    )
    engine = create_engine(url, connect_args={"timeout": busy_seconds}, json_deserializer=schema.read_stored_json)

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, record: object) -> None:
        connection.isolation_level = None  # SQLAlchemy's BEGIN below, not the driver's own
        try:
            rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if not sealed and schema.may_be_store(
                {name for (name,) in rows}
            ):  # the journal mode stays in somebody else's file
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        if not options.get("single"):
            connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writes") else "BEGIN")

    return engine


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
            raise StoreCorruptError(f"{path} is no turnwise store; name another file with --store") from error
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
            f"{error.object[:40]!r} holds half of a surrogate pair, which is no Unicode text"
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
            f"{path} is damaged: {what} can't be read ({reason}); the others can: {_MEND}"
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
