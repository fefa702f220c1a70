"""One thread that writes: many callers, one transaction, each told when its own work is durable."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, NestedTransaction
from sqlalchemy.exc import SQLAlchemyError

from turnwise.errors import StoreError
from turnwise.store.database import translated

Result = TypeVar("Result")
_Job = tuple[Callable[[Connection], Any], "Future[Any]"]


class Writer:
    """Group commit.

    Jobs that wait at the same moment share a transaction, each in a savepoint of its own: one that fails is
    rolled back alone. A future is done only once the transaction is on disk, so an acknowledged write is durable.

    Args:
        engine: the database; the thread opens one connection of its own.
        path: its file, for messages.
        most: jobs that share a transaction at most.
    """

    def __init__(self, engine: Engine, path: Path, most: int = 256) -> None:
        self._engine = engine
        self._path = path
        self._most = most
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
                if len(batch) == self._most or self._jobs.empty():
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
