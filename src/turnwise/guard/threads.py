"""Calls that may hang, in threads that can be left behind."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore, Thread
from typing import Generic, TypeAlias, TypeVar, cast

from turnwise.errors import TurnwiseError

Value = TypeVar("Value")

_Calls: TypeAlias = "SimpleQueue[tuple[Callable[[], Value], Future[Value]]]"
"""What a thread waits at for its next call."""


class TookTooLongError(TurnwiseError):
    """A call did not end in time, or could not begin because earlier ones still hang."""


IDLE_SECONDS = 30.0
"""How long a thread waits for its next call before it ends."""


class Workers(Generic[Value]):
    """Runs calls with a time limit.

    A thread can't be stopped from outside, so a call that hangs keeps its thread; that is why at most so many run
    at once, and why the threads don't keep the process alive, as those of a pool of the standard library would. A
    thread whose call has ended takes the next one: to start one costs several times what a short call does.

    Args:
        most: calls that may be under way at once, hanging ones among them; at least 1.

    >>> Workers(1).run(lambda: 42, timeout=5.0)
    42
    """

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._process = os.getpid()
        self._free = BoundedSemaphore(self._most)
        self._idle: deque[_Calls[Value]] = deque()

    def run(self, call: Callable[[], Value], timeout: float) -> Value:
        """Return what a call returns.

        Args:
            call: the call.
            timeout: seconds that it may take.

        Raises:
            TookTooLongError: it did not end in time, or no thread is free.
        """
        try:
            return self._begin(call).result(timeout)
        except FutureTimeoutError:
            raise TookTooLongError(f"no answer within {timeout:g} s") from None

    async def arun(self, call: Callable[[], Value], timeout: float) -> Value:
        """Return what a call returns, without blocking the event loop; as `run` otherwise."""
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self._begin(call)), timeout)
        except TimeoutError:
            raise TookTooLongError(f"no answer within {timeout:g} s") from None

    def _begin(self, call: Callable[[], Value]) -> Future[Value]:
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
