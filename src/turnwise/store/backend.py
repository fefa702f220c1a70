"""What a store needs from the database that holds it, and how its location is shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from sqlalchemy import URL, Connection, Engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from turnwise.errors import StoreLockedError, StoreUnreachableError

Result = TypeVar("Result")


def written_elsewhere(run: str) -> StoreLockedError:
    return StoreLockedError(
        f"run {run!r} is being written by another process: wait for it to finish, or close the store there"
    )


class RunLocks(Protocol):
    """Locks on runs: shared by the stores that write a run, exclusive for the one that renames or deletes it."""

    def lost(self) -> bool:
        """Whether locks were held and are gone; then none is left."""
        return False

    def share(self, run: int) -> None:
        """Keep others from having a run alone, until `release`; StoreLockedError where somebody has it."""

    def release(self, run: int) -> None:
        """Let others have a run alone again."""

    def alone(self, run: int, name: str) -> AbstractContextManager[None]:
        """Have a run alone during the block, and keep no lock on it; StoreLockedError where another writes it."""

    def shared_elsewhere(self, run: int) -> bool:
        """Whether another store writes a run now."""

    def close(self) -> None:
        """Let go of every lock."""


class Backend(Protocol):
    """A database that holds a record. Transactions begin as their connection's execution options say."""

    # ``writes``: nobody else writes until it ends; ``"batch"`` where `was_committed` has to know of it.
    # ``snapshot``: all statements see the same state.
    where: str  # for messages, without a password
    busy_seconds: float
    reading: Mapping[str, Any]  # options for a single query
    standalone: Mapping[str, Any]  # options with which every statement stands alone
    engine: Engine

    def translated(self) -> AbstractContextManager[None]:
        """Turn what the database raises inside the block into errors that say what to do."""

    def check(self, create: bool) -> None:
        """Refuse what can't hold a record, and a missing one unless it may be made; raises StoreError."""

    def refuse_foreign(self, connection: Connection) -> None:
        """Refuse a record with what acts on its tables or stands in their place; raises StoreError."""

    def made(self, connection: Connection) -> None:
        """Add what this database needs besides the tables, in the transaction that makes them."""

    def was_committed(self) -> bool:
        """Whether the last ``"batch"`` is in the record, where the reply to its commit was lost."""
        return False

    def run_locks(self) -> RunLocks:
        """New locks on runs of the record."""

    def close(self) -> None:
        """Let go of all connections."""

    def discard(self) -> None:
        """Once closed, remove a file that was made here and holds nothing."""


class Patience:
    """Waits a little longer each time, for `seconds` in all."""

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


def until_reached(job: Callable[[], Result], seconds: float, *, starting: bool = False) -> Result:
    """What a job returns, run again while a server is lost or, with `starting`, about to take connections."""
    patience = None
    while True:
        try:
            return job()
        except StoreUnreachableError as error:
            patience = patience or Patience(seconds)
            if (starting and not error.soon) or not patience.wait():
                raise


def shown_location(location: str) -> str:
    """Return the location of a store as it may be printed: a URL without its password and settings.

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
    """A URL as it may be printed: without password, driver and settings, which may hold a password too."""
    host = (url.host or "").rpartition("@")[2] or None
    bare = URL.create(url.get_backend_name(), url.username, None, host, url.port, url.database)
    return bare.render_as_string()
