"""Who waits for a request: what came from there, and that nobody does any more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from starlette.types import Message, Receive

from turnwise.serve.problems import Problem
from turnwise.serve.reading import Body

CLIENT: ContextVar[Client | None] = ContextVar("client", default=None)
"""The client of the request that is served here."""


_ROUNDS = 3
"""Rounds of the event loop until the end of a connection is known that was there when its request was read."""


class DisconnectedError(Exception):
    """The client went away."""


class Client:
    """The client of one request. Inside of a ``with`` block it is noticed that it goes away.

    Args:
        receive: receives what comes from it.
        body: the body of its request.
        stream: whether the body is a stream, which comes on while it is served.
    """

    def __init__(self, receive: Receive, body: Body, *, stream: bool) -> None:
        self._receive, self._body, self._stream = receive, body, stream
        self._came: asyncio.Queue[Message | Problem] = asyncio.Queue()
        self._answers: set[asyncio.Future[Any]] = set()
        self._ended: Exception | None = None

    async def has_sent(self, headers: dict[bytes, bytes]) -> bool:
        """Wait until the body is there; return whether the client still is."""
        whole = b"" if self._stream else await self._body.whole(headers, self._receive)
        if not self._stream and whole is not None:
            self._came.put_nowait({"type": "http.request", "body": whole, "more_body": False})
        return whole is not None

    def __enter__(self) -> None:
        self._token = CLIENT.set(self)
        self._watching = asyncio.create_task(self._watch())

    def __exit__(self, *_: object) -> None:
        self._watching.cancel()
        CLIENT.reset(self._token)
        self._ended = None  # it knows the frames in which it was raised, and they the client

    async def still_waits(self) -> bool:
        """Return whether the client is there after the event loop has read what came meanwhile."""
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)
        return self._ended is None

    async def receive(self) -> Message:
        """Return what came next."""
        came = await self._came.get()
        if isinstance(came, Problem):
            raise came
        return came

    @contextmanager
    def awaiting(self, answer: asyncio.Future[Any]) -> Iterator[None]:
        """Wait for an answer inside of the block: it fails where nobody waits for it any more."""
        if self._ended is not None:
            raise self._ended
        self._answers.add(answer)
        try:
            yield
        finally:
            self._answers.discard(answer)

    def end(self, why: DisconnectedError | Problem) -> None:
        """Let the request end: what is read of it, and what is awaited."""
        self._ended = why
        if isinstance(why, Problem):
            self._body.drop(why)
        for answer in self._answers:
            if not answer.done():
                answer.set_exception(why)

    async def _watch(self) -> None:
        more = self._stream
        while self._ended is None:
            try:
                message = await (self._body.next(self._receive) if more else self._receive())
            except Problem as problem:
                self._came.put_nowait(problem)
                return
            more = more and message.get("more_body", False)
            if message["type"] == "http.disconnect":
                self.end(DisconnectedError())
            self._came.put_nowait(message)
