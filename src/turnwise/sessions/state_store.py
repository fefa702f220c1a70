"""State stores: what keeps the states of sessions, conversations and limits, in this process or for many.

`StateStore` is the one protocol. States are immutable; a `StateKind` says how those of a kind become bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from turnwise._support.visible import shown
from turnwise.errors import SessionError, StateError, TurnwiseError

State = TypeVar("State")
Result = TypeVar("Result")

Apply = Callable[[State | None], tuple[State, Result]]
"""Takes a state, or None where none is known, and returns the next state and a result.

It must be pure and quick: a store that many processes share may call it again when another was faster."""

MOST_BYTES: Final = 64_000_000
"""Bytes that a payload may unfold to; whoever wrote a larger one was no store of ours."""


def no_parts(_: Any) -> Mapping[str, bytes]:
    return {}


@dataclass(frozen=True, slots=True)
class StateKind(Generic[State]):
    """States of one sort: how they are named, and how they become bytes.

    Args:
        name: short name, ASCII letters; keys of different kinds never meet.
        version: version of the bytes that `dump` writes, from 1.
        dump: gives a state as bytes.
        load: reads what `dump` gave, with the key and the version that it was written with, from 1 to `version`.
        used_at: time of its latest use, aware; for `StateStore.purge`.
        remnant: what must stay when a state has to make room, such as the end of a terminated session; None for
            nothing.
        owner: the digest of whom it belongs to, so that all of it can be forgotten together; may be empty.
        parts: named payloads that are written in the same step and read by `StateStore.parts`.
        words: bytes that payloads have in common, which makes them shorter; never changed within a version.

    >>> numbers = StateKind("number", 1, lambda n: str(n).encode(), lambda data, key, version: int(data))
    >>> numbers.unpack(numbers.pack(42), "answer")
    42
    """

    name: str
    version: int
    dump: Callable[[State], bytes]
    load: Callable[[bytes, str, int], State]
    used_at: Callable[[State], datetime] | None = None
    remnant: Callable[[State], State | None] = lambda _: None
    owner: Callable[[State], str] = lambda _: ""
    parts: Callable[[State], Mapping[str, bytes]] = no_parts
    words: bytes = b""

    def pack(self, state: State) -> bytes:
        """Return a state as a payload: name and version in plain text, then the state, compressed."""
        return f"{self.name}/{self.version}\n".encode("ascii") + folded(self.dump(state), self.words)

    def unpack(self, payload: bytes, key: str) -> State:
        """Return the state of a payload.

        Args:
            payload: what `pack` gave, now or in an earlier version.
            key: the key that it stands under, for the message.

        Raises:
            StateError: it is broken, of another kind or of a later version; the message names the key.
        """
        head, newline, body = bytes(payload).partition(b"\n")
        name, _, version = head.decode("ascii", "replace").partition("/")
        if (
            not newline
            or name != self.name
            or not (version.isascii() and version.isdecimal() and len(version) < 5)
        ):
            raise StateError(
                f"state {self.name} {shown(key)} can't be read: it is no payload of that kind; "
                "forget it, or name the right store"
            )
        if not 1 <= int(version) <= self.version:
            raise StateError(
                f"state {self.name} {shown(key)} was written in version {int(version)}, "
                f"known are 1 to {self.version}; use the turnwise that wrote it, or a later one"
            )
        try:
            return self.load(unfolded(body, self.words), key, int(version))
        except (ValueError, TypeError, KeyError, LookupError, OverflowError, zlib.error, TurnwiseError) as error:
            raise StateError(
                f"state {self.name} {shown(key)} is broken ({error}); forget it to begin anew"
            ) from error


def folded(data: bytes, words: bytes = b"") -> bytes:
    """Data compressed, with a checksum; ``words`` are bytes that it may have in common with others."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS, zdict=words) if words else zlib.compressobj(9)
    return packer.compress(data) + packer.flush()


def unfolded(data: bytes, words: bytes = b"") -> bytes:
    """What `folded` was given; ValueError where it is cut off, changed, or unfolds to more than `MOST_BYTES`."""
    unpacker = zlib.decompressobj(zdict=words) if words else zlib.decompressobj()
    try:
        found = unpacker.decompress(data, MOST_BYTES)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("it is cut off, or too large")
    return found


class Change(NamedTuple):
    """One of several changes that happen together; see `StateStore.change_all`.

    Args:
        kind: kind of the state.
        key: its key.
        apply: takes the state, or None where none is known, and returns the next state and a result.
    """

    kind: StateKind[Any]
    key: str
    apply: Apply[Any, Any]


class ChangesStates(Protocol):
    """What reads and changes single states: a store, or what holds changes back until a check has ended."""

    def get(self, kind: StateKind[State], key: str) -> State | None:
        """Return a state, or None for one that is not known."""

    def change(self, kind: StateKind[State], key: str, apply: Apply[State, Result]) -> Result:
        """Replace a state in one step, so that nothing is lost; return the result."""


class StateStore(ChangesStates, Protocol):
    """Keeps immutable states by kind and key. Safe to use from several threads.

    A store that several processes share makes `change` and `change_all` atomic among them: by a transaction, or
    by comparing and setting again until nobody was faster. `turnwise.guard.check_state_store` checks one.
    """

    def change_all(self, changes: Sequence[Change]) -> tuple[Any, ...]:
        """Apply several changes in one step, all or none, each to its state as it is; return their results."""

    def parts(self, kind: StateKind[Any], key: str, names: Iterable[str] | None = None) -> dict[str, bytes]:
        """Return parts of a state by name, all of them where `names` is None; what is not there is left out."""

    def remove(self, kind: StateKind[Any], key: str) -> bool:
        """Forget a state with its parts, a lasting one as well, and return whether it was known."""

    def keys(self, kind: StateKind[Any], owner: str | None = None) -> list[str]:
        """Return the keys of a kind, sorted; those of one owner where it is given."""

    def purge(self, before: datetime) -> int:
        """Drop states that were not used since a time, save what must last, and return how many."""

    def scrub(self) -> Sequence[str]:
        """Leave no byte of what was removed in files of the store; return where it may still be, in words."""

    def close(self) -> None:
        """Close what the store holds open; closing twice is harmless."""

    def __len__(self) -> int:
        """Return how many states are known."""


@dataclass(frozen=True, slots=True)
class Evicted:
    """A state that a store dropped for want of room, or because it was old.

    Args:
        kind: name of its kind, such as ``"session"``.
        key: its key; of a session its id.
        lasting: whether it held what must last: that its session was terminated.
        remembered: whether the store still knows that. Where it does not, a terminated session would come back as
            a new one: ban it elsewhere, or give the store more room.
    """

    kind: str
    key: str
    lasting: bool
    remembered: bool


def no_room_for_ends(limit: int) -> SessionError:
    return SessionError(
        f"the end of {limit + 1} terminated sessions can't be remembered within ended_limit={limit}: raise it, or "
        "pass on_evict and ban them elsewhere"
    )


def check_room(limit: int, ended_limit: int, ttl: timedelta | None) -> None:
    """Raise SessionError where a bound of a store is out of its range."""
    for name, value, least in (("limit", limit, 1), ("ended_limit", ended_limit, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise SessionError(f"{name} must be a whole number of at least {least}, not {value!r}")
    if ttl is not None and ttl <= timedelta(0):
        raise SessionError(f"ttl must be a time above 0, or None, not {ttl}")
