"""How a state store is doing, as the checks of a pipeline find it: for metrics, health checks and people."""

from __future__ import annotations

import logging
import threading
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from turnwise.clock import Clock
from turnwise.errors import StateError
from turnwise.guard.state.settings import WhenDown

_LOG = logging.getLogger("turnwise.guard")


@dataclass(frozen=True, slots=True)
class StateStatus:
    """How a state store is doing.

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
        """Count a check that is done again."""
        with self._lock:
            self._again += 1

    def status(self, when_down: WhenDown) -> StateStatus:
        """How the store is doing."""
        with self._lock:
            up, counts = not self._error, (self._checks, self._without, self._again)
            return StateStatus(self._store, when_down, up, self._since, self._error, *counts)
