"""The settings of the state, and what becomes of checks while the store is down."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
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
        raise StateError(f"the environment variable {name} is not set; it has to hold the URL of the state store")
    return url
