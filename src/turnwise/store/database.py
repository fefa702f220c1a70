"""The database behind a store: opened, brought up to date, read, written by one thread, closed."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    Engine,
    NestedTransaction,
    RowMapping,
    Select,
    Table,
    cast,
    func,
    insert,
    select,
    type_coerce,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.types import LargeBinary

from turnwise.clock import Clock
from turnwise.errors import StoreError, StoreLockedError, StoreUnreachableError, UsageError
from turnwise.store import schema
from turnwise.store.backend import Backend, Patience, Result, shown_url, until_reached
from turnwise.store.damaged_rows import read_all
from turnwise.store.sqlite import SqliteFile, check_name, path_of_url

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_Job = tuple[Callable[[Connection], Any], "Future[Any]"]
_Outcome = tuple["Future[Any]", Any, Exception | None]

GROUP = 256
"""Jobs that share a transaction at most."""

BUSY_SECONDS = 10.0
"""How long a statement waits for another process before it says that the store is locked."""

_EDITION = "edition"
"""The row of PostgreSQL's table of writers that counts editions; SQLite has a place for it in the file."""

PAGE = 500
"""Rows, or keys in a condition, that one statement deals with."""

_FORMS = "give a file, sqlite:///file or postgresql://user@host/database"

_NUMBERS = 1_000_000
"""Rows of numbers that are held in memory at once."""

_SPAN = 500_000
"""Row numbers that one statement goes through in PostgreSQL, which holds what it finds in memory."""

_HEAD = 20
"""Bytes before the first element of an array in PostgreSQL's binary form: five numbers about the array."""


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
            until_reached(partial(self._open, create), busy_seconds, starting=True)
        except BaseException:
            self._backend.close()
            self.discard()
            raise
        self._reading = self._backend.engine.execution_options(**self._backend.reading)
        self._snapshot = self._backend.engine.execution_options(snapshot=True)
        self._writer = Writer(self._backend)

    def _open(self, create: bool) -> None:
        """Open the record, and bring its tables up to date."""
        with self.translated():
            self._backend.check(create)
            engine = self._backend.engine
            with engine.connect() as connection, connection.begin():
                had = schema.versions(connection, self.where)
                self._backend.refuse_foreign(connection)
            if had != {migration.version for migration in schema.MIGRATIONS}:
                with engine.connect().execution_options(writes=True) as connection, connection.begin():
                    schema.migrate(connection, self.where, self.clock)
                    self._backend.made(connection)

    def read(self, query: Select[Any]) -> list[RowMapping]:
        return self._ask(self._reading, partial(read_all, query=query, where=self.where))

    def ask(self, job: Callable[[Connection], Result]) -> Result:
        """What a job makes of one state of the record; where a server is lost, it runs again."""
        return self._ask(self._snapshot, job)

    def _ask(self, engine: Engine, job: Callable[[Connection], Result]) -> Result:
        if self._writer.closed:
            raise StoreError("the store is closed; open it again")

        def once() -> Result:
            with self.translated(), engine.connect() as connection, connection.begin():
                return job(connection)

        return self.until_reached(once)

    def write(self, job: Callable[[Connection], Result]) -> Future[Result]:
        return self._writer.submit(job)

    def until_reached(self, job: Callable[[], Result]) -> Result:
        return until_reached(job, self._backend.busy_seconds)

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
        """Write what is pending."""
        self._writer.close()

    def close(self) -> None:
        self.finish()
        self._backend.close()


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


