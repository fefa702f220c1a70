"""Rate limits by key, such as a user or an API token, and over all keys; prompts that a limit refused."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any, Final

from turnwise._support.bounded import read_json
from turnwise.clock import Clock
from turnwise.conversation import Conversation
from turnwise.conversation.rate_limit import WINDOWS, RateLimit, Timeline, read_limits
from turnwise.errors import ConversationError, GuardError
from turnwise.guard.names import checked_name, digest_of
from turnwise.sessions.state_store import Change, StateKind, StateStore

WindowLimits = Mapping[str, int]
"""Prompts by window: any of ``minute``, ``hour`` and ``day``."""

GLOBAL, KEY = "global", "key"
"""Whose limit refused a prompt."""

_EVERYONE: Final = "everyone"

_LENGTHS: Final = {name: int(length.total_seconds() * 1_000) for name, length in WINDOWS.items()}


@dataclass(frozen=True, slots=True)
class RateLimits:
    """What may be set of the limits; an empty one is none."""

    everyone: WindowLimits = field(default_factory=dict)  # prompts of all keys, exempt roles left out
    per_key: WindowLimits = field(default_factory=dict)  # of a key without a role that has limits of its own
    roles: Mapping[str, WindowLimits] = field(default_factory=dict)  # all prompts of a key count, whatever role
    exempt_roles: tuple[str, ...] = ()
    most_keys: int = 100_000  # that this process remembers; the one least recently used is forgotten first

    def __post_init__(self) -> None:
        for what, limits in (("global", self.everyone), ("per_key", self.per_key), *self.roles.items()):
            try:
                read_limits(limits, f"rate limit {what}")
            except ConversationError as error:
                raise GuardError(str(error)) from None
        both = sorted(set(self.roles) & set(self.exempt_roles))
        if both:
            raise GuardError(f"rate limit: role {both[0]!r} is exempt and has limits; choose one")
        if self.most_keys < 1:
            raise GuardError(f"rate limit: most_keys is {self.most_keys}; use at least 1")

    def of_role(self, role: str | None) -> WindowLimits | None:
        """The limits of a key with a role, or without one; None for a role that is exempt."""
        if role is None:
            return self.per_key
        return None if role in self.exempt_roles else self.roles.get(role, self.per_key)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A prompt that a limit refused: whose limit (`GLOBAL` or `KEY`), which, and seconds until one would pass."""

    scope: str
    limits: WindowLimits
    retry_after: float

    @property
    def reason(self) -> str:
        """Which limits the prompt would have broken, without the key."""
        most = ", ".join(f"{count} per {window}" for window, count in self.limits.items())
        return f"more than {most} {'over all keys' if self.scope == GLOBAL else 'for this key'}"


class KeyLimits:
    """Counts prompts by key. Safe under threads; keys are kept as hashes and never shown.

    Windows are measured by a `Timeline`, so a clock that is set neither lifts a limit nor keeps it exceeded.

    >>> from datetime import UTC
    >>> limits, now = KeyLimits(RateLimits(per_key={"minute": 1})), datetime(2025, 1, 1, tzinfo=UTC)
    >>> limits.refuse("ann", None, now), limits.refuse("ben", None, now)
    (None, None)
    >>> limits.refuse("ann", None, now).reason
    'more than 1 per minute for this key'
    """

    def __init__(self, settings: RateLimits, clock: Clock | None = None) -> None:
        self._settings = settings
        self._timeline = Timeline(clock)
        self._everyone = RateLimit(settings.everyone) if settings.everyone else None
        self._widest = widest(settings.per_key, *settings.roles.values())
        self.active = self._everyone is not None or bool(self._widest)
        """Whether there is any limit."""
        self._keys: OrderedDict[str, RateLimit] = OrderedDict()
        self._lock = Lock()

    def refuse(self, key: str | None, role: str | None, now: datetime) -> Refusal | None:
        """Count a prompt and return None, or return which limit refuses it, that over all keys first."""
        settings = self._settings
        limits = settings.of_role(role)
        if limits is None:
            return None
        with self._lock:
            now, everyone = self._timeline.at(now), self._everyone
            if everyone is not None and everyone.exceeded(now):
                return Refusal(GLOBAL, settings.everyone, everyone.wait(now))
            own = self._own(key) if key is not None and self._widest else None
            if own is not None and own.exceeded(now, limits):
                return Refusal(KEY, limits, own.wait(now, limits))
            for counted in (everyone, own):
                if counted is not None:
                    counted.record(now)
        return None

    def take_over(self, before: KeyLimits) -> None:
        """Count on where other limits stopped, as far as both count the same; those may still be asked."""
        with before._lock:
            self._timeline, self._lock = before._timeline, before._lock
            if self._everyone is not None and before._everyone is not None:
                self._everyone.take_over(before._everyone)
            for hashed, counted in before._keys.items() if self._widest else ():
                own = self._keys[hashed] = RateLimit(self._widest)
                own.take_over(counted)
            while len(self._keys) > self._settings.most_keys:
                self._keys.popitem(last=False)

    def forget(self, key: str) -> bool:
        """Forget the prompts of a key, and return whether there were any."""
        with self._lock:
            return self._keys.pop(_digest(key), None) is not None

    def _own(self, key: str) -> RateLimit:
        hashed = _digest(key)
        own = self._keys.get(hashed)
        if own is None:
            own = self._keys[hashed] = RateLimit(self._widest)
            if len(self._keys) > self._settings.most_keys:
                self._keys.popitem(last=False)
        else:
            self._keys.move_to_end(hashed)
        return own


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
    """A limit refuses a prompt; `ahead` says whether arrivals are ahead of the clock."""

    def __init__(self, refusal: Refusal, *, ahead: bool) -> None:
        self.refusal = refusal
        self.ahead = ahead


