"""What state stores of several processes share, and stores seen through a check, a guardrail or a tenant."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Self, TypeVar

from turnwise.clock import Clock
from turnwise.errors import StateDownError, StateError
from turnwise.sessions.state_store import Apply, Change, ChangesStates, StateKind, StateStore, check_room

State = TypeVar("State")

Result = TypeVar("Result")


class SharedStore(ABC):
    """What a store has wherever it keeps states; for the limits and their ranges see `SqliteStateStore`."""

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
        """Replace a state in one step, and return the result of the change."""
        result: Result = self.change_all((Change(kind, key, apply),))[0]
        return result

    def _check_open(self) -> None:
        if self._closed:
            raise StateError(f"state store {self.path} is closed; open another one")

    def _no_room(self) -> StateError:
        """The error of a store that would have to forget that a session was terminated."""
        most = self._limits[1]
        return StateError(
            f"state store {self.path}: the end of {most + 1} terminated sessions can't be remembered within "
            f"ended_limit={most}: raise it, or forget some"
        )


APART: Final = "/"  # stands between the name of a tenant, which has none, and the key of a state


class StateTransaction:
    """Reads states from a store and holds changes back, until `changes` are applied in one step.

    So a check that is killed has changed nothing, and one that is done again counts once. Each change is applied
    to the state as it is in the end, so that changes others made meanwhile are not lost. `without` gives what
    stands in for a store that can't be reached; with None that is an error.

    >>> from turnwise.sessions import MemoryStateStore
    >>> kind = StateKind("n", 1, bytes, lambda data, key, version: 0)
    >>> store = MemoryStateStore()
    >>> work = StateTransaction(store)
    >>> work.change(kind, "a", lambda state: ((state or 0) + 1, "counted"))
    'counted'
    >>> work.get(kind, "a"), store.get(kind, "a"), store.change_all(work.changes), store.get(kind, "a")
    (1, None, ('counted',), 1)
    """

    __slots__ = ("_now", "_store", "_without", "changes", "trouble", "turns", "undo")

    def __init__(self, store: StateStore, without: Callable[[], StateStore] | None = None) -> None:
        self._store = store
        self._without = without
        self.trouble: StateDownError | None = None
        """Why the store could not be reached; None where it could."""
        self._now: dict[tuple[str, str], Any] = {}
        self.changes: list[Change] = []
        """The changes so far, in order."""
        self.turns: set[int] = set()
        """Earlier turns of the conversation whose checks or texts changed."""
        self.undo: list[Callable[[], None]] = []
        """What puts their texts back here, should the check be done again."""

    @property
    def store(self) -> StateStore:
        """The store that is read, and written in the end."""
        return self._store

    def get(self, kind: StateKind[State], key: str) -> State | None:
        """A state as this work left it, or as the store has it."""
        place = (kind.name, key)
        if place not in self._now:
            try:
                self._now[place] = self._store.get(kind, key)
            except StateDownError as error:
                if self._without is None:
                    raise
                self._store, self._without, self.trouble = self._without(), None, error
                self._now[place] = self._store.get(kind, key)
        state: State | None = self._now[place]
        return state

    def change(self, kind: StateKind[State], key: str, apply: Apply[State, Result]) -> Result:
        """Change a state here now, and in the store when the work is done; returns the result from here."""
        state, result = apply(self.get(kind, key))
        self._now[kind.name, key] = state
        self.changes.append(Change(kind, key, apply))
        return result


class Prefixed:
    """States under keys that begin alike, so that each guardrail of a pipeline has its own."""

    __slots__ = ("_prefix", "_states")

    def __init__(self, states: ChangesStates, prefix: str) -> None:
        self._states = states
        self._prefix = prefix

    def get(self, kind: StateKind[State], key: str) -> State | None:
        """A state, or None for one that is not known."""
        return self._states.get(kind, self._prefix + key)

    def change(self, kind: StateKind[State], key: str, apply: Apply[State, Result]) -> Result:
        """Replace a state in one step; returns the result of the change."""
        return self._states.change(kind, self._prefix + key, apply)


class TenantStore(Prefixed):
    """A tenant's part of a store that several tenants share: the keys of its states begin with its name.

    Room and age are those of the whole store, and so are `purge`, `scrub`, `close` and the length. The tenant's
    name has letters, digits, ``-`` and ``_``.

    >>> from turnwise.sessions import MemoryStateStore
    >>> kind = StateKind("n", 1, bytes, lambda data, key, version: 0)
    >>> store = MemoryStateStore()
    >>> web, desk = TenantStore(store, "web"), TenantStore(store, "desk")
    >>> web.change(kind, "a", lambda _: (1, None))
    >>> web.get(kind, "a"), web.keys(kind), desk.get(kind, "a"), desk.keys(kind)
    (1, ['a'], None, [])
    """

    def __init__(self, store: StateStore, tenant: str) -> None:
        super().__init__(store, tenant + APART)
        self.whole = store

    def change_all(self, changes: Sequence[Change]) -> tuple[Any, ...]:
        """Apply several changes in one step, all or none; returns their results."""
        return self.whole.change_all([each._replace(key=self._prefix + each.key) for each in changes])

    def parts(self, kind: StateKind[Any], key: str, names: Iterable[str] | None = None) -> dict[str, bytes]:
        """Parts of a state by name; all of them where `names` is None."""
        return self.whole.parts(kind, self._prefix + key, names)

    def remove(self, kind: StateKind[Any], key: str) -> bool:
        """Forget a state with its parts; returns whether it was known."""
        return self.whole.remove(kind, self._prefix + key)

    def keys(self, kind: StateKind[Any], owner: str | None = None) -> list[str]:
        """The tenant's keys of a kind, sorted; only those of `owner` where one is given."""
        found = self.whole.keys(kind, owner)
        return [key.removeprefix(self._prefix) for key in found if key.startswith(self._prefix)]

    def purge(self, before: datetime) -> int:
        """Drop states of all tenants that were not used since a time; returns how many."""
        return self.whole.purge(before)

    def scrub(self) -> Sequence[str]:
        """Leave no byte of what was removed in files of the whole store; returns where it may still be."""
        return self.whole.scrub()

    def close(self) -> None:
        """Close the whole store."""
        self.whole.close()

    def __len__(self) -> int:
        return len(self.whole)

    def __repr__(self) -> str:
        return repr(self.whole)


def key_of(name: str, key: str) -> str:
    """The key of a state that belongs to a guardrail.

    >>> key_of("drift", "8e81")
    'drift:8e81'
    """
    return f"{name}:{key}"
