"""What a request passes before a route sees it: key, rate, size and time of its body, how many there are."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnwise.serve.keys import ApiKeys, KeyRates
from turnwise.serve.metrics import Metrics
from turnwise.serve.problems import Problem
from turnwise.serve.settings import ServeSettings

OPEN: Final = frozenset({"/healthz", "/readyz", "/openapi.json"})
"""Paths that need no key."""

LINES: Final = "application/x-ndjson"
"""Type of a body that is a line of JSON after the other, read as it comes."""

_JSON = "application/json"
_DRAINED = 8
"""A body that is too large is read to its end, up to so many times what is allowed: then its sender hears why."""

_log = logging.getLogger("turnwise.serve")


class Gate:
    """ASGI middleware that admits requests, and turns what goes wrong into problem details.

    Args:
        app: the application.
        settings: the settings of the service.
        metrics: told of every request.
    """

    def __init__(self, app: ASGIApp, settings: ServeSettings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._rates = KeyRates(settings.rate)
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._serve(scope, receive, told)
        except Problem as problem:
            if not status:
                await problem.response()(scope, receive, told)
        except Exception as error:  # noqa: BLE001 - whatever a route did, the caller hears of it, and of no text
            _log.error("%s failed: %s at %s", _route(scope), type(error).__name__, _place(error))
            if not status:
                failed = Problem(500, "the service failed; its log says where", "failed")
                await failed.response()(scope, receive, told)
        finally:
            self._metrics.requests.labels(_route(scope), str(status or "none")).inc()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path in OPEN:
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        self._admit(headers)
        if scope["method"] in ("POST", "PUT", "PATCH"):
            kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")
            sized = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
            if kind == LINES and path.endswith("/stream"):
                receive = self._bounded(receive)
            elif kind == _JSON or not sized:
                body = await self._body(headers, receive)
                if body is None:
                    return
                receive = _replay(body, receive)
            else:
                raise Problem(415, f"send the body as {_JSON}", "media-type")
        if self._under_way >= self._settings.in_flight:
            raise Problem(503, "too many requests are under way; try again", "busy", retry_after=1)
        self._under_way += 1
        self._metrics.in_flight.inc()
        try:
            await self._app(scope, receive, send)
        finally:
            self._under_way -= 1
            self._metrics.in_flight.dec()

    def _admit(self, headers: dict[bytes, bytes]) -> None:
        name = "anybody"
        if self._settings.keys is not None:
            name = _caller(headers, self._settings.keys)
        wait = self._rates.wait(name)
        if wait:
            raise Problem(429, "this API key makes too many requests; slow down", "rate", retry_after=wait)

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes | None:
        """Return the whole body; None where the client is gone."""
        most, parts, came, more = self._settings.max_body, [], 0, True
        announced = headers.get(b"content-length", b"0")
        too_large = announced.isdigit() and len(announced) < 19 and int(announced) > _DRAINED * most
        try:
            async with asyncio.timeout(self._settings.body_seconds):
                while more and not too_large:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    part = message.get("body", b"")
                    more, came = message.get("more_body", False), came + len(part)
                    too_large = came > _DRAINED * most
                    if came <= most:
                        parts.append(part)
                    else:
                        parts.clear()
        except TimeoutError:
            raise _closing(Problem(408, "the body did not arrive in time", "timeout")) from None
        if too_large or came > most:
            raise _closing(Problem(413, f"the body is larger than {most} bytes", "too-large"))
        return b"".join(parts)

    def _bounded(self, receive: Receive) -> Receive:
        """Return what receives a stream: bounded in size, and in the time between two of its parts."""
        came = 0

        async def bounded() -> Message:
            nonlocal came
            try:
                async with asyncio.timeout(self._settings.body_seconds):
                    message = await receive()
            except TimeoutError:
                raise _closing(Problem(408, "the stream paused for too long", "timeout")) from None
            came += len(message.get("body", b""))
            if came > self._settings.max_body:
                most = self._settings.max_body
                raise _closing(Problem(413, f"the stream is larger than {most} bytes", "too-large"))
            return message

        return bounded


def _caller(headers: dict[bytes, bytes], keys: ApiKeys) -> str:
    """Return the name of the key that a request carries."""
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    given = token.strip() if scheme.lower() == b"bearer" else headers.get(b"x-api-key", b"")
    name = keys.name_of(given.decode("latin-1")) if given else None
    if name is None:
        told = "send an API key as Authorization: Bearer KEY, or as X-API-Key"
        raise Problem(401, f"the API key is not known; {told}" if given else told, "key")
    return name


def _closing(problem: Problem) -> Problem:
    """Return a problem that ends the connection: what still comes of the body is not read."""
    problem.headers = {**(problem.headers or {}), "Connection": "close"}
    return problem


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return what receives a body that was read before, then whatever else comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


def _route(scope: Scope) -> str:
    """Return the path of the route that served a request, as it was described."""
    route: Any = scope.get("route")
    return str(getattr(route, "path", scope["path"] if scope["path"] in OPEN else "none"))


def _place(error: Exception) -> str:
    """Return where an error came from, without its message, which may hold text."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "?" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
