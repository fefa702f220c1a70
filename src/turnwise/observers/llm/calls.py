"""One asking of a model, from looking for a kept reply to reading the one that came."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from turnwise.clock import Clock, utc_now
from turnwise.errors import ObserverError
from turnwise.observers.llm.chat import MAYBE_PAID, PASSING, ChatClient, ChatError, FaultKind, Message
from turnwise.observers.llm.endpoint import Endpoint, estimate
from turnwise.observers.llm.request_limits import Halt, RequestLimits
from turnwise.observers.llm.shared_limits import Allowance, SharedLimits
from turnwise.observers.llm.structured_output import Structure
from turnwise.scoring import Call, Reply, ReplyJournal

Monotonic = Callable[[], float]
"""Gives seconds from an arbitrary start, never less than before."""

_UNREACHED_RETRIES = 2
"""Retries of a server that nobody has reached yet: a wrong address should be told before a minute is over."""


class Asking(NamedTuple):
    """What is asked: `key` is the hash of the request without its nonce, `repeat` counts from 1.

    `names` are those of the principles that are asked for.
    """

    key: str
    repeat: int
    names: Sequence[str]
    nonce: str
    messages: tuple[Message, ...]


@dataclass(slots=True)
class Calls:
    """Sends requests for many threads: within the budget, at the provider's pace, paying for no reply twice.

    `clock` gives the times that are recorded, `monotonic` measures how long a reply took; `wait` makes the pause
    before a retry, in seconds, `Halt.wait` where None.
    """

    endpoint: Endpoint
    client: ChatClient
    clock: Clock = utc_now
    monotonic: Monotonic = time.perf_counter
    wait: Callable[[float], None] | None = None
    jitter: Random = field(default_factory=Random)
    halt: Halt = field(default_factory=Halt)
    limits: RequestLimits | SharedLimits = field(init=False)
    structure: Structure = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _asking: dict[tuple[str, int], _Turnstile] = field(default_factory=dict)
    _failed_in_row: int = 0
    _reached: bool = False

    def __post_init__(self) -> None:
        settings = self.endpoint.settings
        self.limits = RequestLimits(self.halt, settings.budget_usd, settings.requests_per_minute)
        self.structure = Structure(self.endpoint.structured, self.endpoint.ways)

    def sharing(self, allowance: Allowance) -> Calls:
        """The same within what several processes may spend and send together."""
        other = Calls(self.endpoint, self.client, self.clock, self.monotonic, self.wait, self.jitter)
        other.limits = SharedLimits(other.halt, allowance)
        return other

    def ask(
        self,
        key: str,
        repeat: int,
        names: Sequence[str],
        make: Callable[[], tuple[str, tuple[Message, ...]]],
        journal: ReplyJournal | None,
    ) -> list[Call]:
        """Ask, or take the kept reply where there is one that can be read, or where the journal's are final.

        `ObserverError` once the run stopped and a request would have to be sent.

        `key` is the hash of the request without its nonce, `repeat` counts from 1. Each of `names`, the
        principles that are asked for, gets a call, all of them with the same reply. `make` gives a fresh nonce and
        the messages marked with it; it is only called where they are sent.
        """
        if journal is None or not self.endpoint.settings.cache:
            return self._send(Asking(key, repeat, names, *make()), journal)
        with self._alone(key, repeat):
            kept = journal.find(key, repeat)
            if kept is not None:
                calls = self._read(kept, names, cached=True, attempts=0)
                # A reply that can't be read is no result: whoever asks again wants another.
                if any(call.score for call in calls) or journal.final:
                    return calls
            return self._send(Asking(key, repeat, names, *make()), journal)

    def _send(self, asking: Asking, journal: ReplyJournal | None) -> list[Call]:
        self.halt.check()
        structured = self.structure.current
        most = estimate(asking.messages, self.endpoint.price, self.endpoint.max_tokens).most_usd or 0.0
        attempts, tries, refused = 0, 0, True
        while True:
            attempts += 1
            tries += 1
            try:
                reply = self._attempt(structured, asking, most, journal, refused=refused)
            except ChatError as fault:
                weaker = self.structure.weaker(structured, fault)
                if weaker is not None and self.structure.is_plain_refusal(fault):
                    structured, tries = weaker, tries - 1  # nothing was retried: something else is asked
                    continue
                if self._again(fault, tries):
                    structured, refused = weaker or structured, refused and weaker is None
                    continue
                tried = "" if attempts == 1 else f" (after {attempts} tries)"
                call = Call(
                    asking.repeat, None, None, reason=str(fault.kind), message=f"{fault}{tried}", attempts=attempts
                )
                calls = [call] * len(asking.names)
            else:
                calls = self._read(reply, asking.names, cached=False, attempts=attempts)
            self._count(calls)
            return calls

    def _attempt(
        self, structured: str, asking: Asking, most: float, journal: ReplyJournal | None, *, refused: bool
    ) -> Reply:
        """Send a request once; its reply is kept before anybody reads it."""
        request = self.endpoint.request(asking.messages, asking.names, structured)
        ticket = self.limits.take(most)
        try:
            self.halt.wait(ticket.delay)
            began = self.monotonic()
            try:
                answer = self.client.complete(request)
            except ChatError as fault:
                ticket.throttled = fault.kind is FaultKind.THROTTLED
                ticket.spent_usd = most if fault.kind in MAYBE_PAID else 0.0
                raise
            latency, now = self.monotonic() - began, self.clock()
            reply = self.endpoint.reply(answer, asking.key, asking.repeat, asking.nonce, structured, latency, now)
            ticket.replied = True
            ticket.spent_usd = most if reply.cost_usd is None else reply.cost_usd
        finally:
            self.limits.settle(ticket)  # before the reply is kept: others may send meanwhile
        self.structure.replied(structured, refused=refused)
        if journal is not None:
            journal.record(reply)
        return reply

    def _again(self, fault: ChatError, attempts: int) -> bool:
        """Wait and say whether to send the request again; stop the run where no request would fare better."""
        if fault.kind is FaultKind.FATAL:
            self.halt.now(ObserverError(str(fault)))
        self.halt.check()
        if fault.kind not in PASSING or (fault.retry_after or 0) > PATIENCE:
            return False
        unreached = fault.kind is FaultKind.UNREACHABLE and not self._reached
        retries = self.endpoint.settings.max_retries
        if attempts > (min(retries, _UNREACHED_RETRIES) if unreached else retries):
            if unreached:
                self.halt.now(ObserverError(f"{fault}: check that the server runs, and that this is its address"))
                self.halt.check()
            return False
        with self._lock:  # Random is not made for several threads
            jitter = self.jitter.random()
        (self.wait or self.halt.wait)(delay(attempts, fault.retry_after, jitter))
        self.halt.check()
        return True

    def _count(self, calls: Sequence[Call]) -> None:
        """Stop the run when too many calls in a row have failed."""
        most = self.endpoint.settings.max_failures_in_row
        with self._lock:
            self._reached = self._reached or calls[0].reply is not None
            self._failed_in_row = 0 if any(call.score for call in calls) else self._failed_in_row + 1
            failed = self._failed_in_row
        if most and failed >= most:
            self.halt.now(
                ObserverError(
                    f"{failed} calls in a row failed, so the run stops; the last one: {calls[0].reason}: "
                    f"{calls[0].message}. The same command continues; LlmSettings.max_failures_in_row sets how "
                    "many are borne"
                )
            )

    def _read(self, reply: Reply, names: Sequence[str], *, cached: bool, attempts: int) -> list[Call]:
        return [
            Call(
                reply.repeat,
                reply,
                parsed.score,
                parsed.reasoning,
                parsed.reason,
                parsed.message,
                cached=cached,
                attempts=attempts,
            )
            for parsed in self.endpoint.read(reply, names)
        ]

    @contextmanager
    def _alone(self, key: str, repeat: int) -> Iterator[None]:
        """Let one thread at a time ask the same: the others then find the reply that it paid for."""
        with self._lock:
            turnstile = self._asking.setdefault((key, repeat), _Turnstile())
            turnstile.waiting += 1
        try:
            with turnstile.lock:
                yield
        finally:
            with self._lock:
                turnstile.waiting -= 1
                if not turnstile.waiting:
                    del self._asking[key, repeat]


@dataclass(slots=True)
class _Turnstile:
    lock: threading.Lock = field(default_factory=threading.Lock)
    waiting: int = 0


FIRST = 0.5
"""Seconds before the first retry; each later one doubles it."""

LONGEST = 60.0
"""Seconds that the doubling ends at."""

PATIENCE = 900.0
"""Seconds that a provider may ask to wait; after a longer demand the call is given up."""


def delay(retry: int, asked: float | None, jitter: float) -> float:
    """Seconds before a retry, counted from 1: exponential, spread at random, never less than was asked for.

    `jitter`, a random number in [0, 1), spreads callers that failed together over half of the wait.

    >>> delay(1, None, 0.0), delay(3, None, 1.0), delay(3, 7.0, 0.0)
    (0.25, 2.0, 7.0)
    """
    step = min(FIRST * 2.0 ** min(retry - 1, 30), LONGEST)
    own = step * (0.5 + jitter / 2)
    # Those who were told the same moment should not all come back in it.
    return own if asked is None else max(own, asked + jitter * min(asked, 1.0) / 4)
