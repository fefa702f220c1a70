"""Threads in which checks run: a lane has its own, and a line before them that is bounded in expected seconds."""

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
from turnwise.serve.shares import FairLine, Shares

SHORT: Final = 2_000
"""Characters up to which a text goes through the lane of short ones."""

_LEAST: Final = 100
"""Characters that every call counts for beside its own: what it takes whatever its length."""

_RATES: Final = (1e-7, 1e-2)
"""Seconds a character that a lane expects, at least and at most, whatever it saw."""

_KEPT: Final = 0.9
"""Share of what earlier calls say that stays after each one."""


class LaneFullError(Exception):
    """More waits in a lane than it may.

    Args:
        seconds: how long what waits is expected to take.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"what waits takes {seconds:.1f} s")
        self.seconds = seconds


class Job:
    """A call on its way through a lane; made on the event loop that waits for `answer`.

    Args:
        call: the call.
        characters: length of the text that it is about.
        deadline: ends it early; the call asks `check_deadline`.
        tenant: whose it is; empty for the service's own.
    """

    def __init__(self, call: Callable[[], Any], characters: int, deadline: Deadline, tenant: str = "") -> None:
        self.call = call
        self.tenant = tenant
        self.characters = characters + _LEAST
        self.deadline = deadline
        self.expected = 0.0
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
        """Make the call in this thread; return whether it went through to its end."""
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
            return self.call()


class Lane:
    """Runs calls in threads of its own: tenants take turns, and those of one go in the order in which they come.

    It learns from calls that ended how many seconds a character takes, and refuses a call where those before it
    are expected to take too long. The threads keep no process alive.

    Args:
        name: name of its threads.
        threads: threads at most, at least 1; they begin when they are needed.
        queue_seconds: how long a call may be expected to wait for those before it that wait as well.
        rate: seconds a character that are expected before anything is known.
        most: seconds that one call can take.
        several: whether there are several tenants, none of which may fill the line.
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
        self._waiting, self._running = Shares(queue_seconds * threads, several), Shares(threads, several)
        self._characters = 1_000.0
        self._seconds = rate * self._characters
        self._line: FairLine[Job] = FairLine()
        self._threads: list[Thread] = []
        self._idle = 0
        self._closed = False
        self._changed = Condition()

    def enter(self, job: Job, *, always: bool = False) -> None:
        """Let a call wait for its turn.

        Args:
            job: the call.
            always: whether it may wait however long that takes.

        Raises:
            LaneFullError: too much waits already.
        """
        with self._changed:
            low, high = _RATES
            job.expected = min(self._most, job.characters * min(high, max(low, self._seconds / self._characters)))
            if always:
                self._waiting.take(job.tenant, job.expected)
            elif not self._waiting.admit(job.tenant, job.expected):
                raise LaneFullError(self._waiting.held / self._most_threads)
            self._line.append(job.tenant, job)
            if self._idle < len(self._line) and len(self._threads) < self._most_threads:
                self._threads.append(Thread(target=self._work, name=self._name, daemon=True))
                self._threads[-1].start()
            self._changed.notify()

    def leave(self, job: Job) -> None:
        """Take a call out of the line, unless it has begun."""
        with self._changed, suppress(ValueError):
            self._line.remove(job.tenant, job)
            self._waiting.release(job.tenant, job.expected)

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
        return self._running.admit(tenant, 1)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                while (job := self._line.next(self._may_run)) is None and (self._line or not self._closed):
                    self._changed.wait()
                self._idle -= 1
                if job is None:
                    return
                self._waiting.release(job.tenant, job.expected)
            began = monotonic()
            whole = job.run()
            took = monotonic() - began
            with self._changed:
                self._running.release(job.tenant, 1)
                self._changed.notify_all()
            if whole or took > job.expected:  # what was ended early tells only that it takes at least so long
                with self._changed:
                    self._seconds = _KEPT * self._seconds + took
                    self._characters = _KEPT * self._characters + job.characters
            del job  # nothing of a call is kept while the next is waited for
