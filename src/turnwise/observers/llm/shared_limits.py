"""One allowance for the requests of several processes: what they may spend, and how fast they may send.

The `Ledger` keeps the limits in one place. Workers reach it through an `Allowance`: over a local socket
(`serve`), or through whatever else carries a call, such as an actor on a cluster. No call waits at the ledger, so
none holds up another: who is told to wait asks again. Of a worker that dies the ledger takes all tickets back, and
what was set aside for them counts as spent, since it may have been.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, Literal, NamedTuple, Protocol

from turnwise.errors import ObserverError
from turnwise.observers.llm.request_limits import Halt, RequestLimits, Ticket

ASK_AGAIN = 0.05
"""Seconds after which one thread of a worker asks again for a ticket; requests take longer by far."""

_AUTH_BYTES = 32

Call = Literal["take", "settle", "bound"]


class Answer(NamedTuple):
    """What the ledger says: a ticket, None where the worker has to ask again, or why nobody gets one any more."""

    ticket: Ticket | None = None
    stopped: ObserverError | None = None


class Allowance(Protocol):
    """Carries calls to a ledger; picklable, but once it is used somewhere it belongs to that one worker."""

    def call(self, name: Call, argument: Any) -> Answer:
        """Have the ledger do something for this worker, at once; `ObserverError` where it can't be reached."""


class Ledger:
    """Keeps the limits and tickets of all workers together; safe to use from several threads."""

    def __init__(
        self,
        budget_usd: float | None = None,
        per_minute: float | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._halt = Halt()
        self._limits = RequestLimits(self._halt, budget_usd, per_minute, monotonic)
        self._lock = threading.Lock()
        self._tickets: defaultdict[str, list[Ticket]] = defaultdict(list)

    @property
    def spent_usd(self) -> float:
        """US dollars that were spent, or may have been."""
        return self._limits.spent_usd

    def call(self, worker: str, name: Call, argument: Any) -> Answer:
        """Do something for a worker: a method of `RequestLimits` that does not wait."""
        with self._lock:
            if name == "bound":
                self._limits.bound(argument)
            elif name == "settle":
                self._tickets[worker].remove(argument)
                self._limits.settle(argument)
            else:
                return self._take(worker, argument)
        return Answer()

    def _take(self, worker: str, most_usd: float) -> Answer:
        try:
            self._halt.check()
            ticket = self._limits.try_take(most_usd)
        except ObserverError as error:
            return Answer(stopped=error)
        if ticket is not None:
            self._tickets[worker].append(ticket)
        return Answer(ticket)

    def gone(self, worker: str) -> None:
        """Take back the tickets of a worker that is no more."""
        with self._lock:
            for ticket in self._tickets.pop(worker, []):
                ticket.spent_usd = ticket.most_usd
                self._limits.settle(ticket)


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

    def call(self, name: Call, argument: Any) -> Answer:
        """Have the ledger do something for this process; see `Allowance.call`."""
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = Client(self.address, authkey=self.key)
                self._connection.send((name, argument))
                answer: Answer = self._connection.recv()
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
        """US dollars that this process spent."""
        return self._spent

    def bound(self, most: int) -> None:
        """Have at most `most` requests of all processes under way."""
        self._allowance.call("bound", most)

    def take(self, most_usd: float) -> Ticket:
        """Wait for a ticket; one thread at a time asks. See `RequestLimits.take`."""
        with self._asking:
            while True:
                ticket, stopped = self._allowance.call("take", most_usd)
                if ticket is not None:
                    return ticket
                if stopped is not None:
                    self._halt.now(stopped)
                self._halt.wait(ASK_AGAIN)

    def settle(self, ticket: Ticket) -> None:
        """Give a ticket back; see `RequestLimits.settle`."""
        with self._spending:
            self._spent += ticket.spent_usd
        self._allowance.call("settle", ticket)
