"""The database behind a store: opened, brought up to date, read, written by one thread, closed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, RowMapping, Select, Table, insert
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from turnwise.clock import Clock
from turnwise.errors import StoreError, StoreUnreachableError, UsageError
from turnwise.store import schema
from turnwise.store.backend import Backend, Patience, shown_url
from turnwise.store.damage import read_all
from turnwise.store.sqlite import SqliteFile, check_name, path_of_url
from turnwise.store.writer_thread import Writer

Result = TypeVar("Result")

BUSY_SECONDS = 10.0
"""How long a statement waits for another process before it says that the store is locked."""

_EDITION = "edition"
"""The row of PostgreSQL's table of writers that counts editions; SQLite has a place for it in the file."""

PAGE = 500
"""Rows, or keys in a condition, that one statement deals with."""


_FORMS = "give a file, sqlite:///file or postgresql://user@host/database"


class Database:
    """One record that is open; StoreError where it can't be. `where` and `translated` are those of its backend."""

    def __init__(self, location: str, *, create: bool, clock: Clock, busy_seconds: float) -> None:
        self._backend = _backend_of(location, busy_seconds)
        self.where = self._backend.where
        self.translated = self._backend.translated
        self.run_locks = self._backend.run_locks
        self.discard = self._backend.discard
        self.clock = clock
        try:
            self._open(create)
        except BaseException:
            self._backend.close()
            self.discard()
            raise
        self._reading = self._backend.engine.execution_options(**self._backend.reading)
        self._snapshot = self._backend.engine.execution_options(snapshot=True)
        self._writer = Writer(self._backend)

    def _open(self, create: bool) -> None:
        patience = None
        while True:
            try:
                with self.translated():
                    self._backend.check(create)
                    self._migrate()
                return
            except StoreUnreachableError as error:
                patience = patience or Patience(self._backend.busy_seconds)
                if not (error.soon and patience.wait()):
                    raise

    def _migrate(self) -> None:
        with self._backend.engine.connect() as connection, connection.begin():
            had = schema.versions(connection, self.where)
            self._backend.refuse_foreign(connection)
        if had != {migration.version for migration in schema.MIGRATIONS}:
            with self._backend.engine.connect().execution_options(writes=True) as connection, connection.begin():
                schema.migrate(connection, self.where, self.clock)
                self._backend.made(connection)

    def read(self, query: Select[Any]) -> list[RowMapping]:
        """All rows of a query."""
        return self._ask(self._reading, partial(read_all, query=query, where=self.where))

    def ask(self, job: Callable[[Connection], Result]) -> Result:
        """What a job makes of one state of the record; where a server is lost, it runs again."""
        return self._ask(self._snapshot, job)

    def _ask(self, engine: Engine, job: Callable[[Connection], Result]) -> Result:
        if self._writer.closed:
            raise StoreError("the store is closed; open it again")
        patience = None
        while True:
            try:
                with self.translated(), engine.connect() as connection, connection.begin():
                    return job(connection)
            except StoreUnreachableError:
                patience = patience or Patience(self._backend.busy_seconds)
                if not patience.wait():
                    raise

    def write(self, job: Callable[[Connection], Result]) -> Future[Result]:
        """Queue a job that writes; see `Writer.submit`."""
        return self._writer.submit(job)

    def until_reached(self, job: Callable[[], Result]) -> Result:
        """What a job returns; where a server was lost it runs again, until that is back or time is up."""
        patience = None
        while True:
            try:
                return job()
            except StoreUnreachableError:
                patience = patience or Patience(self._backend.busy_seconds)
                if not patience.wait():
                    raise

    def standalone(self) -> Connection:
        """A connection on which every statement stands alone."""
        return self._backend.engine.connect().execution_options(**self._backend.standalone)

    def scrub(self, table: Table) -> tuple[str, ...]:
        """Leave no byte of a table's deleted rows in files of the record; return where some may still be."""
        with self.translated(), self.standalone() as connection:
            if connection.dialect.name != "sqlite":
                connection.exec_driver_sql(f"VACUUM FULL {table.name}")
                return (f"the write-ahead log, replicas and backups of {self.where}, which PostgreSQL keeps",)
            connection.exec_driver_sql("VACUUM")
            busy = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").scalar()
        return (f"{self.where}-wal, which another process reads at this moment: do it again",) if busy else ()

    def finish(self) -> None:
        """Write what is pending, and take no more."""
        self._writer.close()

    def close(self) -> None:
        """Let go of all connections, once nothing is pending any more."""
        self._backend.close()


def edition(connection: Connection) -> int:
    """A number that changes whenever rows of the record are changed or deleted rather than added."""
    if connection.dialect.name == "sqlite":
        return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
    found = connection.exec_driver_sql(f"SELECT batch FROM writers WHERE writer = '{_EDITION}'").scalar()
    return int(found or 0)


def renew_edition(connection: Connection) -> None:
    """Change the `edition` of a record, in the transaction that changes or deletes its rows."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA user_version = {(edition(connection) + 1) % 2**31}")
        return
    connection.exec_driver_sql(  # never old, so that it stays when what killed processes left is cleared
        f"INSERT INTO writers (writer, batch, written_at) VALUES ('{_EDITION}', 1, 'infinity') "
        "ON CONFLICT (writer) DO UPDATE SET batch = writers.batch + 1"
    )


def inserted(connection: Connection, table: Table, values: dict[str, Any]) -> int:
    """Insert one row and return its key."""
    key: int = connection.execute(insert(table), values).inserted_primary_key[0]  # type: ignore[index]
    return key


def _backend_of(location: str, busy_seconds: float) -> Backend:
    """The database that a location names; UsageError where it can't hold a record, or psycopg is not installed."""
    check_name(location)
    if "://" not in location:
        return SqliteFile(Path(location), busy_seconds)
    scheme = location.partition("://")[0]
    try:
        url = make_url(location)
    except (ArgumentError, ValueError):  # a ValueError where the port is no number; neither may show a password
        raise UsageError(f"a URL that begins with {scheme[:40]!r} is not a store: {_FORMS}") from None
    if scheme.partition("+")[0] in ("postgresql", "postgres"):
        if find_spec("psycopg") is None:
            raise UsageError("a store in PostgreSQL needs psycopg: python -m pip install 'turnwise[postgresql]'")
        from turnwise.store.postgresql import PostgresqlServer

        return PostgresqlServer(url, busy_seconds)
    path = path_of_url(url)
    if path is None:
        raise UsageError(f"{shown_url(url)!r} can't be opened as a store: {_FORMS}")
    return SqliteFile(path, busy_seconds)
