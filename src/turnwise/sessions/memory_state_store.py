"""The state store in this process: states are kept as objects, never as bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import islice
from threading import Lock
from typing import Any

from turnwise.clock import Clock, utc_now
from turnwise.sessions.state_store import (
    Apply,
    Change,
    Evicted,
    Result,
    State,
    StateKind,
    check_room,
    no_parts,
    no_room_for_ends,
)

_Kept = tuple[StateKind[Any], Any, datetime | None]
"""A state with its kind and, where states grow old, the time of its latest use."""

_Key = tuple[str, str]


class MemoryStateStore:
    """Keeps a limited number of states in this process; the least recently used one is dropped.

    A terminated session stays terminated: when it has to make room, its end is remembered, without its signals.
    Only when there is no room for that either is it forgotten; `on_evict` is told then, and without `on_evict` the
    turn that would have needed the room, or the look at a session past its `ttl`, is an error.

    Args:
        limit: live states that are kept, at least 1. 200,000 sessions take up to 400 MB.
        ended_limit: ends of terminated sessions that are remembered beside them, at least 0.
        on_evict: is told of every state that had to make room or was too old; called outside the lock of the
            store.
        ttl: how long an unused state is kept; None for as long as there is room. An end stays.
        clock: gives the present time, aware; for `ttl`.

    Raises:
        SessionError: a limit out of its range.
    """

    def __init__(
        self,
        limit: int = 200_000,
        ended_limit: int = 1_000_000,
        on_evict: Callable[[Evicted], None] | None = None,
        *,
        ttl: timedelta | None = None,
        clock: Clock = utc_now,
    ) -> None:
        check_room(limit, ended_limit, ttl)
        self._limit = limit
        self._ended_limit = ended_limit
        self._on_evict = on_evict
        self._ttl = ttl
        self._clock = clock
        self._live: OrderedDict[_Key, _Kept] = OrderedDict()
        self._ended: OrderedDict[_Key, _Kept] = OrderedDict()
        self._parts: dict[_Key, dict[str, bytes]] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._live) + len(self._ended)

    def get(self, kind: StateKind[State], key: str) -> State | None:
        """Return a state, or None for one that is not known. Reading counts as use.

        Raises:
            SessionError: it is past its `ttl` and terminated, and another end would be forgotten in silence.
        """
        with self._held() as let_go:
            return self._read(kind, key, let_go)

    def change(self, kind: StateKind[State], key: str, apply: Apply[State, Result]) -> Result:
        """Replace a state in one step, and return the result of the change.

        Args:
            kind: kind of the state.
            key: its key.
            apply: gives the next state and a result; it must not use the store.

        Raises:
            SessionError: a terminated session would be forgotten and nobody would be told.
        """
        place = (kind.name, key)
        result: Result
        with self._lock:
            live = self._live.get(place)
            if live is not None and self._ttl is None:
                state, result = apply(live[1])
                if kind.parts is not no_parts:
                    self._parts.setdefault(place, {}).update(kind.parts(state))
                self._live[place] = (kind, state, None)
                self._live.move_to_end(place)
                return result
        (result,) = self.change_all((Change(kind, key, apply),))
        return result

    def change_all(self, changes: Sequence[Change]) -> tuple[Any, ...]:
        """Apply several changes in one step, all or none, and return their results.

        What changes together is kept together: where that is more than `limit`, until the next change.

        Raises:
            SessionError: as for `change`.
        """
        results: list[Any] = []
        next_: dict[_Key, tuple[StateKind[Any], Any]] = {}
        parts: dict[_Key, dict[str, bytes]] = {}
        with self._held() as let_go:
            for kind, key, apply in changes:
                place = (kind.name, key)
                before = next_[place][1] if place in next_ else self._read(kind, key, let_go)
                state, result = apply(before)
                next_[place] = (kind, state)
                parts.setdefault(place, {}).update(kind.parts(state))
                results.append(result)
            self._keep(next_, let_go)
            for place, given in parts.items():
                if given:
                    self._parts.setdefault(place, {}).update(given)
        return tuple(results)

    def parts(self, kind: StateKind[Any], key: str, names: Iterable[str] | None = None) -> dict[str, bytes]:
        """Return parts of a state by name, all of them where `names` is None.

        Raises:
            SessionError: as for `get`.
        """
        with self._held() as let_go:
            if self._read(kind, key, let_go) is None:
                return {}
            known = self._parts.get((kind.name, key), {})
            return dict(known) if names is None else {name: known[name] for name in names if name in known}

    def remove(self, kind: StateKind[Any], key: str) -> bool:
        """Forget a state, even that of a terminated session, and return whether it was known."""
        place = (kind.name, key)
        with self._lock:
            self._parts.pop(place, None)
            live = self._live.pop(place, None) is not None
            return self._ended.pop(place, None) is not None or live

    def keys(self, kind: StateKind[Any], owner: str | None = None) -> list[str]:
        """Return the keys of a kind, sorted; those of one owner where it is given."""
        with self._lock:
            known = {**self._ended, **self._live}
        return sorted(
            key
            for (name, key), kept in known.items()
            if name == kind.name and (owner is None or kind.owner(kept[1]) == owner)
        )

    def purge(self, before: datetime) -> int:
        """Drop live states that were not used since a time, and return how many; ends are remembered as ever.

        Raises:
            SessionError: a terminated session would be forgotten and nobody would be told.
        """
        with self._held() as let_go:
            old = [
                place
                for place, (kind, state, used) in self._live.items()
                if ((kind.used_at(state) if kind.used_at else used) or before) < before
            ]
            for place in old:
                self._release(place, let_go)
        return len(old)

    def scrub(self) -> tuple[str, ...]:
        """Return nothing: no removed state is left anywhere."""
        return ()

    def close(self) -> None:
        """Do nothing: the store holds nothing open."""

    @contextmanager
    def _held(self) -> Iterator[list[Evicted]]:
        """Hold the lock; `on_evict` is told afterwards of what was let go meanwhile."""
        let_go: list[Evicted] = []
        try:
            with self._lock:
                yield let_go
        finally:
            if self._on_evict is not None:
                for event in let_go:
                    self._on_evict(event)

    def _read(self, kind: StateKind[State], key: str, let_go: list[Evicted]) -> State | None:
        place = (kind.name, key)
        kept = self._live.get(place)
        if kept is not None and not self._expired(kept):
            self._live.move_to_end(place)
        else:
            if kept is not None:
                self._release(place, let_go)
            kept = self._ended.get(place)
            if kept is None:
                return None
            self._ended.move_to_end(place)
        state: State = kept[1]
        return state

    def _expired(self, kept: _Kept) -> bool:
        return self._ttl is not None and kept[2] is not None and self._clock() - kept[2] > self._ttl

    def _keep(self, states: Mapping[_Key, tuple[StateKind[Any], Any]], let_go: list[Evicted]) -> None:
        """Keep states that were just read; others make room first, so that it is all of them or none."""
        used = None if self._ttl is None else self._clock()
        # An end is not let in again: else the ended could push the living out.
        ends = {
            place: (kind, remnant, used)
            for place, (kind, state) in states.items()
            if place in self._ended and (remnant := kind.remnant(state)) is not None
        }
        live = {place: (*state, used) for place, state in states.items() if place not in ends}
        beyond = len(self._live) + sum(place not in self._live for place in live) - self._limit
        for place in list(islice(self._live, max(0, beyond))):
            if place not in states:
                self._release(place, let_go)
        for place, kept in live.items():
            self._ended.pop(place, None)
            self._live[place] = kept
            self._live.move_to_end(place)
        self._ended.update(ends)

    def _release(self, place: _Key, let_go: list[Evicted]) -> None:
        """Drop a live state; the end of a terminated session stays, which may cost another its end."""
        kind, state, used = self._live[place]
        remnant = kind.remnant(state)
        if remnant is not None and len(self._ended) >= self._ended_limit:
            if self._on_evict is None:
                raise no_room_for_ends(self._ended_limit)
            while self._ended and len(self._ended) >= self._ended_limit:
                oldest, _ = self._ended.popitem(last=False)
                self._parts.pop(oldest, None)
                let_go.append(Evicted(*oldest, lasting=True, remembered=False))
        del self._live[place]
        remembered = remnant is not None and self._ended_limit > 0
        if remembered:
            self._ended[place] = (kind, remnant, used)
        else:
            self._parts.pop(place, None)
        let_go.append(Evicted(*place, lasting=remnant is not None, remembered=remembered))
