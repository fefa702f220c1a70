"""Rate limits per key that several workers share: the prompts of a key are counted in the state store."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from turnwise.bounded import read_json
from turnwise.clock import Clock
from turnwise.conversation.rate_limit import WINDOWS, Timeline
from turnwise.guard.limits import GLOBAL, KEY, Limits, RateLimits, Refusal, widest
from turnwise.guard.request import digest_of
from turnwise.sessions.state_store import Change, StateKind, StateStore

_EVERYONE: Final = "everyone"

_LENGTHS: Final = {name: int(length.total_seconds() * 1_000) for name, length in WINDOWS.items()}

Arrivals = tuple[int, ...]
"""When prompts arrived, oldest first, in milliseconds of UTC."""


def _dump(state: Arrivals) -> bytes:
    steps = [after - before for before, after in zip((0, *state), state, strict=False)]
    return json.dumps(steps, separators=(",", ":")).encode("ascii")


def _load(data: bytes, key: str, version: int) -> Arrivals:
    arrivals, at = [], 0
    for step in read_json(data.decode("ascii")):
        if not isinstance(step, int) or step < 0:
            raise ValueError(f"{step!r} is no time between two prompts")
        at += step
        arrivals.append(at)
    return tuple(arrivals)


LIMIT: Final = StateKind("limit", 1, _dump, _load)
"""Arrivals of prompts in a state store; the key is the digest of whose they are."""


class _RefusedError(Exception):
    """A limit refuses a prompt.

    Args:
        refusal: which.
        ahead: whether arrivals are ahead of the clock.
    """

    def __init__(self, refusal: Refusal, *, ahead: bool) -> None:
        self.refusal = refusal
        self.ahead = ahead


class SharedLimits:
    """Counts prompts by key in a state store: as `KeyLimits`, and for all workers of the store together.

    In this process time goes by the monotonic clock, so setting the system's clock lifts no limit; between workers
    it is what their clocks say. An arrival ahead of the clock counts as now.

    Args:
        settings: the limits.
        store: where arrivals are kept, as many as the largest limit.
        clock: gives the present time, aware.

    >>> from turnwise.sessions import MemoryStateStore
    >>> from turnwise.clock import utc_now
    >>> store, settings = MemoryStateStore(), RateLimits(per_key={"minute": 1})
    >>> workers = [SharedLimits(settings, store, utc_now) for _ in range(2)]
    >>> [worker.refuse("ann", None, utc_now()) is None for worker in workers]
    [True, False]
    """

    def __init__(self, settings: RateLimits, store: StateStore, clock: Clock) -> None:
        self._settings = settings
        self._store = store
        self._widest = widest(settings.per_key, *settings.roles.values())
        self.active = bool(settings.everyone or self._widest)
        """Whether there is any limit."""
        self._timeline = Timeline(clock)
        self._offset = clock() - self._timeline.at(clock())

    def refuse(self, key: str | None, role: str | None, now: datetime) -> Refusal | None:
        """Count a prompt, unless a limit refuses it; as `KeyLimits.refuse`.

        Raises:
            StateError: the store can't be read or written.
        """
        settings = self._settings
        if role is not None and role in settings.exempt_roles:
            return None
        limits = settings.per_key if role is None else settings.roles.get(role, settings.per_key)
        at = int((self._timeline.at(now) + self._offset).timestamp() * 1_000)
        changes = []
        if settings.everyone:
            changes.append(_counting(_EVERYONE, GLOBAL, settings.everyone, settings.everyone, at))
        if key is not None and self._widest:
            changes.append(_counting(digest_of(key), KEY, limits, self._widest, at))
        try:
            self._store.change_all(changes)
        except _RefusedError as refused:
            if refused.ahead:
                # They count from now on, not for as long as the other clock is ahead.
                self._store.change_all([Change(LIMIT, one.key, _clamping(at)) for one in changes])
            return refused.refusal
        return None

    def forget(self, key: str) -> bool:
        """Forget the prompts of a key, and return whether there were any.

        Raises:
            StateError: the store can't be written.
        """
        return self._store.remove(LIMIT, digest_of(key))


def _counting(key: str, scope: str, limits: Limits, kept: Mapping[str, int], at: int) -> Change:
    """Return the change that counts a prompt, or raises where one of the limits refuses it."""

    def apply(before: Arrivals | None) -> tuple[Arrivals, None]:
        arrivals = [min(arrival, at) for arrival in before or ()]
        waits = [
            _LENGTHS[window] - (at - arrivals[-most]) for window, most in limits.items() if len(arrivals) >= most
        ]
        if waits and max(waits) > 0:
            refusal = Refusal(scope, limits, retry_after=max(waits) / 1_000)
            raise _RefusedError(refusal, ahead=before is not None and before[-1:] > (at,))
        longest = max(_LENGTHS[window] for window in kept)
        recent = [arrival for arrival in arrivals if at - arrival < longest]
        return (*recent, at)[-max(kept.values()) :], None

    return Change(LIMIT, key, apply)


def _clamping(at: int) -> Callable[[Arrivals | None], tuple[Arrivals, None]]:
    return lambda before: (tuple(min(arrival, at) for arrival in before or ()), None)
