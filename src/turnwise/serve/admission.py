"""What a request passes before a route sees it: key, rate, its body, and how many are under way."""

from __future__ import annotations

import logging
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnwise.serve.bodies import Problem
from turnwise.serve.clients import Client, DisconnectedError
from turnwise.serve.service import Service
from turnwise.serve.sharing import KeyRates, Shares
from turnwise.serve.tenants import SCOPE, Tenant

OPEN: Final = frozenset({"/healthz", "/readyz", "/openapi.json"})
"""Paths that need no key."""

_METRICS: Final = "/metrics"
"""Path that is served however many requests are under way, as those above are."""

LINES: Final = "application/x-ndjson"
"""Type of a body that is a line of JSON after the other, read as it comes."""

_JSON = "application/json"
_log = logging.getLogger("turnwise.serve")


class Gate:
    """ASGI middleware that admits requests, and turns what goes wrong into problem details."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._metrics = service.metrics
        self._rates = KeyRates(service.settings.rate)
        self._under_way = Shares(service.settings.in_flight, service.tenants.several)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
        except DisconnectedError:
            pass  # nobody waits for an answer
        except Problem as problem:
            if not status:
                await problem.response()(scope, receive, told)
        except Exception as error:  # noqa: BLE001 - whatever a route did, the caller hears of it, and of no text
            _log.error("%s failed: %s at %s", _route(scope), type(error).__name__, _place(error))
            if not status:
                failed = Problem(500, "the service failed; its log says where", "failed")
                await failed.response()(scope, receive, told)
        finally:
            name = scope[SCOPE].name if SCOPE in scope else "none"
            self._metrics.requests.labels(_route(scope), str(status or "none"), name).inc()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path in OPEN:
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        scope[SCOPE] = tenant = self._admit(headers)
        if path == _METRICS:
            await self._app(scope, receive, send)
            return
        stream = _is_stream(scope, headers)
        with self._service.clients.one(receive, tenant, stream=stream) as client:
            if await client.has_sent(headers):
                await self._under_bound(scope, client, send)

    async def _under_bound(self, scope: Scope, client: Client, send: Send) -> None:
        tenant = client.tenant
        if not self._under_way.admit(tenant.name, 1):
            raise self._service.unchecked("too many requests are under way; try again", "busy", 1, tenant)
        self._metrics.in_flight.inc()
        try:
            await self._app(scope, client.receive, send)
        finally:
            self._under_way.release(tenant.name, 1)
            self._metrics.in_flight.dec()

    def _admit(self, headers: dict[bytes, bytes]) -> Tenant:
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        given = token.strip() if scheme.lower() == b"bearer" else headers.get(b"x-api-key", b"")
        tenant = self._service.tenants.of_key(given.decode("latin-1"))
        if tenant is None:
            told = "send an API key as Authorization: Bearer KEY, or as X-API-Key"
            raise Problem(401, f"the API key is not known; {told}" if given else told, "key")
        wait = self._rates.wait(tenant.name)
        if wait:
            raise Problem(429, "this API key makes too many requests; slow down", "rate", retry_after=wait)
        return tenant


def _is_stream(scope: Scope, headers: dict[bytes, bytes]) -> bool:
    """Whether the body of a request is a stream; one that is neither that nor JSON is refused."""
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")
    sized = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
    if kind == LINES and scope["path"].endswith("/stream"):
        return True
    if sized and kind != _JSON and scope["method"] in ("POST", "PUT", "PATCH"):
        raise Problem(415, f"send the body as {_JSON}", "media-type")
    return False


def _route(scope: Scope) -> str:
    """The path of the route that served a request as it was declared, so without names and ids."""
    route: Any = scope.get("route")
    return str(getattr(route, "path", scope["path"] if scope["path"] in OPEN else "none"))


def _place(error: Exception) -> str:
    """Where an error came from, without its message, which may hold text."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "?" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
