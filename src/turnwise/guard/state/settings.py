"""What may be set of the state in a configuration, and what becomes of checks while the store is down."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from turnwise.clock import Clock
from turnwise.errors import GuardError

if TYPE_CHECKING:
    from turnwise.guard.state.sqlite import SqliteStateStore


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
        when_down: ``closed`` blocks texts; ``open`` checks them without what was known of session and
            conversation; ``memory`` goes on with what this process remembers by itself.
        conversations: whether turns and verdicts are kept, for `GuardrailPipeline.load_conversation`; else
            sessions and rate limits alone, and callers bring their conversations.
        keep_days: days that a session, a conversation or a count is kept after its last use, above 0; None for as
            long as there is room. That a session was terminated is kept until it is forgotten.
        limit: sessions, conversations and counts that are kept at most, together; at least 1.
        wait_seconds: how long a check waits for other processes at most, above 0 and at most 600.

    Raises:
        GuardError: a value out of range.
    """

    sqlite: str | None = None
    when_down: WhenDown = WhenDown.CLOSED
    conversations: bool = True
    keep_days: float | None = None
    limit: int = 1_000_000
    wait_seconds: float = 5.0

    def __post_init__(self) -> None:
        if self.sqlite is not None and (not self.sqlite or "\0" in self.sqlite):
            raise GuardError(f"sqlite is {self.sqlite!r}; name the file that states are kept in")
        if self.keep_days is not None and not 0.0 < self.keep_days <= 36_500:
            raise GuardError(f"keep_days is {self.keep_days}; use days above 0, at most 36500, or null")
        if self.limit < 1:
            raise GuardError(f"limit is {self.limit}; use at least 1")
        if not 0.0 < self.wait_seconds <= 600.0:
            raise GuardError(f"wait_seconds is {self.wait_seconds}; use seconds above 0, at most 600")

    def open(self, clock: Clock) -> SqliteStateStore | None:
        """Return the store, open; None where no file is named.

        Raises:
            StateError: the file can't be opened.
        """
        if self.sqlite is None:
            return None
        from turnwise.guard.state.sqlite import SqliteStateStore

        ttl = None if self.keep_days is None else timedelta(days=self.keep_days)
        return SqliteStateStore(
            self.sqlite, limit=self.limit, ttl=ttl, wait_seconds=self.wait_seconds, clock=clock
        )
