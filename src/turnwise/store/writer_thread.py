"""The one thread of a store that writes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from sqlalchemy import Connection, NestedTransaction
from sqlalchemy.exc import SQLAlchemyError

from turnwise.errors import StoreError, StoreLockedError, StoreUnreachableError
from turnwise.store.backend import Backend, Patience

Result = TypeVar("Result")
_Job = tuple[Callable[[Connection], Any], "Future[Any]"]
_Outcome = tuple["Future[Any]", Any, Exception | None]

GROUP = 256
"""Jobs that share a transaction at most."""


class Writer:
    """Writes with group commit.

    Jobs that wait at the same moment share a transaction, each in a savepoint of its own: one that fails is
    rolled back alone. A future is done only once the transaction is on disk, so an acknowledged write is durable.

    Where a server goes away, the jobs are done again once it is back, unless they turn out to be in the record. So
    a job may run several times, and only its last run counts.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
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
        """Queue a job; the future has its result once that is durable, or what it raised."""
        future: Future[Result] = Future()
        with self._lock:
            if self._closed:
                raise StoreError("the store is closed; open it again")
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
    """Roll one job back, or, where the database has given up the whole transaction, fail all of its jobs.

    A full disk, for one, makes SQLite roll back everything at once: then no job of the batch was stored.
    """
    try:
        savepoint.rollback()
    except SQLAlchemyError:
        raise error from None
