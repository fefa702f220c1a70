"""Locks on runs in PostgreSQL; see `turnwise.store.backend.RunLocks`."""

from __future__ import annotations

import selectors
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from turnwise.errors import StoreLockedError
from turnwise.store.postgresql_errors import translated


class PostgresqlRunLocks:
    """The locks that one store has on its runs: advisory locks of a session of their own.

    PostgreSQL lets go of them when the session ends, and so when the process or the server does.
    """

    def __init__(self, engine: Engine, where: str, namespace: int) -> None:
        self._engine = engine
        self._where = where
        self._namespace = namespace
        self._connection: Connection | None = None
        self._shared: set[int] = set()

    def lost(self) -> bool:
        """Whether locks were held and are gone, because the server went away; then none is left."""
        if not self._shared or self._alive():
            return False
        self.close()
        return True

    def share(self, run: int) -> None:
        """Keep others from having a run alone, until `release`."""
        try:
            self._call("pg_advisory_lock_shared", run)
        except StoreLockedError as error:
            raise StoreLockedError(f"{self._where}: the run is being changed by another process") from error
        self._shared.add(run)

    def release(self, run: int) -> None:
        """Let others have a run alone again."""
        if run in self._shared:
            self._shared.discard(run)
            self._call("pg_advisory_unlock_shared", run)

    @contextmanager
    def alone(self, run: int, name: str) -> Iterator[None]:
        """Have a run alone during the block, and keep no lock on it; StoreLockedError if another writes it."""
        if not self.lost():
            self.release(run)
        if not self._call("pg_try_advisory_lock", run):
            raise StoreLockedError(
                f"run {name!r} is being written by another process: wait for it to finish, "
                "or close the store there"
            )
        try:
            yield
        finally:
            self._call("pg_advisory_unlock", run)

    def close(self) -> None:
        """Let go of every lock."""
        self._shared.clear()
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(SQLAlchemyError):
                connection.detach()  # the locks are the session's, which is to end
                connection.close()

    def _call(self, function: str, run: int) -> bool:
        with translated(self._where):
            if self._connection is None:
                self._connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            try:
                got = self._connection.exec_driver_sql(f"SELECT {function}({self._namespace}, {run})").scalar()
            except SQLAlchemyError:
                if self._connection.invalidated:
                    self.close()
                raise
            return got is not False

    def _alive(self) -> bool:
        """Whether the session is there; its end shows at the socket, so as a rule the server is not asked."""
        if self._connection is None or self._connection.invalidated:
            return False
        driver = self._connection.connection.driver_connection
        assert driver is not None
        try:
            with selectors.DefaultSelector() as socket:
                socket.register(driver.fileno(), selectors.EVENT_READ)
                if not socket.select(timeout=0):
                    return True
            self._connection.exec_driver_sql("SELECT 1")
        except (SQLAlchemyError, OSError, ValueError):
            return False
        return True
