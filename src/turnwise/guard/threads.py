"""Threads of the guard: for calls that may hang, which can be left behind, and for those that compute."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextvars import copy_context
from functools import cache
from math import inf
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore, Thread
from time import monotonic
from typing import Generic, TypeAlias, TypeVar, cast

from turnwise.deadline import Deadline
from turnwise.errors import TurnwiseError

Value = TypeVar("Value")

_Calls: TypeAlias = "SimpleQueue[tuple[Callable[[], Value], Future[Value]]]"
"""What a thread waits at for its next call."""


class TookTooLongError(TurnwiseError):
    """A call did not end in time, or could not begin because earlier ones still hang."""


LONG = 2_000  # characters of a text from which its checks are long ones, which short ones overtake
_ASKED_SECONDS = 0.1  # how often who waits for a call asks whether the check is still wanted
IDLE_SECONDS = 30.0  # how long a thread waits for its next call before it ends


class TimedThreads(Generic[Value]):
    """Runs calls with a time limit.

    A thread can't be stopped from outside, so a call that hangs keeps its thread; that is why at most so many run
    at once, hanging ones among them, and why the threads don't keep the process alive, as those of a pool of the
    standard library would. A thread whose call has ended takes the next one: to start one costs several times what
    a short call does.

    >>> TimedThreads(1).run(lambda: 42, timeout=5.0)
    42
    """

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._process = os.getpid()
        self._free = BoundedSemaphore(self._most)
        self._idle: deque[_Calls[Value]] = deque()

    def run(self, call: Callable[[], Value], timeout: float, deadline: Deadline | None = None) -> Value:
        """Run a call for at most `timeout` seconds; the deadline ends the wait for it as well."""
        future, until = self.begin(call), monotonic() + timeout
        while True:
            left = until - monotonic()
            try:
                return future.result(left if deadline is None else max(0.0, min(left, _ASKED_SECONDS)))
            except FutureTimeoutError:
                if future.done():
                    return future.result()  # it raised the like itself
                if deadline is not None:
                    deadline.check()
                if monotonic() >= until:
                    raise TookTooLongError(f"no answer within {timeout:g} s") from None

    async def arun(self, call: Callable[[], Value], timeout: float) -> Value:
        """Run a call without blocking the event loop; otherwise as `run`."""
        return await in_time(asyncio.wrap_future(self.begin(call)), timeout)

    def begin(self, call: Callable[[], Value]) -> Future[Value]:
        """Begin a call and don't wait for it; `TookTooLongError` where earlier ones hold all threads."""
        if self._process != os.getpid():
            self._begin_anew()  # threads do not come along to a forked process
        if not self._free.acquire(blocking=False):
            raise TookTooLongError(f"{self._most} earlier calls have not ended; it was not called")
        future: Future[Value] = Future()

        # Running from the start: one that nobody waits for any more can't be cancelled, only ignored.
        future.set_running_or_notify_cancel()
        try:
            calls = self._idle.pop()
        except IndexError:
            calls = SimpleQueue()
            try:
                Thread(target=_work, args=(calls, self._free, self._idle), daemon=True).start()
            except RuntimeError as error:
                self._free.release()
                raise TookTooLongError(f"no thread could be started: {error}") from error
        calls.put((call, future))
        return future


async def in_time(waited_for: Awaitable[Value], seconds: float) -> Value:
    """Await something for so many seconds, or `inf`; a `TimeoutError` of its own passes as it is."""
    scope = asyncio.timeout(None if seconds == inf else seconds)
    try:
        async with scope:
            return await waited_for
    except TimeoutError:
        if scope.expired():
            raise TookTooLongError(f"no answer within {seconds:.3g} s") from None
        raise


async def compute(call: Callable[[], Value], size: int) -> Value:
    """Run a call that computes off the event loop; `size` is the characters of the text that it is about.

    Long texts have as many threads as there are cores, and short ones have threads of their own, so that they
    never wait for the long ones.
    """
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_lane(os.getpid(), size >= LONG), copy_context().run, call)


@cache
def _lane(process: int, long: bool) -> ThreadPoolExecutor:
    """The threads for long or for short texts; threads do not come along to a forked process."""
    cores = os.cpu_count() or 1
    return ThreadPoolExecutor(cores if long else cores + 4, f"turnwise-{'long' if long else 'short'}")


def _work(calls: _Calls[Value], free: BoundedSemaphore, idle: deque[_Calls[Value]]) -> None:
    """Make the calls that come, until none has come for a while."""
    while True:
        try:
            call, future = calls.get(timeout=IDLE_SECONDS)
        except Empty:
            try:
                idle.remove(calls)
            except ValueError:  # it was taken this moment: its call is on the way
                continue
            return
        try:
            value, error = call(), None
        except BaseException as raised:  # noqa: BLE001 - whatever it is belongs to the caller
            value, error = None, raised
        free.release()
        idle.append(calls)
        if error is None:
            future.set_result(cast("Value", value))
        else:
            future.set_exception(error)
        del call, future, value, error  # nothing of a call is kept while the next is waited for
