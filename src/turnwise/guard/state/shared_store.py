"""What state stores that several processes share have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Self, TypeVar

from turnwise.clock import Clock
from turnwise.errors import StateError
from turnwise.sessions.state_store import Apply, Change, StateKind, check_room

State = TypeVar("State")
Result = TypeVar("Result")


class SharedStore(ABC):
    """The limits of a store, and what does not depend on where it keeps states.

    `path` is what messages call the store. For the limits and their ranges see `SqliteStateStore`.
    """

    def __init__(
        self,
        path: str,
        limit: int,
        ended_limit: int,
        ttl: timedelta | None,
        ended_ttl: timedelta | None,
        wait_seconds: float,
        clock: Clock,
    ) -> None:
        check_room(limit, ended_limit, ttl)
        check_room(limit, ended_limit, ended_ttl)
        if not 0.0 < wait_seconds <= 600.0:
            raise StateError(f"wait_seconds is {wait_seconds}; use seconds above 0, at most 600")
        self.path = path
        """What the store is called; without user, password and options."""
        self._limits = (limit, ended_limit)
        self._ttls = (ttl, ended_ttl)
        self._wait = wait_seconds
        self._clock = clock
        self._closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Let go of what is open; closing twice is harmless, and a later call is an error."""

    @abstractmethod
    def change_all(self, changes: Sequence[Change]) -> tuple[Any, ...]:
        """Apply several changes in one step, and return their results."""

    def change(self, kind: StateKind[State], key: str, apply: Apply[State, Result]) -> Result:
        """Replace a state in one step, and return the result of the change.

        Raises:
            StateError: as for `get`, or the state can't be written.
        """
        result: Result = self.change_all((Change(kind, key, apply),))[0]
        return result

    def _check_open(self) -> None:
        if self._closed:
            raise StateError(f"state store {self.path} is closed")

    def _no_room(self) -> StateError:
        """The error of a store that would have to forget that a session was terminated."""
        most = self._limits[1]
        return StateError(
            f"state store {self.path}: the end of {most + 1} terminated sessions can't be remembered within "
            f"ended_limit={most}: raise it, or forget some"
        )
