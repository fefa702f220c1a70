"""Threads in which checks run: lanes with threads of their own, and a line before them of bounded seconds."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from threading import Condition, Thread
from time import monotonic
from typing import Any, Final

from turnwise.deadline import Deadline, WorkStopped, within
from turnwise.serve.sharing import FairLine, Shares

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
