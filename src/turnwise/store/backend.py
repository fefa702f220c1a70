"""What a store asks of the database that holds it, and which database a location names."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import URL, Connection, Engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from turnwise.errors import UsageError

_FORMS = "give a file, sqlite:///file or postgresql://user@host/database"


class RunLocks(Protocol):
    """Locks on runs: shared by the stores that write a run, alone for who renames or deletes it."""

    def lost(self) -> bool:
        """Return whether locks were had and are gone; then none is left."""

    def share(self, run: int) -> None:
        """Keep others from having a run alone, until it is released; StoreLockedError where somebody has it."""

    def release(self, run: int) -> None:
        """Let others have a run alone again."""

    def alone(self, run: int, name: str) -> AbstractContextManager[None]:
        """Have a run alone while the block runs; StoreLockedError where another store writes it."""

    def close(self) -> None:
        """Let go of every lock."""


class Backend(Protocol):
    """A database that holds a record. Transactions begin as their connection's execution options say.

    ``writes``: nobody else writes until it ends; ``"batch"`` where `was_committed` is to know of it. ``snapshot``:
    all statements see the same state.

    Attributes:
        where: the location as messages name it, without a password.
        busy_seconds: how long to wait for others.
        reading: execution options of a connection for one query.
        standalone: execution options of a connection on which every statement stands alone.
    """

    where: str
    busy_seconds: float
    reading: Mapping[str, Any]
    standalone: Mapping[str, Any]

    @property
    def engine(self) -> Engine:
        """The connections."""

    @property
    def translated(self) -> Callable[[], AbstractContextManager[None]]:
        """What turns what the database raises inside a block into an error that says what to do."""

    def check(self, create: bool) -> None:
        """Refuse what can hold no record, and one that is not there unless it may be made; StoreError where so."""

    def refuse_foreign(self, connection: Connection) -> None:
        """Refuse a record with what acts on its tables or stands in their place; StoreError where so."""

    def made(self, connection: Connection) -> None:
        """Add to the tables of a record, in the transaction that makes them, what this database needs besides."""

    def was_committed(self) -> bool:
        """Return whether the last ``"batch"`` is in the record, where the reply to its commit was lost."""

    def run_locks(self) -> RunLocks:
        """Return locks on runs of the record."""

    def close(self) -> None:
        """Let go of all connections."""


class Patience:
    """Waits a little longer each time, and not for ever.

    Args:
        seconds: how long in all.
    """

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._pause = 0.0

    def wait(self) -> bool:
        """Wait before another try; False where the time is up. The first try comes at once."""
        if time.monotonic() + self._pause > self._until:
            return False
        time.sleep(self._pause)
        self._pause = min(0.5, 2 * self._pause + 0.01)
        return True


def shown_location(location: str) -> str:
    """Return the location of a store as it may be printed: of a URL neither the password nor the settings.

    >>> shown_location("postgresql://me:secret@server/work?sslpassword=secret"), shown_location("work.db")
    ('postgresql://me@server/work', 'work.db')
    """
    if "://" not in location or location.startswith("sqlite:"):
        return location
    try:
        return shown_url(make_url(location))
    except (ArgumentError, ValueError):
        return f"{location.partition('://')[0][:40]}://..."


def shown_url(url: URL) -> str:
    """Return a URL as it may be printed: without password, driver and settings, which may hold a password too."""
    host = (url.host or "").rpartition("@")[2] or None
    bare = URL.create(url.get_backend_name(), url.username, None, host, url.port, url.database)
    return bare.render_as_string()


def backend_of(location: str, busy_seconds: float) -> Backend:
    """Return the database that a location names: a file, ``sqlite:///file`` or ``postgresql://...``.

    Args:
        location: what it is called.
        busy_seconds: how long to wait for others.

    Raises:
        UsageError: it names no database that can hold a record, or psycopg is not installed.
    """
    from turnwise.store.sqlite import SqliteFile, check_name, path_of_url

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
