"""Bodies of requests as they come: bounded each in size, time and pace, and all together in bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from starlette.types import Message, Receive

from turnwise.serve.problems import Problem
from turnwise.serve.settings import ServeSettings

_DRAINED: Final = 8
"""A body that is too large is read to its end, up to so many times what is allowed: then its sender hears why."""

_PACE_BYTES, _PACE_SECONDS = 16 << 10, 5.0
"""So many bytes of a body, or the rest of it, have to come within so many seconds, again and again."""

_INSTANT: Final = 1e-3
"""Seconds that a body counts for which went on just now, so that an empty one is never the slowest."""


class Bodies:
    """The bodies that a worker has at once, those that are read and those that are under check.

    Where there would be too many bytes, the body is dropped that takes most room for the longest without going on.
    """

    def __init__(self, settings: ServeSettings, gauge: Any) -> None:
        self.settings = settings
        self.reading: set[Body] = set()
        self._gauge = gauge
        self._bytes = 0

    @contextmanager
    def one(self) -> Iterator[Body]:
        """Have a body until the block is left."""
        body = Body(self)
        try:
            yield body
        finally:
            self._count(body, -body.size)
            body.dropped = None  # it knows the frames in which it was raised, and they the body

    def grow(self, body: Body, size: int) -> None:
        """Count bytes that came of a body; one is dropped where there are too many."""
        self._count(body, size)
        while self._bytes > self.settings.body_bytes:
            now = asyncio.get_running_loop().time() + _INSTANT
            slowest = max(self.reading, key=lambda one: one.size * (now - one.since), default=body)
            self.reading.discard(slowest)
            self._count(slowest, -slowest.size)
            no_room = Problem(503, "there are too many unfinished bodies; try again", "busy", retry_after=1)
            slowest.drop(closing(no_room))
            if slowest is body:
                return

    def _count(self, body: Body, size: int) -> None:
        body.size += size
        self._bytes += size
        self._gauge.inc(size)


class Body:
    """The body of one request, which counts from its first byte until the request has ended."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Timeout | None = None
        self.dropped: Problem | None = None
        self.size = 0
        self.since = self._loop.time()
        """When it last went on."""

    def drop(self, why: Problem) -> None:
        """Let the reading of it end now."""
        self.dropped = why
        if self._timer is not None and not self._timer.expired():
            self._timer.reschedule(self._loop.time())

    async def whole(self, headers: dict[bytes, bytes], receive: Receive) -> bytes | None:
        """Return the body once it is there; None where the client is gone."""
        settings = self._bodies.settings
        most, parts, came, more = settings.max_body, list[bytes](), 0, True
        announced = headers.get(b"content-length", b"0")
        too_large = announced.isdigit() and len(announced) < 19 and int(announced) > _DRAINED * most
        end, marked = self._loop.time() + settings.body_seconds, 0
        self._bodies.reading.add(self)
        try:
            async with asyncio.timeout_at(min(end, self.since + _PACE_SECONDS)) as timer:
                self._timer = timer
                while more and not too_large and self.dropped is None:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    part = message.get("body", b"")
                    more, came = message.get("more_body", False), came + len(part)
                    too_large = came > _DRAINED * most
                    if came - marked >= _PACE_BYTES:
                        marked, self.since = came, self._loop.time()
                        timer.reschedule(min(end, self.since + _PACE_SECONDS))
                    if came <= most:
                        parts.append(part)
                        self._bodies.grow(self, len(part))
                    else:
                        parts.clear()
                        self._bodies.grow(self, -self.size)
        except TimeoutError:
            if self.dropped is None:
                raise closing(Problem(408, "the body did not arrive in time", "timeout")) from None
        finally:
            self._timer = None
            self._bodies.reading.discard(self)
        if self.dropped is not None:
            parts.clear()  # the error keeps this frame
            raise self.dropped
        if too_large or came > most:
            raise closing(Problem(413, f"the body is larger than {most} bytes", "too-large"))
        return b"".join(parts)

    async def next(self, receive: Receive) -> Message:
        """Return the next part of a body that is a stream: bounded in size, and in the time since the last one."""
        most = self._bodies.settings.max_body
        message: Message = {}
        self.since = self._loop.time()
        self._bodies.reading.add(self)
        try:
            async with asyncio.timeout(self._bodies.settings.body_seconds) as self._timer:
                message = await receive()
                if self.size + len(message.get("body", b"")) <= most:
                    self._bodies.grow(self, len(message.get("body", b"")))
                else:
                    raise closing(Problem(413, f"the stream is larger than {most} bytes", "too-large"))
        except TimeoutError:
            if self.dropped is None:
                raise closing(Problem(408, "the stream paused for too long", "timeout")) from None
        finally:
            self._timer = None
            self._bodies.reading.discard(self)
        if self.dropped is not None:
            raise self.dropped
        return message


def closing(problem: Problem) -> Problem:
    """Return a problem that ends the connection: what still comes of the body is not read."""
    problem.headers = {**(problem.headers or {}), "Connection": "close"}
    return problem
