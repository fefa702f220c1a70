"""The file behind a store: opened, brought up to date, read, written by one thread, closed."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import RowMapping, Select

from turnwise.clock import Clock, utc_now
from turnwise.errors import StoreError
from turnwise.store.database import BUSY_SECONDS, connect, path_of, read_all, translated
from turnwise.store.journal import Journal
from turnwise.store.keys import KnownKeys
from turnwise.store.migrations import is_current, migrate
from turnwise.store.writer import Writer


class StoreFile:
    """What every part of a store rests on; arguments and errors as for `Store`.

    Attributes:
        path: where the file is.
        journal: keeps the replies of language models, and finds them again.
    """

    def __init__(
        self,
        location: str | Path,
        *,
        create: bool = False,
        clock: Clock = utc_now,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self.path = path_of(str(location))
        self._clock = clock
        self._refuse_what_is_no_file(create)
        self._engine = connect(self.path, busy_seconds)
        try:
            with translated(self.path):
                self._migrate()
        except BaseException:
            self._engine.dispose()
            raise
        self._writer = Writer(self._engine, self.path)
        self.journal = Journal(self._engine, self.path, self._read, self._writer)
        self._known_keys = KnownKeys()

    def _migrate(self) -> None:
        with self._engine.connect() as connection, connection.begin():
            current = is_current(connection)
        if not current:
            with self._engine.connect().execution_options(writes=True) as connection, connection.begin():
                migrate(connection, str(self.path), self._clock)

    def _refuse_what_is_no_file(self, create: bool) -> None:
        try:
            if self.path.is_dir():
                raise StoreError(f"{self.path} is a folder; a store is a file")
            if self.path.exists():
                return
        except OSError as error:
            raise StoreError(f"{self.path} can't be a store: {error.strerror}") from error
        if not create:
            raise StoreError(
                f"there is no store at {self.path}: make one with turnwise import FILE --store {self.path}, "
                "or name another with --store"
            )
        if not self.path.parent.is_dir():
            raise StoreError(f"can't make {self.path}: there is no folder {self.path.parent}")

    def close(self) -> None:
        """Write what is pending and let go of the file."""
        self._writer.close()
        self.journal.close()
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, query: Select[Any]) -> list[RowMapping]:
        if self._writer.closed:
            raise StoreError("the store is closed")
        with translated(self.path), self._engine.connect() as connection, connection.begin():
            return read_all(connection, query, self.path)
