"""A record in a SQLite file: how it is opened, and what the errors of SQLite mean."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DatabaseError, OperationalError

from turnwise._support.sqlite_files import harden, refuse_foreign_objects
from turnwise.errors import StoreCorruptError, StoreError, StoreLockedError, UsageError
from turnwise.store import schema
from turnwise.store.backend import Backend, RunLocks, written_elsewhere
from turnwise.store.column_types import UnreadableValueError, read_stored_json
from turnwise.store.damaged_rows import MEND, NO_UTF8, first_line, no_unicode

_WAL_PAUSE = 0.005
"""Seconds between two tries to switch a file to the write-ahead log."""

_MEMORY = ":memory:"


def check_name(location: str) -> None:
    """Refuse what no file can be called, and ``:memory:``, a store that would be gone after the command."""
    if "\0" in location:
        raise UsageError(f"{location!r} is not a store: leave the NUL character out of the file name")
    if location == _MEMORY:
        raise UsageError(f"{location!r} is not a store: it must be a file, so that it is kept after the command")


def path_of_url(url: URL) -> Path | None:
    """The file of a URL ``sqlite:///file``; None where it names another kind of database, or no file."""
    if url.get_backend_name() != "sqlite" or not url.database or url.database == _MEMORY:
        return None
    return Path(url.database)


def connect(path: Path, busy_seconds: float) -> Engine:
    """An engine on a SQLite file: write-ahead log, full durability, foreign keys on."""
    # In a folder that may not be written there can be no log beside the file, so it is read as one that nobody
    # changes; each write is refused.
    sealed = path.is_file() and not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists()
    url = (  # never as text: a file name may hold a question mark
        URL.create("sqlite", database=path.absolute().as_uri(), query={"immutable": "1", "uri": "true"})
        if sealed
        else URL.create("sqlite", database=str(path))
    )
    engine = create_engine(url, connect_args={"timeout": busy_seconds}, json_deserializer=read_stored_json)

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, record: object) -> None:
        connection.isolation_level = None  # SQLAlchemy's BEGIN below, not the driver's own
        try:
            harden(connection)
            rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            # The journal mode would stay in somebody else's file.
            if not sealed and schema.may_be_store({name for (name,) in rows}):
                _write_ahead(connection, busy_seconds)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        if not options.get("single"):  # two writers queue instead of failing half-way
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


class SqliteFile(Backend):
    """A SQLite file as the place of a record."""

    reading: Mapping[str, Any] = MappingProxyType({})
    standalone: Mapping[str, Any] = MappingProxyType({"single": True})

    def __init__(self, path: Path, busy_seconds: float) -> None:
        self.path = path
        self.where = str(path)
        self.busy_seconds = busy_seconds
        self._fresh = False

    @cached_property
    def engine(self) -> Engine:  # type: ignore[override]  # nobody sets it
        """The connections; made once `check` has seen that there may be some."""
        return connect(self.path, self.busy_seconds)

    def translated(self) -> AbstractContextManager[None]:
        return translated(self.where)

    def check(self, create: bool) -> None:
        try:
            if self.path.is_dir():
                raise StoreError(f"{self.path} is a folder; name a file")
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
            raise StoreError(f"can't make {self.path}: there is no folder {self.path.parent}; make it first")
        self._fresh = True

    def refuse_foreign(self, connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        refuse_foreign_objects(driver, self.where, schema.statements())

    def made(self, connection: Connection) -> None:
        """SQLite needs nothing besides the tables."""

    def run_locks(self) -> SqliteRunLocks:
        return SqliteRunLocks(self.path)

    def close(self) -> None:
        if "engine" in vars(self):
            self.engine.dispose()

    def discard(self) -> None:
        """Remove the file, once it is closed, where it was made here, holds nothing and nobody has it open."""
        if not self._fresh:
            return
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(self.path, timeout=0.0)) as connection:
            connection.isolation_level = None
            connection.execute("PRAGMA journal_mode = DELETE")  # fails where others have it open
            connection.execute("BEGIN EXCLUSIVE")
            there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            tables = there & schema.metadata.tables.keys() - {schema.schema_migrations.name}
            rows = [f"SELECT EXISTS (SELECT 1 FROM {name})" for name in tables]
            if not any(connection.execute(query).fetchone()[0] for query in rows):
                self.path.unlink(missing_ok=True)