class Writer:
    """Writes with group commit; a future is done only once its transaction is on disk."""

    # Jobs that wait at the same moment share a transaction, each in a savepoint of its own: one that fails is
    # rolled back alone. Where a server goes away, they are done again once it is back, unless they turn out to be
    # in the record. So a job may run several times, and only its last run counts.

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self.closed = False  # whether it takes no more work
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="turnwise-writer", daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[Connection], Result]) -> Future[Result]:
        """Queue a job; the future has its result once that is durable, or what it raised."""
        future: Future[Result] = Future()
        with self._lock:
            if self.closed:
                raise StoreError("the store is closed; open it again")
            self._jobs.put((job, future))
        return future

    def close(self) -> None:
        """Write what is queued, then stop. Closing twice is harmless."""
        with self._lock:
            if not self.closed:
                self.closed = True
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
        try:
            outcomes = self._written(batch)
        except Exception as error:  # noqa: BLE001 - nothing was committed: every caller must know
            outcomes = [(future, None, error) for _, future in batch]
        for future, result, failure in outcomes:
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)

    def _written(self, batch: list[_Job]) -> list[_Outcome]:
        """Write a batch, again where the server was lost, and return what became of each job."""
        patience: Patience | None = None
        committing: list[_Outcome] | None = None
        while True:
            try:
                if committing is not None and self._backend.was_committed():
                    return committing
                committing = None
                with (
                    self._backend.translated(),
                    self._backend.engine.connect().execution_options(writes="batch") as connection,
                    connection.begin() as transaction,
                ):
                    outcomes = [self._done(connection, job, future, len(batch)) for job, future in batch]
                    committing = outcomes
                    transaction.commit()
                return outcomes
            except (StoreUnreachableError, StoreLockedError) as error:
                if committing is None and not isinstance(error, StoreUnreachableError):
                    raise
                patience = patience or Patience(self._backend.busy_seconds)
                if not patience.wait():
                    if committing is None:
                        raise
                    raise StoreUnreachableError(
                        f"{error}; whether the last rows were stored is not known: the same command finds out"
                    ) from error

    def _done(
        self, connection: Connection, job: Callable[[Connection], Any], future: Future[Any], of: int
    ) -> _Outcome:
        if of == 1:  # what it raises rolls back the transaction, which is its own
            return future, job(connection), None
        savepoint = connection.begin_nested()
        try:
            with self._backend.translated():
                result = job(connection)
                savepoint.commit()
        except StoreUnreachableError:
            raise
        except Exception as error:  # noqa: BLE001 - it belongs to the caller, who gets it
            _undo(savepoint, error)
            return future, None, error
        return future, result, None


def _undo(savepoint: NestedTransaction, error: Exception) -> None:
    """Roll one job back, or, where the database has given up the whole transaction, fail all of its jobs."""
    try:
        savepoint.rollback()
    except SQLAlchemyError:  # a full disk, for one, makes SQLite roll back everything at once
        raise error from None


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
    key: int = connection.execute(insert(table), values).inserted_primary_key[0]  # type: ignore[index]
    return key


def rows(record: Connection, query: Select[Any]) -> Generator[tuple[Any, ...], None, None]:
    """Yield the rows of a query. In SQLite values come as they are stored, times and JSON as text."""
    if record.dialect.name != "sqlite":
        yield from map(tuple, record.execute(query))
        return
    cursor: Any = record.connection.cursor()
    cursor.execute(str(query.compile(record.engine, compile_kwargs={"literal_binds": True})))
    yield from cursor


def numbers(
    record: Connection, query: Select[Any], key: ColumnElement[int], after: int, last: int
) -> Iterator[NDArray[np.float64]]:
    """Yield rows of numbers with a `key` above `after`, up to `last`; ValueError or TypeError for what is none."""
    if record.dialect.name == "sqlite":  # where `last` has to be the last there is
        yield from _from_sqlite(record, query.where(key > after))
        return
    for start in range(after, last, _SPAN):
        yield from _from_postgresql(record, query.where(key > start, key <= min(start + _SPAN, last)))


def _from_sqlite(record: Connection, query: Select[Any]) -> Iterator[NDArray[np.float64]]:
    import numpy as np

    width = len(query.selected_columns)
    with closing(rows(record, query)) as found:
        values = chain.from_iterable(found)
        # An array, since numpy would take a text for a number, and None.
        while flat := array("d", islice(values, _NUMBERS * width)):
            yield np.frombuffer(flat).reshape(-1, width)


def _from_postgresql(record: Connection, query: Select[Any]) -> Iterator[NDArray[np.float64]]:
    """Yield the whole result: each column comes as an array of PostgreSQL, which numpy can read."""
    import numpy as np

    element = np.dtype([("bytes", ">i4"), ("value", ">f8")])
    found = query.subquery()
    packed = [
        type_coerce(func.array_send(func.array_agg(cast(column, Double))), LargeBinary) for column in found.columns
    ]
    columns = record.execute(select(*packed)).one()
    if columns[0] is None:
        return
    arrays = [np.frombuffer(column, element, offset=_HEAD) for column in columns]
    if any((array["bytes"] != element["value"].itemsize).any() for array in arrays):
        raise ValueError("a number is missing")
    yield np.stack([array["value"].astype(np.float64) for array in arrays], axis=1)
