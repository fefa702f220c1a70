"""One allowance for the requests of several processes: what they may spend, and how fast they may send.

The `Ledger` keeps the books in one place. Workers reach it through an `Allowance`: over a local socket
(`serve`), or through whatever else carries a call, such as an actor on a cluster. No call waits at the ledger, so
none holds up another: who is told to wait asks again. A worker that dies gives back its places, and what it held
counts as spent, since it may have been.
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

from turnwise.errors import BudgetError, ObserverError
from turnwise.observers.llm.limits import Budget, Halt, Limiter

ASK_AGAIN = 0.05
"""Seconds after which one thread of a worker asks again for money or a place; requests take longer by far."""

_AUTH_BYTES = 32

Call = Literal["try_hold", "settle", "try_place", "leave", "complained", "replied", "bound"]


class Answer(NamedTuple):
    """What the ledger says: `value` is None where the worker has to ask again.

    `stopped` says why nobody may send anything any more, None while they may; `budget` tells whether that is
    because the budget is used up.
    """

    value: Any = None
    stopped: str | None = None
    budget: bool = False


class Allowance(Protocol):
    """Carries calls to a ledger; picklable, but once it is used somewhere it belongs to that one worker."""

    def call(self, name: Call, *arguments: float) -> Answer:
        """Have the ledger do something for this worker, at once; `ObserverError` where it can't be reached."""


class Ledger:
    """Keeps what all workers hold and spend together; safe to use from several threads."""

    def __init__(
        self,
        budget_usd: float | None = None,
        per_minute: float | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._halt = Halt()
        self._budget = Budget(budget_usd, self._halt)
        self._limiter = Limiter(self._halt, per_minute, monotonic)
        self._lock = threading.Lock()
        self._held: defaultdict[str, list[float]] = defaultdict(list)
        self._places: defaultdict[str, int] = defaultdict(int)

    @property
    def spent(self) -> float:
        """US dollars that were spent, or may have been."""
        return self._budget.spent

    def call(self, worker: str, name: Call, *arguments: float) -> Answer:
        """Do something for a worker, a method of `Budget` or `Limiter`; nothing of it waits."""
        with self._lock:
            try:
                self._halt.check()
                return Answer(self._do(worker, name, arguments))
            except ObserverError as error:
                if name == "settle":  # what was under way when it stopped was paid for
                    self._do(worker, name, arguments)
                return Answer(None, str(error), isinstance(error, BudgetError))

    def _do(self, worker: str, name: Call, arguments: tuple[float, ...]) -> Any:
        if name == "try_hold":
            if not self._budget.try_hold(*arguments):
                return None
            self._held[worker] += arguments
            return True
        if name == "settle":
            held, spent = arguments
            self._held[worker].remove(held)
            self._budget.settle(held, spent)
            return True
        if name == "try_place":
            taken = self._limiter.try_place()
            self._places[worker] += taken is not None
            return taken
        if name == "leave":
            self._places[worker] -= 1
            self._limiter.leave()
            return True
        getattr(self._limiter, name)(*map(int, arguments))
        return True

    def gone(self, worker: str) -> None:
        """Take back what a worker has that is no more: its places, and what it held as spent."""
        with self._lock:
            for amount in self._held.pop(worker, []):
                self._budget.settle(amount, amount)
            for _ in range(self._places.pop(worker, 0)):
                self._limiter.leave()


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

    def call(self, name: Call, *arguments: float) -> Answer:
        """Have the ledger do something for this process; see `Allowance.call`."""
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = Client(self.address, authkey=self.key)
                self._connection.send((name, *arguments))
                answer: Answer = self._connection.recv()
            except (OSError, EOFError) as error:
                raise ObserverError(
                    "the process that keeps the common budget is gone; the same command continues"
                ) from error
        return answer


class _Asker:
    """Asks for something until it is given; of the threads of a worker one at a time."""

    def __init__(self, allowance: Allowance, halt: Halt) -> None:
        self._allowance = allowance
        self._halt = halt
        self._turn = threading.Lock()

    def call(self, name: Call, *arguments: float) -> Any:
        """What the ledger gives at once; None where it gives nothing yet. Raises once nobody may send anything."""
        answer = self._allowance.call(name, *arguments)
        if answer.stopped is not None:
            self._halt.now(BudgetError(answer.stopped) if answer.budget else ObserverError(answer.stopped))
            self._halt.check()
        return answer.value

    def wait_for(self, name: Call, *arguments: float) -> Any:
        with self._turn:
            while (given := self.call(name, *arguments)) is None:
                self._halt.wait(ASK_AGAIN)
        return given

    def tell(self, name: Call, *arguments: float) -> None:
        """Tell the ledger something, also after the end."""
        self._allowance.call(name, *arguments)


class SharedBudget:
    """What `Budget` is to one process, for one of several."""

    def __init__(self, allowance: Allowance, halt: Halt) -> None:
        self._asker = _Asker(allowance, halt)
        self._lock = threading.Lock()
        self._spent = 0.0

    @property
    def spent(self) -> float:
        """US dollars that this process spent."""
        return self._spent

    def hold(self, amount: float) -> None:
        """See `Budget.hold`."""
        self._asker.wait_for("try_hold", amount)

    def settle(self, held: float, spent: float) -> None:
        """See `Budget.settle`."""
        with self._lock:
            self._spent += spent
        self._asker.tell("settle", held, spent)


class SharedLimiter:
    """What `Limiter` is to one process, for one of several."""

    def __init__(self, allowance: Allowance, halt: Halt) -> None:
        self._asker = _Asker(allowance, halt)
        self._halt = halt

    def bound(self, most: int) -> None:
        """Have at most `most` requests of all processes under way."""
        self._asker.tell("bound", most)

    @contextmanager
    def place(self) -> Iterator[int]:
        """Wait for a place and for the common pace; see `Limiter.place`."""
        before, delay = self._asker.wait_for("try_place")
        try:
            if delay:
                self._halt.wait(delay)
            yield before
        finally:
            self._asker.tell("leave")

    def complained(self, before: int) -> None:
        """Halve the common limit; see `Limiter.complained`."""
        self._asker.tell("complained", before)

    def replied(self) -> None:
        """See `Limiter.replied`."""
        self._asker.tell("replied")
