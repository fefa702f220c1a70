"""A state store over any mapping of bytes: a `dict` here, a table or a key-value service in yours."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, MutableMapping, Sequence
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from turnwise.clock import Clock, utc_now
from turnwise.sessions import Change, StateKind

State = TypeVar("State")
Result = TypeVar("Result")


class _Row(NamedTuple):
    """What is kept under a key: the payload of the state, its parts, whose it is, and when it was changed."""

    payload: str
    parts: dict[str, str]
    owner: str
    lasting: bool
    changed: float


class MappingStateStore:
    """Keeps states in a mapping from text to bytes; for several threads of one process.

    A mapping without transactions may be left between two writes by a crash; yours writes all of a step or none.

    Args:
        mapping: where states are kept.
        limit: states that are kept beside those that must last, at least 1.
        ttl: how long a state is kept that nobody changes; None for as long as there is room.
        clock: gives the present time, aware.
    """

    def __init__(
        self,
        mapping: MutableMapping[str, bytes],
        *,
        limit: int = 10_000,
        ttl: timedelta | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self._mapping, self._limit, self._ttl, self._clock = mapping, limit, ttl, clock
        self._lock = Lock()

    def get(self, kind: StateKind[State], key: str) -> State | None:
        """Return a state, or None for one that is not known."""
        row = self._row(f"{kind.name}/{key}")
        return None if row is None else kind.unpack(b64decode(row.payload), key)

    def change(self, kind: StateKind[State], key: str, apply: Any) -> Any:
        """Replace a state in one step, and return the result of the change."""
        return self.change_all([Change(kind, key, apply)])[0]

    def change_all(self, changes: Sequence[Change]) -> tuple[Any, ...]:
        """Apply several changes, all or none: nothing is written before the last one has succeeded."""
        rows: dict[str, _Row] = {}
        results = []
        with self._lock:
            for kind, key, apply in changes:
                place = f"{kind.name}/{key}"
                row = rows.get(place) or self._row(place)
                state, result = apply(None if row is None else kind.unpack(b64decode(row.payload), key))
                parts = {name: _text(data) for name, data in kind.parts(state).items()}
                rows[place] = _Row(
                    payload=_text(kind.pack(state)),
                    parts={**(row.parts if row else {}), **parts},
                    owner=kind.owner(state),
                    lasting=kind.remnant(state) is not None,
                    changed=self._clock().timestamp(),
                )
                results.append(result)
            self._mapping.update({place: json.dumps(row).encode() for place, row in rows.items()})
            self._make_room()
        return tuple(results)

    def parts(self, kind: StateKind[Any], key: str, names: Iterable[str] | None = None) -> dict[str, bytes]:
        """Return parts of a state by name, all of them where `names` is None."""
        row = self._row(f"{kind.name}/{key}")
        known = {} if row is None else row.parts
        return {name: b64decode(known[name]) for name in (known if names is None else names) if name in known}

    def remove(self, kind: StateKind[Any], key: str) -> bool:
        """Forget a state, and return whether it was known."""
        with self._lock:
            return self._mapping.pop(f"{kind.name}/{key}", None) is not None

    def keys(self, kind: StateKind[Any], owner: str | None = None) -> list[str]:
        """Return the keys of a kind, sorted; those of one owner where it is given."""
        start = f"{kind.name}/"
        rows = ((place, row) for place, row in self._rows() if place.startswith(start))
        return sorted(place.removeprefix(start) for place, row in rows if owner is None or row.owner == owner)

    def purge(self, before: datetime) -> int:
        """Let go of states that were not changed since a time, save what must last, and return how many."""
        with self._lock:
            old = [place for place, row in self._rows() if not row.lasting and row.changed < before.timestamp()]
            for place in old:
                del self._mapping[place]
        return len(old)

    def close(self) -> None:
        """Do nothing: whoever opened the mapping closes it."""

    def __len__(self) -> int:
        return len(self._mapping)

    def _row(self, place: str) -> _Row | None:
        data = self._mapping.get(place)
        row = None if data is None else _Row(*json.loads(data))
        if row is None or row.lasting or self._ttl is None:
            return row
        age = self._clock().timestamp() - row.changed
        return None if age > self._ttl.total_seconds() else row

    def _rows(self) -> list[tuple[str, _Row]]:
        return [(place, _Row(*json.loads(data))) for place, data in list(self._mapping.items())]

    def _make_room(self) -> None:
        """Let go of what was changed longest ago. It looks at every row: a service would keep them in order."""
        if len(self._mapping) > self._limit:
            mortal = sorted((row.changed, place) for place, row in self._rows() if not row.lasting)
            for _, place in mortal[: max(0, len(mortal) - self._limit)]:
                del self._mapping[place]


def _text(data: bytes) -> str:
    return b64encode(data).decode("ascii")
