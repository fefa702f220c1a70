"""Calls that may hang, each in a thread of its own that can be left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from threading import BoundedSemaphore, Thread
from typing import Generic, TypeVar

from turnwise.errors import TurnwiseError

Value = TypeVar("Value")


class TookTooLongError(TurnwiseError):
    """A call did not end in time, or could not begin because earlier ones still hang."""


class Workers(Generic[Value]):
    """Runs calls with a time limit.

    A thread can't be stopped from outside, so a call that hangs keeps its thread; that is why at most so many run
    at once, and why the threads don't keep the process alive. A pool is no help here: its threads are waited for
    when the process ends.

    Args:
        most: calls that may be under way at once, hanging ones among them; at least 1.

    >>> Workers(1).run(lambda: 42, timeout=5.0)
    42
    """

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._free = BoundedSemaphore(most)

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
        if not self._free.acquire(blocking=False):
            raise TookTooLongError(f"{self._most} earlier calls have not ended; it was not called")
        future: Future[Value] = Future()

        # Running from the start: one that nobody waits for any more can't be cancelled, only ignored.
        future.set_running_or_notify_cancel()

        def work() -> None:
            try:
                value = call()
            except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the caller
                self._free.release()
                future.set_exception(error)
            else:
                self._free.release()
                future.set_result(value)

        try:
            Thread(target=work, daemon=True).start()
        except RuntimeError as error:
            self._free.release()
            raise TookTooLongError(f"no thread could be started: {error}") from error
        return future