_MEANINGS: tuple[tuple[tuple[str, ...], type[StoreError], str], ...] = (
    (
        ("locked", "busy"),
        StoreLockedError,
        "{path} is locked by another process; wait for it to finish, or use another store",
    ),
    (("readonly",), StoreError, "{path} can't be written: the file or its folder is read-only"),
    (("not a database",), StoreCorruptError, "{path} is not a turnwise store; name another file with --store"),
    (("malformed", "disk image", NO_UTF8), StoreCorruptError, "{path} is damaged ({line}); " + MEND),
    (
        ("disk",),
        StoreError,
        "{path}: {text}: see whether the disk is full or failing; what was committed is kept, and the same "
        "command goes on",
    ),
)
"""What texts of SQLite mean here; the first that fits counts."""


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn what SQLite raises inside the block into an error that says what to do."""
    try:
        yield
    except (DatabaseError, sqlite3.DatabaseError) as error:
        text = str(getattr(error, "orig", None) or error)
        for words, kind, meaning in _MEANINGS:
            if any(word in text for word in words):
                raise kind(meaning.format(path=path, text=text, line=first_line(text))) from error
        if isinstance(error, OperationalError | sqlite3.OperationalError):
            raise StoreError(f"{path}: {text}") from error
        raise
    except UnreadableValueError as error:
        raise StoreCorruptError(f"{path} is damaged ({error}); {MEND}") from error
    except UnicodeDecodeError as error:  # a name in the file that even the message of SQLite can't hold
        raise StoreCorruptError(f"{path} is damaged (a name in it is not UTF-8); {MEND}") from error
    except UnicodeEncodeError as error:
        raise no_unicode(error) from error


_PATIENCE_S = 10.0
"""How long who is about to write waits for a run that is being renamed or deleted."""

_LAST_MS = 50
"""How long who lets go of a run waits to be the last one: no longer than two that let go at once need."""


class SqliteRunLocks(RunLocks):
    """The locks that one store has on its runs: SQLite's own, each on an empty file beside the store that is there
    as long as it is needed. The operating system lets go of it when its process ends, however that happens."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._shared: dict[int, sqlite3.Connection] = {}

    def _take(self, run: int, begin: str, patience_s: float, refused: StoreLockedError) -> None:
        # Where no file can be made beside the store, nothing can be written to it either, and nothing is locked.
        try:
            self._shared[run] = _locked(self._file(run), begin, patience_s)
        except (sqlite3.OperationalError, OSError) as error:
            if "locked" in str(error):
                raise refused from error

    def share(self, run: int) -> None:
        refused = StoreLockedError(f"{self._path}: another process changes the run; wait for it")
        self._take(run, "BEGIN", _PATIENCE_S, refused)

    def release(self, run: int) -> None:
        connection = self._shared.pop(run, None)
        if connection is not None:
            connection.execute("COMMIT")
            with suppress(sqlite3.OperationalError, OSError):  # the last one clears away; the others can't
                connection.execute(f"PRAGMA busy_timeout = {_LAST_MS}")
                connection.execute("BEGIN EXCLUSIVE")
                self._file(run).unlink()
            connection.close()

    @contextmanager
    def alone(self, run: int, name: str) -> Iterator[None]:
        self.release(run)
        self._take(run, "BEGIN EXCLUSIVE", 0.0, written_elsewhere(name))
        try:
            yield
        finally:
            self.release(run)

    def shared_elsewhere(self, run: int) -> bool:
        """Whether another store writes a run now; where there is no file nobody does, and none is made."""
        if run in self._shared or not self._file(run).exists():
            return False
        try:
            _locked(self._file(run), "BEGIN EXCLUSIVE", 0.0).close()
        except (sqlite3.OperationalError, OSError) as error:
            return "locked" in str(error)
        return False

    def close(self) -> None:
        for run in list(self._shared):
            self.release(run)

    def _file(self, run: int) -> Path:
        return self._path.with_name(f"{self._path.name}-run-{run}.lock")


def _locked(path: Path, begin: str, patience_s: float) -> sqlite3.Connection:
    """Lock a file, and make sure that it is the one of that name and not one thrown away meanwhile."""
    while True:
        path.touch()
        before = path.stat().st_ino
        connection = sqlite3.connect(path, timeout=patience_s, isolation_level=None, check_same_thread=False)
        try:
            connection.execute(begin)
            connection.execute("SELECT * FROM sqlite_master").fetchall()  # a lock is had when the file is read
            if path.stat().st_ino == before:
                return connection
        except FileNotFoundError:
            pass
        except BaseException:
            connection.close()
            raise
        connection.close()