class SharedKeyLimits:
    """Counts prompts by key in a state store: as `KeyLimits`, and for all workers of the store together.

    In this process time goes by the monotonic clock, so setting the system's clock lifts no limit; between workers
    it is what their clocks say. An arrival ahead of the clock counts as now. No more arrivals are kept than the
    largest limit.

    >>> from turnwise.sessions import MemoryStateStore
    >>> from turnwise.clock import utc_now
    >>> store, settings = MemoryStateStore(), RateLimits(per_key={"minute": 1})
    >>> workers = [SharedKeyLimits(settings, store, utc_now) for _ in range(2)]
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
        self._lock = Lock()

    def refuse(self, key: str | None, role: str | None, now: datetime) -> Refusal | None:
        """Count a prompt and return None, or return which limit refuses it; as `KeyLimits.refuse`."""
        settings = self._settings
        limits = settings.of_role(role)
        if limits is None:
            return None
        with self._lock:
            present = self._timeline.at(now)
        at = int((present + self._offset).timestamp() * 1_000)
        changes = []
        if settings.everyone:
            changes.append(_counting(_EVERYONE, GLOBAL, settings.everyone, settings.everyone, at))
        if key is not None and self._widest:
            changes.append(_counting(_digest(key), KEY, limits, self._widest, at))
        try:
            self._store.change_all(changes)
        except _RefusedError as refused:
            if refused.ahead:
                # They count from now on, not for as long as the other clock is ahead.
                self._store.change_all([Change(LIMIT, one.key, _clamping(at)) for one in changes])
            return refused.refusal
        return None

    def forget(self, key: str) -> bool:
        """Forget the prompts of a key, and return whether there were any."""
        return self._store.remove(LIMIT, _digest(key))


def _digest(key: str) -> str:
    """What a key is counted under, whatever its spelling."""
    return digest_of(checked_name(key, "key"))


def _counting(key: str, scope: str, limits: WindowLimits, kept: Mapping[str, int], at: int) -> Change:
    """The change that counts a prompt, or raises where one of the limits refuses it; `at` is in milliseconds."""

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


def widest(*several: WindowLimits) -> dict[str, int]:
    """The largest limit of each window that any of several sets.

    >>> widest({"minute": 2}, {"minute": 3, "day": 9})
    {'minute': 3, 'day': 9}
    """
    windows = [window for window in WINDOWS if any(window in limits for limits in several)]
    return {window: max(limits.get(window, 0) for limits in several) for window in windows}


CONVERSATION: Final = "conversation"  # scope of a refusal by the conversation's own limit

EVENTS: Final = "rate_limit_events"
"""Key of a conversation's metadata: ``{"count": n, "latest": [...]}``, oldest first."""

MOST_EVENTS: Final = 1_000  # events that are kept; of older ones only the count


def note_refusal(
    conversation: Conversation, *, scope: str, reason: str, text_sha256: str, now: datetime, retry_after: float
) -> None:
    """Note a refused prompt in the metadata of its conversation, as a hash; the text itself is not kept."""
    event = {
        "scope": scope,
        "reason": reason,
        "text_sha256": text_sha256,
        "after_turn": conversation.get_turn_count(),
        "timestamp": now.isoformat(),
        "retry_after": retry_after,
    }

    def add(before: Any) -> dict[str, Any]:
        # A list that only this grows; dropping the front in bulk keeps it cheap under a flood.
        known = before if isinstance(before, dict) else {}
        latest, count = known.get("latest"), known.get("count")
        latest = latest if isinstance(latest, list) else []
        count = count if isinstance(count, int) and not isinstance(count, bool) else len(latest)
        latest.append(event)
        if len(latest) >= 2 * MOST_EVENTS:
            del latest[:-MOST_EVENTS]
        return {"count": count + 1, "latest": latest}

    with conversation.history.lock:
        conversation.metadata[EVENTS] = add(conversation.metadata.get(EVENTS))


def refusals_of(conversation: Conversation) -> tuple[int, list[dict[str, Any]]]:
    """How many prompts a rate limit refused, and the latest of them, oldest first."""
    kept = conversation.metadata.get(EVENTS)
    if kept is None:
        return 0, []
    from turnwise.guard.stored_checks import refusals

    return refusals(kept, f"metadata.{EVENTS}")
