"""The file behind a store: found, opened, brought up to date, read, written by one thread, closed."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    NestedTransaction,
    RowMapping,
    Select,
    Table,
    create_engine,
    event,
    insert,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from turnwise.clock import Clock
from turnwise.errors import StoreError, UsageError
from turnwise.store import schema
from turnwise.store.damage import read_all, translated

Result = TypeVar("Result")
_Job = tuple[Callable[[Connection], Any], "Future[Any]"]

BUSY_SECONDS = 10.0
"""How long a statement waits for another process before it says that the store is locked."""

_WAL_PAUSE = 0.005
"""Seconds between two tries to switch a file to the write-ahead log."""

PAGE = 500
"""Rows, or keys in a condition, that one statement deals with."""

GROUP = 256
"""Jobs that share a transaction at most."""

_MEMORY = ":memory:"


def path_of(location: str) -> Path:
    """Return the file of a store given as a path or as ``sqlite:///path``.

    Raises:
        UsageError: a URL of another kind of database, or one without a file; a name that no file can have.
    """
    if "\0" in location:
        raise UsageError(f"{location!r} is not a store: a file name can't have a NUL character")
    if location == _MEMORY:
        raise UsageError(f"{location!r} is not a store: it must be a file, so that it is kept after the command")
    if "://" not in location:
        return Path(location)
    try:
        url = make_url(location)
    except (ArgumentError, ValueError) as error:  # a ValueError where the port is no number
        raise UsageError(f"{location!r} is not a store: give a file, or sqlite:///file") from error
    if url.get_backend_name() != "sqlite" or not url.database or url.database == _MEMORY:
        shown = url.render_as_string(hide_password=True)
        raise UsageError(f"{shown!r} can't be opened as a store: give a file, or sqlite:///file")
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
                _write_ahead(connection, busy_seconds)
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


def _write_ahead(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """Switch a file to the write-ahead log; SQLite itself does not wait here while somebody else does the same."""
    until = time.monotonic() + busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
        time.sleep(_WAL_PAUSE)


class Database:
    """One SQLite file that is open.

    Args:
        location: a file, or ``sqlite:///file``.
        create: make the file where there is none.
        clock: gives the times that are recorded.
        busy_seconds: how long to wait for another process that writes.

    Raises:
        StoreError: no such file, or it can't be opened.
        UsageError: a URL that is no SQLite file.
    """

    def __init__(self, location: str, *, create: bool, clock: Clock, busy_seconds: float) -> None:
        self.path = path_of(location)
        self.clock = clock
        self._refuse_what_is_no_file(create)
        self.engine = connect(self.path, busy_seconds)
        try:
            with translated(self.path):
                self._migrate()
        except BaseException:
            self.engine.dispose()
            raise
        self._writer = Writer(self.engine, self.path)

    def read(self, query: Select[Any]) -> list[RowMapping]:
        """Return all rows of a query.

        Raises:
            StoreError: it is closed, or can't be read.
        """
        if self._writer.closed:
            raise StoreError("the store is closed")
        with translated(self.path), self.engine.connect() as connection, connection.begin():
            return read_all(connection, query, self.path)

    def write(self, job: Callable[[Connection], Result]) -> Future[Result]:
        """Queue a job that writes; see `Writer.submit`."""
        return self._writer.submit(job)

    def close(self) -> None:
        """Write what is pending, and take no more."""
        self._writer.close()

    def _migrate(self) -> None:
        with self.engine.connect() as connection, connection.begin():
            current = schema.is_current(connection)
        if not current:
            with self.engine.connect().execution_options(writes=True) as connection, connection.begin():
                schema.migrate(connection, str(self.path), self.clock)

    def _refuse_what_is_no_file(self, create: bool) -> None:
        try:
            if self.path.is_dir():
                raise StoreError(f"{self.path} is a folder; a store is a file")
            if self.path.exists():
                return
        except OSError as error:
            raise StoreError(f"{self.path} can't be opened as a store: {error.strerror}") from error
        if not create:
            raise StoreError(
                f"there is no store at {self.path}: make one with turnwise import FILE --store {self.path}, "
                "or name another with --store"
            )
        if not self.path.parent.is_dir():
            raise StoreError(f"can't make {self.path}: there is no folder {self.path.parent}")


class Writer:
    """Group commit.

    Jobs that wait at the same moment share a transaction, each in a savepoint of its own: one that fails is
    rolled back alone. A future is done only once the transaction is on disk, so an acknowledged write is durable.

    Args:
        engine: the database; the thread opens one connection of its own.
        path: its file, for messages.
    """

    def __init__(self, engine: Engine, path: Path) -> None:
        self._engine = engine
        self._path = path
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="turnwise-writer", daemon=True)
        self._thread.start()

    @property
    def closed(self) -> bool:
        """Whether it takes no more work."""
        return self._closed

    def submit(self, job: Callable[[Connection], Result]) -> Future[Result]:
        """Queue a job; the future has its result once that is durable, or what it raised.

        Raises:
            StoreError: the writer is closed.
        """
        future: Future[Result] = Future()
        with self._lock:
            if self._closed:
                raise StoreError("the store is closed")
            self._jobs.put((job, future))
        return future

    def close(self) -> None:
        """Write what is queued, then stop. Closing twice is harmless."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        going = True
        while going:
            batch: list[_Job] = []
            job = self._jobs.get()
            while job is not None:
                if job[1].set_running_or_notify_cancel():
                    batch.append(job)
                if len(batch) == GROUP or self._jobs.empty():
                    break
                job = self._jobs.get()
            going = job is not None
            if batch:
                self._write(batch)

    def _write(self, batch: list[_Job]) -> None:
        done: list[tuple[Future[Any], Any, Exception | None]] = []
        try:
            with (
                translated(self._path),
                self._engine.connect().execution_options(writes=True) as connection,
                connection.begin(),
            ):
                for job, future in batch:
                    if len(batch) == 1:  # what it raises rolls back the transaction, which is its own
                        done.append((future, job(connection), None))
                        continue
                    savepoint = connection.begin_nested()
                    try:
                        with translated(self._path):
                            result = job(connection)
                            savepoint.commit()
                        done.append((future, result, None))
                    except Exception as error:  # noqa: BLE001 - it belongs to the caller, who gets it
                        _undo(savepoint, error)
                        done.append((future, None, error))
        except Exception as error:  # noqa: BLE001 - nothing was committed: every caller must know
            done = [(future, None, error) for _, future in batch]
        for future, result, failure in done:
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)


def _undo(savepoint: NestedTransaction, error: Exception) -> None:
    """Roll one job back, or, where the database has given up the whole transaction, fail all of its jobs.

    A full disk, for one, makes SQLite roll back everything at once: then no job of the batch was stored.
    """
    try:
        savepoint.rollback()
    except SQLAlchemyError:
        raise error from None


def inserted(connection: Connection, table: Table, values: dict[str, Any]) -> int:
    """Insert one row and return its key."""
    key: int = connection.execute(insert(table), values).inserted_primary_key[0]  # type: ignore[index]
    return key
