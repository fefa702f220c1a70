"""The settings of the state, what becomes of checks while the store is down, and how it is doing."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, Unpack
from urllib.parse import unquote, urlsplit

from turnwise.clock import Clock
from turnwise.errors import GuardError, StateError

if TYPE_CHECKING:
    from turnwise.guard.state.redis import RedisStateStore
    from turnwise.guard.state.sqlite import SqliteStateStore
    from turnwise.sessions import StateStore

_NAMED = "env:"


class WhenDown(StrEnum):
    """What becomes of a text while the state store can't be reached, or holds what can't be read."""

    CLOSED = "closed"
    OPEN = "open"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class StateSettings:
    """Where a pipeline keeps what must survive, and what becomes of texts without it.

    Args:
        sqlite: the file, for workers of one machine; None where the pipeline is given a store.
        redis: the URL of a server, for workers of many machines, or ``env:NAME`` for the environment variable that
            has it; see `RedisStateStore`. Only one of the two may be set.
        when_down: ``closed`` blocks texts; ``open`` checks them without what was known of session and
            conversation; ``memory`` goes on with what this process remembers by itself.
        conversations: whether turns and verdicts are kept, for `GuardrailPipeline.load_conversation`; else only
            sessions and rate limits are, and callers bring their conversations.
        keep_days: days that a session, a conversation or a count is kept after its last use, above 0; None for as
            long as there is room. That a session was terminated is kept until it is forgotten.
        limit: sessions, conversations and counts that are kept at most, together; at least 1.
        wait_seconds: how long a check waits for other processes or the server at most, above 0 and at most 600;
            None for 5 with a file and 1 with a server.
    """

    sqlite: str | None = None
    redis: str | None = field(default=None, repr=False)
    when_down: WhenDown = WhenDown.CLOSED
    conversations: bool = True
    keep_days: float | None = None
    limit: int = 1_000_000
    wait_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.sqlite is not None and (not self.sqlite or "\0" in self.sqlite):
            raise GuardError(f"sqlite is {self.sqlite!r}; name the file that states are kept in")
        if self.redis is not None:
            if self.sqlite is not None:
                raise GuardError("state names a file and a server; choose sqlite or redis")
            if not self.redis.startswith(_NAMED):
                from turnwise.guard.state.redis import shown_url

                try:
                    shown_url(self.redis)
                except StateError as error:
                    raise GuardError(str(error)) from None
        if self.keep_days is not None and not 0.0 < self.keep_days <= 36_500:
            raise GuardError(f"keep_days is {self.keep_days}; use days above 0, at most 36500, or null")
        if self.limit < 1:
            raise GuardError(f"limit is {self.limit}; use at least 1")
        if self.wait_seconds is not None and not 0.0 < self.wait_seconds <= 600.0:
            raise GuardError(f"wait_seconds is {self.wait_seconds}; use seconds above 0, at most 600")

    def open(self, clock: Clock) -> StateStore | None:
        """Open the store, None where none is named; a server must answer now only with ``closed``."""
        where = self.sqlite or self.redis
        if where is None:
            return None
        ttl = None if self.keep_days is None else timedelta(days=self.keep_days)
        wait = {} if self.wait_seconds is None else {"wait_seconds": self.wait_seconds}
        settings: dict[str, Any] = {"limit": self.limit, "ttl": ttl, "clock": clock, **wait}
        if self.redis is not None:
            settings["must_answer"] = self.when_down is WhenDown.CLOSED
        return _opened("sqlite" if self.redis is None else "redis", where, settings)

    def at(self, where: str) -> Self:
        """The same settings with another place for the state, named as for `open_state_store`."""
        kind, place = store_of(where)
        sqlite, redis = (place, None) if kind == "sqlite" else (None, place)
        return replace(self, sqlite=sqlite, redis=redis)


def store_of(where: str) -> tuple[Literal["sqlite", "redis"], str]:
    """Which store a user names, and its file or URL; see `open_state_store`.

    >>> store_of("sqlite:////var/lib/guard.db"), store_of("redis://cache.example")
    (('sqlite', '/var/lib/guard.db'), ('redis', 'redis://cache.example'))
    """
    if where.startswith((_NAMED, "redis:", "rediss:", "unix:")):
        return "redis", where
    scheme, apart, _ = where.partition("://")
    if not apart:
        return "sqlite", where
    if scheme != "sqlite":
        raise StateError(f"no state store is known for {scheme}:// ; use redis://HOST, sqlite:///FILE or a file")
    path = unquote(urlsplit(where).path).removeprefix("/")
    if not path:
        raise StateError("sqlite:// needs a file, such as sqlite:///guard.db")
    return "sqlite", path


class StoreLimits(TypedDict, total=False):
    """The settings that both state stores take; see `turnwise.guard.SqliteStateStore`."""

    limit: int
    ended_limit: int
    ttl: timedelta | None
    ended_ttl: timedelta | None
    wait_seconds: float
    clock: Clock


def open_state_store(where: str, **settings: Unpack[StoreLimits]) -> SqliteStateStore | RedisStateStore:
    """Open a state store by the name that a user gives it.

    Args:
        where: the URL of a Redis server, with ``redis:``, ``rediss:`` or ``unix:``; ``env:NAME`` for the
            environment variable that has it; else the path of a file, or ``sqlite:///FILE``.
        settings: go to `RedisStateStore` or `SqliteStateStore`.

    Raises:
        StateError: it can't be opened.

    >>> open_state_store(":memory:")
    SqliteStateStore(':memory:')
    """
    return _opened(*store_of(where), settings)


def _opened(kind: str, place: str, settings: Mapping[str, Any]) -> SqliteStateStore | RedisStateStore:
    if kind == "redis":
        from turnwise.guard.state.redis import RedisStateStore

        return RedisStateStore(_url(place), **settings)
    from turnwise.guard.state.sqlite import SqliteStateStore

    return SqliteStateStore(place, **settings)


def _url(given: str) -> str:
    """The URL as it was given, or from the environment variable that was named."""
    if not given.startswith(_NAMED):
        return given
    name = given.removeprefix(_NAMED)
    url = os.environ.get(name)
    if not url:
        raise StateError(f"the environment variable {name} is not set; set it to the URL of the state store")
    return url


_LOG = logging.getLogger("turnwise.guard")


@dataclass(frozen=True, slots=True)
class StateStatus:
    """The status of a state store.

    Args:
        store: which one, without any password.
        when_down: what becomes of texts while it can't be used.
        up: whether the latest check, or the latest call that asked, could use it; True before any.
        since: when that became so; None where it has been up from the start.
        error: why the latest check could not use it; empty while it is up. It may name a conversation.
        checks: checks that went through it.
        without: checks that went without it, as `when_down` says: blocked, or open, or by this process's memory.
        again: checks that were done again, since another worker was faster.
    """

    store: str
    when_down: WhenDown
    up: bool = True
    since: datetime | None = None
    error: str = ""
    checks: int = 0
    without: int = 0
    again: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        since = None if self.since is None else self.since.isoformat()
        return {**asdict(self), "when_down": str(self.when_down), "since": since}


class StateWatch:
    """Counts how checks fared with a state store. Safe under threads. `store` is shown in results: no password.

    >>> from turnwise.clock import utc_now
    >>> watch = StateWatch("redis://cache", utc_now)
    >>> watch.kept(); watch.went_without(StateError("the network is down"), WhenDown.OPEN)
    >>> told = watch.status(WhenDown.OPEN)
    >>> told.up, told.checks, told.without, told.error
    (False, 1, 1, 'the network is down')
    """

    def __init__(self, store: str, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._since: datetime | None = None
        self._error = ""
        self._checks = self._without = self._again = 0

    def kept(self) -> None:
        """Count a check that went through the store."""
        with self._lock:
            self._checks += 1
        self.answered()

    def answered(self) -> None:
        """Note that the store can be used."""
        if self._error:
            with self._lock:
                self._error, self._since = "", self._clock()
            _LOG.warning("state store %s: it can be used again", self._store)

    def went_without(self, error: StateError, when_down: WhenDown) -> None:
        """Count a check that could not use the store."""
        with self._lock:
            self._without += 1
        self.failed(error, when_down)

    def failed(self, error: StateError, when_down: WhenDown) -> None:
        """Note that the store can't be used."""
        with self._lock:
            before, self._error = self._error, str(error) or type(error).__name__
            if not before:
                self._since = self._clock()
        if not before:
            _LOG.warning("state store %s: it can't be used; when_down=%s", self._store, when_down)

    def did_again(self) -> None:
        with self._lock:
            self._again += 1

    def status(self, when_down: WhenDown) -> StateStatus:
        """How the store is doing."""
        with self._lock:
            up, counts = not self._error, (self._checks, self._without, self._again)
            return StateStatus(self._store, when_down, up, self._since, self._error, *counts)
