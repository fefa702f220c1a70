"""What a check changes in a state store: held back until the check has ended, then written in one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from turnwise.errors import StateDownError
from turnwise.sessions.state_store import Apply, Change, ChangesStates, StateKind, StateStore

State = TypeVar("State")
Result = TypeVar("Result")


class Work:
    """Reads states from a store and holds changes back, until `changes` are applied in one step.

    So a check that is killed has changed nothing, and one that is done again counts once. Each change is applied
    to the state as it is in the end, so that changes others made meanwhile are not lost. `without` gives what
    stands in for a store that can't be reached; with None that is an error.

    >>> from turnwise.sessions import MemoryStateStore
    >>> kind = StateKind("n", 1, bytes, lambda data, key, version: 0)
    >>> store = MemoryStateStore()
    >>> work = Work(store)
    >>> work.change(kind, "a", lambda state: ((state or 0) + 1, "counted"))
    'counted'
    >>> work.get(kind, "a"), store.get(kind, "a"), store.change_all(work.changes), store.get(kind, "a")
    (1, None, ('counted',), 1)
    """

    __slots__ = ("_now", "_store", "_without", "changes", "trouble")

    def __init__(self, store: StateStore, without: Callable[[], StateStore] | None = None) -> None:
        self._store = store
        self._without = without
        self.trouble: StateDownError | None = None
        """Why the store could not be reached; None where it could."""
        self._now: dict[tuple[str, str], Any] = {}
        self.changes: list[Change] = []
        """The changes so far, in order."""

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


class Named:
    """States under keys that begin with a name, so that each guardrail of a pipeline has its own."""

    __slots__ = ("_name", "_states")

    def __init__(self, states: ChangesStates, name: str) -> None:
        self._states = states
        self._name = name

    def get(self, kind: StateKind[State], key: str) -> State | None:
        """A state, or None for one that is not known."""
        return self._states.get(kind, key_of(self._name, key))

    def change(self, kind: StateKind[State], key: str, apply: Apply[State, Result]) -> Result:
        """Replace a state in one step; returns the result of the change."""
        return self._states.change(kind, key_of(self._name, key), apply)


def key_of(name: str, key: str) -> str:
    """The key of a state that belongs to a guardrail.

    >>> key_of("drift", "8e81")
    'drift:8e81'
    """
    return f"{name}:{key}"
