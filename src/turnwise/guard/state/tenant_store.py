"""A tenant's part of a state store that several tenants share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from turnwise.sessions.state_store import Apply, Change, StateKind, StateStore

State = TypeVar("State")
Result = TypeVar("Result")

APART: Final = "/"
"""Stands between the name of a tenant, which has none, and the key of a state."""


class TenantStore:
    """Reads and writes the states of one tenant alone: their keys begin with its name.

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
        self.whole = store
        self._prefix = tenant + APART

    def get(self, kind: StateKind[State], key: str) -> State | None:
        """A state, or None for one that is not known."""
        return self.whole.get(kind, self._prefix + key)

    def change(self, kind: StateKind[State], key: str, apply: Apply[State, Result]) -> Result:
        """Replace a state in one step; returns the result of the change."""
        return self.whole.change(kind, self._prefix + key, apply)

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
