"""Opening the database behind a store: where it is, how SQLite is set, and what its errors mean."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, RowMapping, Select, create_engine, event
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
    engine = create_engine(url, connect_args={"timeout": busy_seconds})

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
        if "malformed" in text or "disk image" in text:
            raise StoreCorruptError(
                f"{path} is damaged ({text}); restore a copy, or import and evaluate into another store"
            ) from error
        if isinstance(error, OperationalError | sqlite3.OperationalError):
            raise StoreError(f"{path}: {text}") from error
        raise
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{error.object[:40]!r} holds half of a surrogate pair, which is no Unicode text"
        ) from error
