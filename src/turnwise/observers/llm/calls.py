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
from turnwise.observers.llm.chat import ChatClient, Message
from turnwise.observers.llm.endpoint import Endpoint, estimate
from turnwise.observers.llm.faults import MAYBE_PAID, PASSING, PATIENCE, ChatError, FaultKind, delay
from turnwise.observers.llm.limits import Allowance, Halt, RequestLimits, SharedLimits
from turnwise.observers.llm.settings import STRUCTURED
from turnwise.scoring import Call, Reply, ReplyJournal

Monotonic = Callable[[], float]
"""Gives seconds from an arbitrary start, never less than before."""

_UNREACHED_RETRIES = 2
"""Retries of a server that nobody has reached yet: a wrong address should be told before a minute is over."""


class Asking(NamedTuple):
    """What is asked: `key` is the hash of the request without its nonce, `names` are those of principles."""

    key: str
    repeat: int
    names: Sequence[str]
    nonce: str
    messages: tuple[Message, ...]


@dataclass(slots=True)
class Calls:
    """Sends requests for many threads: within the budget, at the provider's pace, paying for no reply twice."""

    endpoint: Endpoint
    client: ChatClient
    clock: Clock = utc_now
    monotonic: Monotonic = time.perf_counter
    wait: Callable[[float], None] | None = None  # before a retry; `Halt.wait` where None
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
        """A call for each of `names`, all with the kept reply or a new one; `make` gives nonce and messages."""
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
            Call(reply.repeat, reply, *parsed, cached=cached, attempts=attempts)
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


_MAYBE_REFUSED = frozenset({400, 422, 500, 501})
"""Statuses that servers give to a structure which they don't know, mostly without saying so."""


class Structure:
    """How JSON or log-probabilities are asked for, where a server may refuse to be asked so; for many threads.

    A server that refuses one of `ways` is asked with the next weaker one. The first reply that comes so settles it
    for all later requests; where the server merely failed, which may pass, the second one does. Once a reply came
    the way it was wanted, only a server that names the structure in its refusal is asked otherwise, and only for
    that request: a router may pass requests to several.

    >>> structure = Structure("json_schema")
    >>> structure.weaker("json_schema", ChatError(FaultKind.SERVER, "no such response_format", status=500))
    'json_object'
    >>> structure.replied("json_object")
    >>> structure.current
    'json_object'
    """

    def __init__(self, wanted: str, ways: Sequence[str] = STRUCTURED) -> None:
        self._lock = threading.Lock()
        self._ways = ways
        self._current = wanted
        self._settled = False
        self._suspected = False

    @property
    def current(self) -> str:
        return self._current

    def weaker(self, asked: str, fault: ChatError) -> str | None:
        """How to ask again after a fault of a request that asked as `asked`; None where that would not help."""
        at = self._ways.index(asked)
        if at + 1 == len(self._ways) or not (fault.names_structure or self._may_be_refused(asked, fault)):
            return None
        # Another thread may have learned meanwhile what the server takes.
        return self._ways[max(at + 1, self._ways.index(self._current))]

    def is_plain_refusal(self, fault: ChatError) -> bool:
        """Whether the same request would surely fare no better again."""
        return fault.names_structure or fault.kind is FaultKind.REJECTED

    def replied(self, asked: str, *, refused: bool = True) -> None:
        """Learn that a reply came to a request that asked so, after stronger ways were `refused` or failed."""
        if self._settled:
            return
        with self._lock:
            if self._settled:
                return
            if refused or self._suspected or asked == self._current:
                self._current, self._settled = asked, True
            else:
                self._suspected = True

    def _may_be_refused(self, asked: str, fault: ChatError) -> bool:
        kinds = (FaultKind.REJECTED, FaultKind.SERVER)
        unproven = not (self._settled and asked == self._current)
        return unproven and fault.kind in kinds and fault.status in _MAYBE_REFUSED
