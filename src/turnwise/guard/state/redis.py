"""``RedisStateStore``: states in a Redis server that the workers of many machines share."""

from __future__ import annotations

import os
import random
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from turnwise.clock import Clock, utc_now
from turnwise.errors import StateDownError, StateError
from turnwise.guard.state.redis_scripts import CHANGE, OPEN, PURGE, REMOVE
from turnwise.guard.state.stores import SharedStore, State
from turnwise.sessions.state_store import Change, StateKind

FORMAT: Final = 1  # version of the keys, as the store's ``meta`` has it

SCHEMES: Final = ("redis", "rediss", "unix")

_PAUSE_SECONDS: Final = 0.25
"""How long nobody asks a server that did not answer; then one thread tries, and the others go on without."""

_TRIES: Final = 40  # tries of a change at least, where others are faster
_AT_ONCE: Final = 1_000  # keys that one command lists, about


class _StateRow(NamedTuple):
    """A state as the server has it."""

    payload: bytes | None  # None where the state is not known or past its time
    token: bytes  # of its last change, empty for none


class RedisStateStore(SharedStore):
    """Keeps states in Redis 6 or later, or a compatible server, for workers of many machines at once.

    A change is made by comparing and setting: the states are read, and a script writes all of them in one step
    unless one was changed meanwhile; then the change is tried again. A change whose answer is lost on the way is
    sent again once, and counts once. Whether what was written survives a restart of the server depends on the
    server's settings (``appendonly yes``). A server that was emptied is noticed by the next change of each
    worker, which is an error; after that it is used again.

    At most `limit` states are kept; the one that was changed least recently makes room. What must last, such as
    that a session was terminated, is never dropped for room and has a limit of its own.

    A server that does not answer is asked again after a quarter of a second, by one thread; until then every
    call is an error at once, so that no check waits long for a store that is down.

    Args:
        url: ``redis://[[user]:password@]host[:port][/database]``, ``rediss://`` for TLS, or
            ``unix://[[user]:password@]path[?db=n]``; the password is shown nowhere.
        prefix: what all keys begin with, so that several guards can share a server.
        limit: states that are kept beside those that must last, at least 1.
        ended_limit: states that must last, at least 0; one more is an error, never a silent loss.
        ttl: how long a state is kept that nobody changes; None for as long as there is room.
        ended_ttl: the same for what must last; None for ever.
        wait_seconds: how long a call waits for the server at most, above 0 and at most 600.
        must_answer: whether the server has to answer now; else the first call finds out.
        clock: gives the present time, aware.

    Raises:
        StateError: redis-py is not installed, the URL can't be read, the server does not answer or might drop what
            must last, or its keys were made by a later turnwise. Of every method: the server can't be asked, or a
            state can't be read; then nothing is changed, unless the server's answer was lost.
        SessionError: a bound out of its range.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "turnwise:",
        limit: int = 1_000_000,
        ended_limit: int = 1_000_000,
        ttl: timedelta | None = None,
        ended_ttl: timedelta | None = None,
        wait_seconds: float = 1.0,
        must_answer: bool = True,
        clock: Clock = utc_now,
    ) -> None:
        super().__init__(shown_url(url), limit, ended_limit, ttl, ended_ttl, wait_seconds, clock)
        self._prefix = prefix
        self._redis, self._client = _connected(url, self.path, wait_seconds)
        weakref.finalize(self, self._client.connection_pool.disconnect)
        self._open, self._change, self._remove, self._purge = map(
            self._client.register_script, (OPEN, CHANGE, REMOVE, PURGE)
        )
        self._meta, self._live, self._ended = (prefix + name for name in ("meta", "live", "ended"))
        self._id: bytes | None = None
        self._lock = threading.Lock()
        self._turns = threading.Lock()
        self._asked_again = 0.0
        self._down = ""
        try:
            with self._asking("it can't be opened"):
                pass
        except StateError:
            if must_answer or not self._down:
                self.close()
                raise

    def __len__(self) -> int:
        with self._asking():
            return sum(self._client.zcard(index) for index in (self._live, self._ended))

    def get(self, kind: StateKind[State], key: str) -> State | None:
        """Return a state, or None for one that is not known."""
        with self._asking():
            row = self._row(self._client.hmget(self._hash(kind, key), "p", "u", "l", "r"))
        return None if row.payload is None else kind.unpack(row.payload, key)

    def change_all(self, changes: Sequence[Change]) -> tuple[Any, ...]:
        """Apply several changes in one step, and return their results."""
        until = time.monotonic() + self._wait
        with ExitStack() as alone:
            for tried in count(1):
                results, outcome = self._try(changes)
                if outcome == b"written":
                    return results
                if outcome == b"full":
                    raise self._no_room()
                if outcome == b"emptied":
                    self._id = None
                    raise StateError(
                        f"state store {self.path} was emptied, or is another one than before: what it knew of "
                        "sessions and conversations is gone; try again: it is used from now on"
                    )
                if tried >= _TRIES and time.monotonic() > until:
                    raise StateError(f"state store {self.path}: others were faster {tried} times; try again")
                if tried == 1:
                    # Threads of this process go one by one now, so that only other processes are in the way.
                    alone.enter_context(self._turns)
                elif tried > 3:
                    time.sleep(random.random() * 1e-3 * min(tried, 16))
        raise AssertionError  # it counts for ever

    def parts(self, kind: StateKind[Any], key: str, names: Iterable[str] | None = None) -> dict[str, bytes]:
        """Return parts of a state by name; all of them where `names` is None."""
        place = self._hash(kind, key)
        if names is None:
            with self._asking():
                found = self._client.hgetall(place)
            return {name[1:].decode(): part for name, part in found.items() if name[:1] == b"="}
        wanted = list(names)
        if not wanted:
            return {}
        with self._asking():
            parts = self._client.hmget(place, [f"={name}" for name in wanted])
        return {name: part for name, part in zip(wanted, parts, strict=True) if part is not None}

    def remove(self, kind: StateKind[Any], key: str) -> bool:
        """Forget a state with its parts, also a broken one; return whether it was known."""
        keys, args = (self._live, self._ended, self._hash(kind, key)), (self._prefix, _member(kind, key))
        with self._asking("it can't be written"):
            return bool(self._remove(keys, args))

    def keys(self, kind: StateKind[Any], owner: str | None = None) -> list[str]:
        """Return the keys of a kind, sorted; only those of `owner` where one is given."""
        now = self._now()
        if owner is not None:
            with self._asking():
                found = self._client.zrangebyscore(f"{self._prefix}owner:{kind.name}:{owner}", now, "+inf")
            return sorted(_text(key) for key in found)
        known, begin = set(), f"{kind.name}:".encode()
        for index, ttl in zip((self._live, self._ended), self._ttls, strict=True):
            oldest = 0.0 if ttl is None else now - ttl.total_seconds() * 1e6
            with self._asking():
                for member, used in self._client.zscan_iter(index, f"{kind.name}:*", _AT_ONCE):
                    if used >= oldest:
                        known.add(_text(member[len(begin) :]))
        return sorted(known)

    def purge(self, before: datetime) -> int:
        """Drop states that were not changed since a time, except what must last; return how many."""
        gone, score = 0, int(before.timestamp() * 1e6)
        while True:
            with self._asking("it can't be written"):
                dropped = int(self._purge((self._live,), (self._prefix, score)))
            gone += dropped
            if not dropped:
                return gone

    def scrub(self) -> tuple[str, ...]:
        """Let the server rewrite its append-only file, if it has one; return where removed states may still be."""
        errors, left = (
            self._redis.exceptions,
            "snapshots and replicas of the Redis server, until they are made anew",
        )
        with self._asking("it can't be written"):
            try:
                if not self._client.info("persistence").get("aof_enabled"):
                    return (left,)
                self._client.bgrewriteaof()
            except errors.ResponseError as error:  # not allowed, or at it already
                return (left, f"the append-only file of the Redis server, until it is rewritten ({error})")
        return (left, "the append-only file of the Redis server, until it has been rewritten, which has begun")

    def close(self) -> None:
        """Close the connections; closing twice is harmless, and a later call is an error."""
        self._closed = True
        self._client.connection_pool.disconnect()

    # One change

    def _try(self, changes: Sequence[Change]) -> tuple[tuple[Any, ...], bytes]:
        """Apply changes to what the server has now; returns their results and the answer of `CHANGE`."""
        kinds = {(change.kind.name, change.key): change.kind for change in changes}
        with self._asking():
            asked = self._client.pipeline(transaction=False)
            for (_, key), kind in kinds.items():
                asked.hmget(self._hash(kind, key), "p", "u", "l", "r")
            rows = dict(zip(kinds, map(self._row, asked.execute()), strict=True))
        now = {place: self._state(kinds[place], place[1], row) for place, row in rows.items()}
        parts: dict[tuple[str, str], dict[str, bytes]] = {place: {} for place in kinds}
        changed, results = set(), []
        for kind, key, apply in changes:
            place = (kind.name, key)
            state, result = apply(now[place])
            if state is not now[place] or rows[place].payload is None:
                changed.add(place)
                parts[place].update(kind.parts(state))
            now[place] = state
            results.append(result)
        if not changed:
            return tuple(results), b"written"
        keys = [self._meta, self._live, self._ended, *(self._hash(kind, key) for (_, key), kind in kinds.items())]
        ttls = ("" if ttl is None else max(1, int(ttl.total_seconds() * 1e3)) for ttl in self._ttls)
        with self._asking("it can't be written"):
            args = [self._prefix, self._id, os.urandom(9), self._now(), *self._limits, *ttls]
            for place, kind in kinds.items():
                args += self._written(kind, place[1], rows[place], now[place], parts[place], place in changed)
            return tuple(results), self._change(keys, args)

    def _written(
        self, kind: StateKind[Any], key: str, row: _StateRow, state: Any, parts: dict[str, bytes], changed: bool
    ) -> list[Any]:
        if not changed:
            return [_member(kind, key), row.token, "read", "", "0", "", 0]
        mode = "anew" if row.payload is None else "write"
        lasting = int(kind.remnant(state) is not None)
        named = [item for name_and_part in parts.items() for item in name_and_part]
        payload, owner = kind.pack(state), kind.owner(state)
        return [_member(kind, key), row.token, mode, payload, lasting, owner, len(parts), *named]

    def _row(self, found: Sequence[bytes | None]) -> _StateRow:
        payload, used, lasting, token = found
        if payload is None or used is None or token is None:
            return _StateRow(None, token or b"")
        ttl = self._ttls[lasting == b"1"]
        expired = ttl is not None and self._now() - int(used) > ttl.total_seconds() * 1e6
        return _StateRow(None if expired else payload, token)

    def _state(self, kind: StateKind[State], key: str, row: _StateRow) -> State | None:
        return None if row.payload is None else kind.unpack(row.payload, key)

    def _hash(self, kind: StateKind[Any], key: str) -> bytes:
        return f"{self._prefix}state:".encode() + _member(kind, key)

    def _now(self) -> int:
        return int(self._clock().timestamp() * 1e6)

    # The server

    @contextmanager
    def _asking(self, what: str = "it can't be read") -> Iterator[None]:
        """Ask the server, unless it did not answer a moment ago; what goes wrong is an error that names it."""
        self._check_open()
        if self._down:
            with self._lock:
                if self._down and time.monotonic() < self._asked_again:
                    raise StateDownError(f"state store {self.path}: {what}: {self._down}; check the server")
                # This thread asks; the others go on without until it knows more.
                self._asked_again = time.monotonic() + 2.0 * self._wait
        errors = self._redis.exceptions
        try:
            if self._id is None:
                self._begin()
            yield
        except (errors.ConnectionError, errors.TimeoutError, OSError) as error:
            with self._lock:
                self._down = str(error) or type(error).__name__
                self._asked_again = time.monotonic() + _PAUSE_SECONDS
            raise StateDownError(f"state store {self.path}: {what}: {self._down}; check the server") from error
        except errors.RedisError as error:
            self._down = ""
            if isinstance(error, errors.ReadOnlyError):
                # Another server has become the first one: the next call looks for it.
                self._client.connection_pool.disconnect()
            raise StateDownError(f"state store {self.path}: {what}: {error}") from error
        else:
            self._down = ""

    def _begin(self) -> None:
        """Learn which store this is, or make it; check that the server keeps what must last."""
        errors = self._redis.exceptions
        try:
            memory = self._client.info("memory")
        except errors.ResponseError:
            memory = {}  # the user may not ask
        policy = str(memory.get("maxmemory_policy", ""))
        if memory.get("maxmemory") and policy.startswith("allkeys"):
            raise StateError(
                f"state store {self.path}: with maxmemory-policy {policy} the server may drop that a session was "
                "terminated; set maxmemory-policy noeviction, or use a server of its own"
            )
        form, own = self._open((self._meta,), (FORMAT, os.urandom(9)))
        if not bytes(form).isdigit() or int(form) > FORMAT:
            raise StateError(f"state store {self.path} was made by a later turnwise; update turnwise")
        self._id = own


def shown_url(url: str) -> str:
    """The URL of a server without user, password and options.

    >>> shown_url("redis://guard:secret@cache.example:6380/2?socket_timeout=3")
    'redis://cache.example:6380/2'
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in SCHEMES or (parts.scheme == "unix") != (not host):
        # What was given may hold a password.
        raise StateError(
            "the URL of the state store can't be read; use redis://[[user]:password@]host[:port][/database], with "
            "what is no letter or digit in user and password as %XX; rediss:// for TLS, or unix://path"
        )
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{'' if port is None else f':{port}'}{parts.path}"


def _connected(url: str, shown: str, wait_seconds: float) -> tuple[Any, Any]:
    """The library, and a client that connects at the first call."""
    try:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError as error:
        raise StateError(
            "a state store in Redis needs redis-py: python -m pip install 'turnwise[redis]'"
        ) from error
    library: Any = redis
    try:
        # Sent again once on a connection that was closed meanwhile, and never after a wait.
        client = library.Redis.from_url(
            url,
            protocol=2,
            socket_timeout=wait_seconds,
            socket_connect_timeout=wait_seconds,
            retry=Retry(NoBackoff(), 1, supported_errors=(library.exceptions.ConnectionError,)),
        )
    except (ValueError, TypeError) as error:
        raise StateError(
            f"state store {shown}: its options, after the ?, must be those of redis-py, such as ?socket_timeout=1"
        ) from error
    client.connection_pool.connection_kwargs["decode_responses"] = False
    return library, client


def _member(kind: StateKind[Any], key: str) -> bytes:
    return f"{kind.name}:{key}".encode("utf-8", "surrogatepass")


def _text(key: bytes) -> str:
    return key.decode("utf-8", "surrogatepass")
