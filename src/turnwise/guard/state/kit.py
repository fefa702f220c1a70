"""The conformance kit of state stores."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from turnwise.errors import SessionError, StateError
from turnwise.plugins import factory_of
from turnwise.sessions.state_store import Change, StateKind, StateStore

_THREADS, _TIMES = 8, 25


class _Tally(NamedTuple):
    """A state to test with: a number, whether it must last, whose it is, when it was used, and parts to write."""

    number: int
    lasting: bool = False
    owner: str = ""
    at: float = 0.0
    parts: tuple[tuple[str, bytes], ...] = ()


def _dump(state: _Tally) -> bytes:
    return f"{state.number} {int(state.lasting)} {state.at} {state.owner}".encode()


def _load(data: bytes, key: str, version: int) -> _Tally:
    number, lasting, at, owner = data.decode().split(" ", 3)
    return _Tally(int(number), lasting == "1", owner, float(at))


TALLY: StateKind[_Tally] = StateKind(
    "tally",
    1,
    _dump,
    _load,
    used_at=lambda state: datetime.fromtimestamp(state.at, UTC),
    remnant=lambda state: state._replace(parts=()) if state.lasting else None,
    owner=lambda state: state.owner,
    parts=lambda state: dict(state.parts),
)

OTHER: StateKind[_Tally] = StateKind("other", 1, _dump, _load)


class Moving:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = datetime(2025, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def check_state_store(
    store: StateStore | Callable[..., StateStore], *, again: Callable[[], StateStore] | None = None
) -> None:
    """Check that a state store keeps the contract of `turnwise.sessions.StateStore`.

    A package that brings a store calls this in its tests. The kit checks that

    - a state comes back as it was put, with its parts, under its own kind and key, and can be forgotten;
    - a change that fails, alone or among several, leaves everything as it was;
    - changes of several threads, and of a second connection, are neither lost nor doubled;
    - keys are listed by kind and owner;
    - the store stays within its limit, lets go of the least recently used, and of none that must last;
    - a state that is past its time to live is not there any more, and one that must last still is.

    Args:
        store: an empty store, which will be closed, or what makes one without arguments, such as its class. Only
            one that also takes the keywords ``limit``, ``ttl`` and ``clock`` is tried at its limits: the last two
            points.
        again: opens a second connection to the store, or to the one that was made last, as another process would;
            None for a store that nobody else can open.

    Raises:
        AssertionError: the store breaks the contract; the message says how.

    >>> from turnwise.sessions import MemoryStateStore
    >>> check_state_store(MemoryStateStore)
    """
    clock = Moving()

    def put(store: StateStore, key: str, number: int, **more: Any) -> None:
        state = _Tally(number, at=clock().timestamp(), **more)
        store.change(TALLY, key, lambda _: (state, None))

    make = factory_of(store, "change_all")
    limited = _takes_limits(make)
    made: StateStore = make(limit=1_000, ttl=None, clock=clock) if limited else make()
    try:
        _check_values(made, put)
        _check_failures(made, put)
        _check_threads(made)
        if again is not None:
            _check_second(made, again(), put)
    finally:
        made.close()
        made.close()
    if limited:
        _check_room(make, clock, put)
        _check_age(make, clock, put)


def _takes_limits(make: Callable[..., StateStore]) -> bool:
    taken = inspect.signature(make).parameters
    any_name = any(one.kind is one.VAR_KEYWORD for one in taken.values())
    return any_name or {"limit", "ttl", "clock"} <= taken.keys()


def _check_values(store: StateStore, put: Callable[..., None]) -> None:
    _demand(len(store) == 0, "a store that was made now is not empty")
    _demand(store.get(TALLY, "a") is None, "a state is known that nobody put there")
    _demand(store.parts(TALLY, "a") == {}, "parts are known of a state that nobody put there")
    for key in ("a", "ä/b c'\"%", "x" * 200):
        put(store, key, 7, owner="ann")
        _holds(store, key, 7, f"the state under {key!r} does not come back")
    put(store, "a", 8, owner="ann", parts=(("one", b"\0\xff"), ("two", b"2")))
    put(store, "a", 9, owner="ann", parts=(("two", b"3"),))
    _demand(store.parts(TALLY, "a") == {"one": b"\0\xff", "two": b"3"}, "parts don't come back")
    _demand(store.parts(TALLY, "a", ["two", "none"]) == {"two": b"3"}, "parts don't come back by name")
    _demand(store.get(OTHER, "a") is None, "two kinds share a key")
    store.change(OTHER, "a", lambda _: (_Tally(1), None))
    put(store, "b", 1, owner="ben")
    _demand(store.keys(TALLY, owner="ben") == ["b"], "keys of an owner are wrong")
    _demand(store.keys(OTHER) == ["a"] and len(store.keys(TALLY)) == 4, "keys of a kind are wrong")
    _demand(len(store) == 5, f"5 states were put there, and {len(store)} are counted")
    _demand(store.change(TALLY, "b", lambda state: (state or _Tally(0), "result")) == "result", "no result")
    for kind in (TALLY, OTHER):
        for key in store.keys(kind):
            _demand(store.remove(kind, key), f"{key!r} was known and is not removed")
            _demand(not store.remove(kind, key), f"{key!r} is removed twice")
    _demand(store.parts(TALLY, "a") == {} and len(store) == 0, "something is left of what was removed")


def _check_failures(store: StateStore, put: Callable[..., None]) -> None:
    put(store, "a", 1)

    def fail(_: _Tally | None) -> tuple[_Tally, None]:
        raise LookupError("on purpose")

    for changes in ([fail], [lambda _: (_Tally(2, parts=(("p", b"p"),)), None), fail]):
        try:
            store.change_all([Change(TALLY, key, one) for key, one in zip("ab", changes, strict=False)])
        except LookupError:
            pass
        else:
            raise AssertionError("an error in a change is swallowed")
        _holds(store, "a", 1, "a change that failed is there in part")
        _demand(store.parts(TALLY, "a") == {}, "the parts of a change that failed are there")
    both = store.change_all([Change(TALLY, key, _plus_one) for key in "ab"])
    _demand(both == (2, 1), f"two changes gave {both}, not (2, 1)")


def _plus_one(state: _Tally | None) -> tuple[_Tally, int]:
    number = 1 + (state.number if state is not None else 0)
    return _Tally(number), number


def _check_threads(store: StateStore) -> None:
    def work(_: int) -> list[int]:
        return [store.change_all([Change(TALLY, key, _plus_one) for key in "st"])[0] for _ in range(_TIMES)]

    with ThreadPoolExecutor(_THREADS) as pool:
        given = sorted(number for numbers in pool.map(work, range(_THREADS)) for number in numbers)
    _demand(given == list(range(1, _THREADS * _TIMES + 1)), f"{_THREADS} threads lost or doubled a change")
    _holds(store, "t", _THREADS * _TIMES, "one of two changes of a step was lost")


def _check_second(store: StateStore, second: StateStore, put: Callable[..., None]) -> None:
    put(store, "shared", 1)
    try:
        for other in (second, store, second):
            other.change(TALLY, "shared", _plus_one)
        for one in (store, second):
            _holds(one, "shared", 4, "two connections don't see the same state")
    finally:
        second.close()
    _demand(store.get(TALLY, "shared") is not None, "closing one connection closed another")


def _check_room(make: Callable[..., StateStore], clock: Moving, put: Callable[..., None]) -> None:
    store = make(limit=3, ttl=None, clock=clock)
    try:
        put(store, "ended", 1, lasting=True)
        for key in "abcabd":
            clock.now += timedelta(seconds=1)
            put(store, key, 1)
        known = [key for key in store.keys(TALLY) if key != "ended"]
        _demand(len(known) <= 3 and "d" in known and "b" in known, f"of a, b, c, a, b, d it keeps {known}")
        state = store.get(TALLY, "ended")
        _demand(state is not None and state.lasting, "what must last was dropped for want of room")
    finally:
        store.close()


def _check_age(make: Callable[..., StateStore], clock: Moving, put: Callable[..., None]) -> None:
    store = make(limit=100, ttl=timedelta(days=1), clock=clock)
    try:
        put(store, "old", 1)
        put(store, "ended", 1, lasting=True)
        clock.now += timedelta(hours=23)
        _demand(store.get(TALLY, "old") is not None, "a state is gone before its time")
        put(store, "young", 1)
        clock.now += timedelta(hours=2)
        _demand(store.get(TALLY, "old") is None, "a state is there after its time")
        _demand(store.get(TALLY, "young") is not None, "a state is gone before its time")
        state = store.get(TALLY, "ended")
        _demand(state is not None and state.lasting, "what must last is gone with the others")
        number = store.change(TALLY, "old", _plus_one)
        _demand(number == 1, "a change was given a state that is past its time")
        clock.now += timedelta(hours=1)
        try:
            _demand(store.purge(clock.now - timedelta(hours=2)) >= 1, "nothing is purged")
        except (SessionError, StateError) as error:
            raise AssertionError(f"purge failed: {error}") from error
        _demand(all(isinstance(place, str) for place in store.scrub()), "scrub returns something else than texts")
        _demand(store.get(TALLY, "young") is None, "what was not used since is still there")
        _demand(store.get(TALLY, "ended") is not None, "what must last was purged")
    finally:
        store.close()


def _holds(store: StateStore, key: str, number: int, message: str) -> None:
    state = store.get(TALLY, key)
    _demand(state is not None and state.number == number, message)


def _demand(kept: bool, message: str) -> None:
    """Raise unless a demand is kept; an ``assert`` would vanish under ``python -O``."""
    if not kept:
        raise AssertionError(message)
