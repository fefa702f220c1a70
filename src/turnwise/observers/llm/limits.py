"""Limits on requests, of a process or of several: how many at once, how fast, what they may cost, when to stop."""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, Literal, NamedTuple, Protocol

from turnwise.errors import BudgetError, ObserverError


@dataclass(slots=True)
class Ticket:
    """Leave to send one request, `delay` seconds from now; who has it notes how it ended, and gives it back."""

    most_usd: float  # set aside for it
    delay: float = 0.0
    halvings: int = 0  # of the limit before it was given
    spent_usd: float = field(default=0.0, compare=False)
    replied: bool = field(default=False, compare=False)
    throttled: bool = field(default=False, compare=False)


class RequestLimits:
    """Gives a ticket to each request as soon as it may be sent; safe to use from several threads.

    Requests under way are bounded by additive increase and multiplicative decrease (Chiu and Jain, "Analysis of
    the increase and decrease algorithms", 1989). Until one is throttled only `bound` limits them. A throttled
    request halves what was under way; requests that were sent before don't halve it again. As many replies as
    there are places win one back. With `per_minute`, above 0, requests are sent at even distances.

    Of the budget the most that a request can cost is set aside, until its real cost is known. A request waits
    while others hold what it would need; where nobody does, the run stops. So the budget is passed only by as much
    as requests cost more than their estimates.
    """

    def __init__(
        self,
        halt: Halt,
        budget_usd: float | None = None,
        per_minute: float | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._halt = halt
        self._changed = halt.changed
        self._budget = budget_usd
        self._spent = self._held = 0.0
        self._distance = 60 / per_minute if per_minute else 0.0
        self._monotonic = monotonic
        self._next = -math.inf
        self._limit = self._most = math.inf
        self._under_way = 0
        self._halvings = 0

    @property
    def limit(self) -> float:
        """How many requests may be under way; infinite while nobody bounded them and none was throttled."""
        return min(self._limit, self._most)

    @property
    def spent_usd(self) -> float:
        """US dollars that were spent, including those that replies lost on the way may have cost."""
        return self._spent

    def bound(self, most: int) -> None:
        """Have at most `most` requests under way, throttled or not; at least 1."""
        with self._changed:
            self._most = most
            self._changed.notify_all()

    def take(self, most_usd: float) -> Ticket:
        """Wait for a ticket for a request that costs at most so much; who takes one has to `settle` it."""
        with self._changed:
            while (ticket := self.try_take(most_usd)) is None:
                self._changed.wait()
                self._halt.check()
        return ticket

    def try_take(self, most_usd: float) -> Ticket | None:
        """Take a ticket if there is one now; `BudgetError` where no request under way could leave enough money."""
        with self._changed:
            if self._budget is not None and self._spent + self._held + most_usd > self._budget:
                if not self._under_way:
                    self._halt.now(
                        BudgetError(
                            f"the budget of ${self._budget:.2f} is used up: ${self._spent:.4f} are spent "
                            f"and the next request may cost ${most_usd:.4f}; the same command with a larger "
                            "--budget continues"
                        )
                    )
                self._halt.check()
                return None
            if self._under_way >= max(1, int(min(self.limit, 1e9))):
                return None
            self._under_way += 1
            self._held += most_usd
            ticket = Ticket(most_usd, halvings=self._halvings)
            if self._distance:
                now = self._monotonic()
                at = max(now, self._next)
                self._next, ticket.delay = at + self._distance, at - now
            return ticket

    def settle(self, ticket: Ticket) -> None:
        """Take a ticket back: count what its request cost, and learn from how it ended."""
        with self._changed:
            if ticket.throttled and ticket.halvings == self._halvings:
                self._limit = max(1.0, min(self._limit, self._under_way) // 2)
                self._halvings += 1
            if ticket.replied and math.isfinite(self._limit):
                self._limit += 1 / self._limit
            self._under_way -= 1
            self._spent += ticket.spent_usd
            self._held = self._held - ticket.most_usd if self._under_way else 0.0
            self._changed.notify_all()


class Halt:
    """Shared by all threads that send requests: once set, none sends another, and who waits wakes up.

    >>> halt = Halt()
    >>> halt.now(ObserverError("the key is wrong"))
    >>> halt.check()
    Traceback (most recent call last):
        ...
    turnwise.errors.ObserverError: the key is wrong
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._error: ObserverError | None = None
        self.changed = threading.Condition()
        """Notified when somebody who waits for a ticket may have one, or has to stop."""

    def now(self, error: ObserverError) -> None:
        """Stop; of several errors the first one is told."""
        with self.changed:
            self._error = self._error or error
            self._event.set()
            self.changed.notify_all()

    def check(self) -> None:
        if self._error is not None:
            raise type(self._error)(*self._error.args)  # of its own for each thread, with a traceback of its own

    def wait(self, seconds: float) -> None:
        """Wait, or less long if the run stops meanwhile; then raise its error."""
        self._event.wait(seconds)
        self.check()


ASK_AGAIN = 0.05
"""Seconds after which one thread of a worker asks again for a ticket; requests take longer by far."""

_AUTH_BYTES = 32

Call = Literal["take", "settle", "bound"]


class Admission(NamedTuple):
    """What the ledger says: a ticket, why nobody gets one any more, or neither where one has to ask again."""

    ticket: Ticket | None = None
    stopped: ObserverError | None = None


class Allowance(Protocol):
    """Carries calls to a ledger; picklable, but once it is used somewhere it belongs to that one worker."""

    def call(self, name: Call, argument: Any) -> Admission:
        """Have the ledger do something for this worker, at once; `ObserverError` where it can't be reached."""


class Ledger(RequestLimits):
    """Limits and tickets of all workers: no call waits, and what a dead worker held counts as spent."""

    def __init__(
        self,
        budget_usd: float | None = None,
        per_minute: float | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(Halt(), budget_usd, per_minute, monotonic)
        self._tickets: defaultdict[str, list[Ticket]] = defaultdict(list)

    def call(self, worker: str, name: Call, argument: Any) -> Admission:
        with self._changed:
            if name == "bound":
                self.bound(argument)
            elif name == "settle":
                self._tickets[worker].remove(argument)
                self.settle(argument)
            else:
                return self._take_for(worker, argument)
        return Admission()

    def _take_for(self, worker: str, most_usd: float) -> Admission:
        try:
            self._halt.check()
            ticket = self.try_take(most_usd)
        except ObserverError as error:
            return Admission(stopped=error)
        if ticket is not None:
            self._tickets[worker].append(ticket)
        return Admission(ticket)

    def gone(self, worker: str) -> None:
        """Take back the tickets of a worker that is no more."""
        with self._changed:
            for ticket in self._tickets.pop(worker, []):
                ticket.spent_usd = ticket.most_usd
                self.settle(ticket)


@contextmanager
def serve(ledger: Ledger) -> Iterator[SocketAllowance]:
    """Serve a ledger on a local socket meanwhile; nobody is let in without the allowance that this gives."""
    key = secrets.token_bytes(_AUTH_BYTES)
    ended = threading.Event()
    with Listener(authkey=key) as listener:

        def accept() -> None:
            number = 0
            while True:
                try:
                    connection = listener.accept()
                except Exception:  # noqa: BLE001 - who does not know the key, or went away at once
                    if ended.is_set():
                        return
                    continue
                number += 1
                name = f"worker {number}"
                threading.Thread(target=_answer, args=(connection, ledger, name), daemon=True).start()

        thread = threading.Thread(target=accept, name="turnwise-allowance", daemon=True)
        thread.start()
        try:
            yield SocketAllowance(listener.address, key)
        finally:
            ended.set()
            with suppress(OSError, EOFError):  # wakes it; without the key, so that nothing is waited for
                Client(listener.address).close()
            thread.join()


def _answer(connection: Connection, ledger: Ledger, worker: str) -> None:
    try:
        with connection:
            while True:
                connection.send(ledger.call(worker, *connection.recv()))
    except (EOFError, OSError):
        pass
    finally:
        ledger.gone(worker)


@dataclass
class SocketAllowance:
    """Carries calls over a local socket, to a ledger that `serve` answers for."""

    address: Any
    key: bytes = field(repr=False)
    _connection: Connection | None = field(default=None, repr=False, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return SocketAllowance, (self.address, self.key)

    def call(self, name: Call, argument: Any) -> Admission:
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = Client(self.address, authkey=self.key)
                self._connection.send((name, argument))
                answer: Admission = self._connection.recv()
            except (OSError, EOFError) as error:
                raise ObserverError(
                    "the process that keeps the common budget is gone; the same command continues"
                ) from error
        return answer


class SharedLimits:
    """What `RequestLimits` is to one process, for one of several."""

    def __init__(self, halt: Halt, allowance: Allowance) -> None:
        self._halt = halt
        self._allowance = allowance
        self._asking = threading.Lock()
        self._spending = threading.Lock()
        self._spent = 0.0

    @property
    def spent_usd(self) -> float:
        return self._spent

    def bound(self, most: int) -> None:
        self._allowance.call("bound", most)

    def take(self, most_usd: float) -> Ticket:
        with self._asking:
            while True:
                ticket, stopped = self._allowance.call("take", most_usd)
                if ticket is not None:
                    return ticket
                if stopped is not None:
                    self._halt.now(stopped)
                self._halt.wait(ASK_AGAIN)

    def settle(self, ticket: Ticket) -> None:
        with self._spending:
            self._spent += ticket.spent_usd
        self._allowance.call("settle", ticket)
