"""Threads in which checks run, and how tenants share them.

A lane has threads of its own, and before them a line that is bounded in expected seconds.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from threading import Condition, Thread
from time import monotonic
from typing import Any, Final, Generic, TypeVar

from turnwise.deadline import Deadline, WorkStopped, within

Item = TypeVar("Item")

_GREED: Final = 3.0
"""How many times what is free a tenant may hold and still take more."""


class Shares:
    """Room that tenants take and give back, such as requests under way or seconds of work that waits.

    Where there are several, one takes more only while it holds less than three times what is free: alone three
    quarters of the room, beside another three sevenths. So there is room for whoever comes next, however many of
    another's requests hang. What is admitted last may go beyond `most`, which is above 0.

    Source: A. K. Choudhury and E. L. Hahne, Dynamic queue length thresholds for shared-memory packet switches,
    IEEE/ACM Transactions on Networking 6 (1998).

    >>> shares = Shares(8, lambda: True)
    >>> sum(shares.admit("web", 1) for _ in range(8)), shares.admit("desk", 1)
    (6, True)
    """

    def __init__(self, most: float, several: Callable[[], bool]) -> None:
        self._most = most
        self._several = several
        self._held: Counter[str] = Counter()

    @property
    def held(self) -> float:
        """What all hold together."""
        return sum(self._held.values())

    def admit(self, tenant: str, cost: float) -> bool:
        """Take room for a tenant, and return True; False where there is none for it."""
        free = self._most - self.held
        if free <= 0 or (self._several() and self._held[tenant] >= _GREED * free):
            return False
        self.take(tenant, cost)
        return True

    def take(self, tenant: str, cost: float) -> None:
        """Take room, whether there is any or not."""
        self._held[tenant] += cost  # type: ignore[assignment]

    def release(self, tenant: str, cost: float) -> None:
        """Give back what was taken."""
        self.take(tenant, -cost)
        if self._held[tenant] <= 1e-9:  # what sums of floats leave
            del self._held[tenant]


class FairLine(Generic[Item]):
    """What waits: the tenants take turns, and what belongs to one goes in the order in which it came.

    >>> line = FairLine[str]()
    >>> for tenant, item in (("web", "w1"), ("web", "w2"), ("web", "w3"), ("desk", "d1")):
    ...     line.append(tenant, item)
    >>> [line.next(bool) for _ in range(len(line))]
    ['w1', 'd1', 'w2', 'w3']
    """

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[Item]] = OrderedDict()

    def append(self, tenant: str, item: Item) -> None:
        """Let something of a tenant wait."""
        self._lines.setdefault(tenant, deque()).append(item)

    def next(self, may: Callable[[str], bool]) -> Item | None:
        """Take out what is next of the tenants that may go on; None for nothing."""
        tenant = next(filter(may, self._lines), None)
        if tenant is None:
            return None
        line = self._lines.pop(tenant)
        item = line.popleft()
        if line:
            self._lines[tenant] = line
        return item

    def remove(self, tenant: str, item: Item) -> None:
        """Let something wait no longer; a `ValueError` where it does not wait."""
        line = self._lines.get(tenant, deque())
        line.remove(item)
        if not line:
            del self._lines[tenant]

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))


_LEAST: Final = 100
"""Characters that every call counts for beside its own: what it takes whatever its length."""

_KEPT: Final = 0.9
"""Share of what earlier calls say of the time that a character takes which stays after each one."""

_SLOWEST: Final = 1e-2
"""Seconds a character that are expected at most."""


class Job:
    """A call on its way through a lane; made on the event loop that waits for `answer`."""

    def __init__(self, call: Callable[[], Any], characters: int = 0, tenant: str = "") -> None:
        self.tenant = tenant
        self.characters = characters + _LEAST
        self.expected = self.waits = 0.0
        self.deadline = Deadline()
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self.answer: asyncio.Future[Any] = self._loop.create_future()

    def settle(self, value: object, error: BaseException | None) -> None:
        """Give the answer, unless there is one or nobody waits for it; on the event loop."""
        if self.answer.done():
            return
        if error is None:
            self.answer.set_result(value)
        else:
            self.answer.set_exception(error)

    def run(self) -> bool:
        """Make the call in this thread; return whether it went to its end."""
        value, error = None, None
        try:
            value = self._context.run(self._within)
        except BaseException as raised:  # noqa: BLE001 - whatever it is belongs to who waits
            error = raised
        with suppress(RuntimeError):  # the event loop has ended, so nobody waits
            self._loop.call_soon_threadsafe(self.settle, value, error)
        return not isinstance(error, WorkStopped)

    def _within(self) -> Any:
        with within(self.deadline):
            return self._call()


class Lane:
    """Runs calls in threads of its own: tenants take turns, and those of one go in the order in which they come.

    It learns how many seconds a character takes (`rate` before anything is known, at most `most` for a call), and
    refuses a call that is expected to wait for more than `queue_seconds`. Of several tenants none may fill it.
    """

    def __init__(
        self,
        name: str,
        threads: int,
        queue_seconds: float = math.inf,
        rate: float = 0.0,
        most: float = math.inf,
        several: Callable[[], bool] = bool,
    ) -> None:
        self._name, self._most_threads, self._most = name, threads, most
        self._waiting, self._busy = Shares(queue_seconds * threads, several), Shares(threads, several)
        self._characters = 1_000.0
        self._seconds = rate * self._characters
        self._line: FairLine[Job] = FairLine()
        self._threads: list[Thread] = []
        self._closed = False
        self._changed = Condition()

    def enter(self, job: Job, *, always: bool = False) -> float:
        """Let a call wait for its turn and return 0; where that takes too long, return the seconds instead."""
        with self._changed:
            taken = self._busy.held + len(self._line)
            rate = min(_SLOWEST, self._seconds / self._characters)
            job.expected = min(self._most, job.characters * rate)
            job.waits = job.expected if taken >= self._most_threads else 0.0
            if always or not job.waits:
                self._waiting.take(job.tenant, job.waits)
            elif not self._waiting.admit(job.tenant, job.waits):
                return self._waiting.held / self._most_threads
            self._line.append(job.tenant, job)
            if taken >= len(self._threads) < self._most_threads:
                self._threads.append(Thread(target=self._work, name=self._name, daemon=True))
                self._threads[-1].start()
            self._changed.notify()
            return 0.0

    def leave(self, job: Job) -> None:
        """Take a call out of the line, unless it has begun."""
        with self._changed, suppress(ValueError):
            self._line.remove(job.tenant, job)
            self._waiting.release(job.tenant, job.waits)

    def close(self, seconds: float) -> bool:
        """End the threads once what waits is done; return whether they ended in time."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        until = monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _may_run(self, tenant: str) -> bool:
        return self._busy.admit(tenant, 1)

    def _work(self) -> None:
        while True:
            with self._changed:
                while (job := self._line.next(self._may_run)) is None:
                    if self._closed and not self._line:
                        return
                    self._changed.wait()
                self._waiting.release(job.tenant, job.waits)
            began = monotonic()
            whole = job.run()
            took = monotonic() - began
            with self._changed:
                self._busy.release(job.tenant, 1)
                self._changed.notify_all()
                if whole or took > job.expected:  # what was ended early tells only that it takes at least so long
                    self._seconds = _KEPT * self._seconds + took
                    self._characters = _KEPT * self._characters + job.characters
            del job  # nothing of a call is kept while the next is waited for
