"""How a check waits, for a lock or a store: in its own thread, or as a step that is yielded to who awaits it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from threading import Lock
from typing import Any, Final, TypeVar

Value = TypeVar("Value")

TURN_SECONDS: Final = 60.0
"""How long a check waits for another one of its conversation in this process."""

_POLL_SECONDS: Final = 0.002


def entered(lock: Lock, *, here: bool) -> Generator[Any, Any, bool]:
    """Wait until no other check of a conversation is under way; returns whether the lock was taken in time."""
    if here:
        return lock.acquire(timeout=TURN_SECONDS)
    taken: bool = yield _Entry(lock), None
    return taken


def done(call: Callable[[], Value], *, here: bool) -> Generator[Any, Any, Value]:
    """Call something here, or yield it to be called elsewhere; returns what the call returns."""
    if here:
        return call()
    value, error = yield _Call(call), None
    if error is not None:
        raise error
    result: Value = value
    return result


class _Entry:
    """An awaitable lock, yielded like a step."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    async def arun(self, _: object) -> bool:
        for _ in range(int(TURN_SECONDS / _POLL_SECONDS)):
            if self._lock.acquire(blocking=False):
                return True
            await asyncio.sleep(_POLL_SECONDS)
        return False


class _Call:
    """A call in a thread, so that the event loop does not wait for it, yielded like a step."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    async def arun(self, _: object) -> tuple[object, Exception | None]:
        try:
            return await asyncio.to_thread(self._call), None
        except Exception as error:  # noqa: BLE001 - it is raised where the call belongs
            return None, error
