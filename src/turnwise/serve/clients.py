"""The clients that wait for an answer: bounds on their bodies, each and together, and who has gone away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from starlette.types import Message, Receive

from turnwise.guard import Outcome
from turnwise.serve.bodies import Problem
from turnwise.serve.check_threads import Job
from turnwise.serve.settings import ServeSettings
from turnwise.serve.tenants import Tenant

CLIENT: ContextVar[Client | None] = ContextVar("client", default=None)
"""The client of the request that is served here."""

_DRAINED: Final = 8
"""A body that is too large is read to its end, up to so many times what is allowed: then its sender hears why."""

_PACE_BYTES, _PACE_SECONDS = 16 << 10, 5.0
"""So many bytes of a body, or the rest of it, have to come within so many seconds, again and again."""

_INSTANT: Final = 1e-3
"""Seconds that a body counts for which went on just now, so that an empty one is never the slowest."""

_ROUNDS = 3
"""Rounds of the event loop until it is known of a connection that it ended right after its request."""


class DisconnectedError(Exception):
    """The client went away."""


class Clients:
    """The clients of the requests that are under way in a worker."""

    def __init__(self, settings: ServeSettings, gauge: Any) -> None:
        self.settings = settings
        self._gauge = gauge
        self._all: set[Client] = set()
        self._bytes = 0

    @contextmanager
    def one(self, receive: Receive, tenant: Tenant, *, stream: bool) -> Iterator[Client]:
        """Have a client until the block is left; the body of a stream goes on coming while it is served."""
        client = Client(self, receive, tenant, stream=stream)
        self._all.add(client)
        token = CLIENT.set(client)
        try:
            yield client
        finally:
            CLIENT.reset(token)
            client.close()
            self._all.discard(client)
            self.count(client, -client.size)

    def count(self, client: Client, size: int) -> None:
        """Count bytes that came or went; of too many together that body goes that held most for the longest."""
        client.size += size
        self._bytes += size
        self._gauge.inc(size)
        while self._bytes > self.settings.body_bytes:
            now = asyncio.get_running_loop().time() + _INSTANT
            some = [one for one in self._all if one.size and (one is client or one.reading is not None)]
            slowest = max(some, key=lambda one: one.size * (now - one.since))
            self.count(slowest, -slowest.size)
            no_room = Problem(503, "there are too many unfinished bodies; try again", "busy", retry_after=1)
            slowest.end(_closing(no_room))

    def end(self, problem: Callable[[Tenant], Problem]) -> None:
        for client in list(self._all):
            client.end(problem(client.tenant))


class Client:
    """The client of one request, whose body counts until the request has ended."""

    def __init__(self, clients: Clients, receive: Receive, tenant: Tenant, *, stream: bool) -> None:
        self.tenant = tenant
        self._clients, self._receive, self._stream = clients, receive, stream
        self._loop = asyncio.get_running_loop()
        self._came: asyncio.Queue[Message | Problem] = asyncio.Queue()
        self._jobs: set[Job] = set()
        self._watching: asyncio.Task[None] | None = None
        self._ended: DisconnectedError | Problem | None = None
        self.reading: asyncio.Timeout | None = None
        self.size = 0
        self.since = self._loop.time()
        """When the body last went on."""

    async def has_sent(self, headers: dict[bytes, bytes]) -> bool:
        """Wait until the body is there; return whether the client still is, which is watched from then on."""
        whole = b"" if self._stream else await self._whole(headers)
        if whole is None:
            return False
        if not self._stream:
            self._came.put_nowait({"type": "http.request", "body": whole, "more_body": False})
        self._watching = asyncio.create_task(self._watch())
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)
        return not isinstance(self._ended, DisconnectedError)

    async def receive(self) -> Message:
        came = await self._came.get()
        if isinstance(came, Problem):
            raise came
        return came

    @contextmanager
    def awaiting(self, job: Job) -> Iterator[None]:
        """Wait for a call inside of the block; where nobody waits any more it is stopped, and its answer fails."""
        self._jobs.add(job)
        try:
            if self._ended is not None:
                self.end(self._ended)
            yield
        finally:
            self._jobs.discard(job)

    def end(self, why: DisconnectedError | Problem) -> None:
        """End the request: what is read of it, and what is awaited."""
        self._ended = why
        if self.reading is not None and not self.reading.expired():
            self.reading.reschedule(self._loop.time())
        for job in self._jobs:
            job.deadline.cancel(Outcome.DISCONNECTED if isinstance(why, DisconnectedError) else Outcome.CANCELLED)
            job.settle(None, why)

    def close(self) -> None:
        """Watch no longer, and let go of the frames that an error knows."""
        self._ended = None
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        most, more = self._clients.settings.max_body, self._stream
        while self._ended is None:
            try:
                if more:
                    until = self._loop.time() + self._clients.settings.body_seconds
                    message = await self._part(until, "the stream paused for too long")
                    more = message.get("more_body", False)
                    if self.size > most:
                        raise _closing(Problem(413, f"the stream is larger than {most} bytes", "too-large"))
                else:
                    message = await self._receive()
            except Problem as problem:
                self._came.put_nowait(problem)
                return
            if message["type"] == "http.disconnect":
                self.end(DisconnectedError())
            self._came.put_nowait(message)

    async def _whole(self, headers: dict[bytes, bytes]) -> bytes | None:
        """The body once it is there; None where the client is gone."""
        settings = self._clients.settings
        most, came, marked, more, parts = settings.max_body, 0, 0, True, list[bytes]()
        announced = headers.get(b"content-length", b"0")
        too_large = announced.isdigit() and len(announced) < 19 and int(announced) > _DRAINED * most
        end = self._loop.time() + settings.body_seconds
        try:
            while more and not too_large:
                until = min(end, self.since + _PACE_SECONDS)
                message = await self._part(until, "the body did not arrive in time")
                if message["type"] == "http.disconnect":
                    return None
                part = message.get("body", b"")
                more, came = message.get("more_body", False), came + len(part)
                too_large = came > _DRAINED * most
                if came - marked >= _PACE_BYTES:
                    marked, self.since = came, self._loop.time()
                parts.append(part)
                if came > most:
                    parts.clear()
                    self._clients.count(self, -self.size)
            if too_large or came > most:
                raise _closing(Problem(413, f"the body is larger than {most} bytes", "too-large"))
            return b"".join(parts)
        finally:
            parts.clear()  # an error that was raised here knows this frame

    async def _part(self, until: float, late: str) -> Message:
        """What comes next of the body; `until` is a time of the event loop."""
        try:
            async with asyncio.timeout_at(until) as self.reading:
                message = await self._receive()
        except TimeoutError:
            raise self._ended or _closing(Problem(408, late, "timeout")) from None
        finally:
            self.reading = None
        self._clients.count(self, len(message.get("body", b"")))
        if self._ended is not None:
            raise self._ended
        if self._stream:
            self.since = self._loop.time()
        return message


def _closing(problem: Problem) -> Problem:
    """A problem that ends the connection as well: what still comes of the body is not read."""
    problem.headers = {**(problem.headers or {}), "Connection": "close"}
    return problem
