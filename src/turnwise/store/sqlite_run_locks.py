"""Locks on runs in SQLite; see `turnwise.store.backend.RunLocks`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from turnwise.errors import StoreLockedError

_PATIENCE_S = 10.0
"""How long who is about to write waits for a run that is being renamed or deleted."""

_LAST_MS = 50
"""How long who lets go of a run waits to be the last one: no longer than two that let go at once need."""


class SqliteRunLocks:
    """The locks that one store has on its runs.

    A lock is SQLite's own, on an empty file beside the store that is there as long as it is needed. The operating
    system lets go of it when its process ends, however that happens.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._shared: dict[int, sqlite3.Connection] = {}

    def lost(self) -> bool:
        """Never: the system keeps the locks as long as the process lives."""
        return False

    def share(self, run: int) -> None:
        """Keep others from having a run alone, until `release`.

        Where no file can be made beside the store, nothing can be written to it either, and nothing is locked.
        """
        try:
            self._shared[run] = _locked(self._file(run), "BEGIN", _PATIENCE_S)
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise StoreLockedError(f"{self._path}: the run is being changed by another process") from error
        except OSError:
            pass

    def release(self, run: int) -> None:
        """Let others have a run alone again; the last one to do so removes the file."""
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
        """Have a run alone during the block, and keep no lock on it; StoreLockedError if another writes it."""
        self.release(run)
        try:
            self._shared[run] = _locked(self._file(run), "BEGIN EXCLUSIVE", 0.0)
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise StoreLockedError(
                    f"run {name!r} is being written by another process: wait for it to finish, "
                    "or close the store there"
                ) from error
        except OSError:
            pass
        try:
            yield
        finally:
            self.release(run)

    def close(self) -> None:
        """Let go of every lock."""
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
