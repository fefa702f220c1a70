"""What may be set of the state in a configuration, and what becomes of checks while the store is down."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

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
            has it; see `RedisStateStore`. None likewise.
        when_down: ``closed`` blocks texts; ``open`` checks them without what was known of session and
            conversation; ``memory`` goes on with what this process remembers by itself.
        conversations: whether turns and verdicts are kept, for `GuardrailPipeline.load_conversation`; else
            sessions and rate limits alone, and callers bring their conversations.
        keep_days: days that a session, a conversation or a count is kept after its last use, above 0; None for as
            long as there is room. That a session was terminated is kept until it is forgotten.
        limit: sessions, conversations and counts that are kept at most, together; at least 1.
        wait_seconds: how long a check waits for other processes or the server at most, above 0 and at most 600;
            None for 5 with a file and 1 with a server.

    Raises:
        GuardError: a value out of range.
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
        """Return the store, open; None where none is named.

        A server need not answer yet where checks go on without it.

        Raises:
            StateError: it can't be opened.
        """
        where = self.sqlite if self.redis is None else _url(self.redis)
        if where is None:
            return None
        ttl = None if self.keep_days is None else timedelta(days=self.keep_days)
        wait = {} if self.wait_seconds is None else {"wait_seconds": self.wait_seconds}
        settings: dict[str, Any] = {"limit": self.limit, "ttl": ttl, "clock": clock, **wait}
        if self.redis is not None:
            settings["must_answer"] = self.when_down is WhenDown.CLOSED
        return open_state_store(where, **settings)


def open_state_store(where: str, **settings: Any) -> SqliteStateStore | RedisStateStore:
    """Open a state store by what a user names it.

    Args:
        where: the URL of a Redis server, with ``redis:``, ``rediss:`` or ``unix:``; else the path of a file.
        settings: go to `RedisStateStore` or `SqliteStateStore`.

    Raises:
        StateError: it can't be opened.

    >>> open_state_store(":memory:")
    SqliteStateStore(':memory:')
    """
    if where.startswith(("redis:", "rediss:", "unix:")):
        from turnwise.guard.state.redis import RedisStateStore

        return RedisStateStore(where, **settings)
    if "://" in where:
        raise StateError(f"no state store is known for {where.partition('://')[0]}:// ; use redis:// or a file")
    from turnwise.guard.state.sqlite import SqliteStateStore

    return SqliteStateStore(where, **settings)


def _url(given: str) -> str:
    """Return the URL that was given, or that the environment has."""
    if not given.startswith(_NAMED):
        return given
    name = given.removeprefix(_NAMED)
    url = os.environ.get(name)
    if not url:
        raise StateError(f"the environment variable {name} is not set; it has to hold the URL of the state store")
    return url
