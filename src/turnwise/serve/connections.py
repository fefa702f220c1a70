"""Connections, as uvicorn has them with bounds: slow ones are closed, and none is reset when the server ends."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from turnwise.serve.service import Service

_LINGER_SECONDS = 0.5
"""How long a connection without a request stays when the server ends: one may be on its way."""


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 whose request lines and headers must arrive in time; see `bounded`."""

    header_seconds = 10.0
    most = 4_096
    waiting: ClassVar[OrderedDict[int, BoundedProtocol]] = OrderedDict()
    """Connections that owe a request, oldest first."""

    _deadline: asyncio.TimerHandle | None = None
    _ending = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most and self.waiting:
            next(iter(self.waiting.values())).transport.abort()
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._waits_no_longer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of the headers, where this began another request."""
        if self._deadline is None and self._is_idle():
            self._await_headers()
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._waits_no_longer()
        super().on_headers_complete()
        if self._ending:
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        """Answer the request under way, or one that comes in a moment, and close the connection."""
        self._ending = True
        if self.cycle is not None:
            self.cycle.keep_alive = False
        if self._is_idle():
            self.loop.call_later(_LINGER_SECONDS, self._close_idle)

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _close_idle(self) -> None:
        if self._is_idle():
            self.transport.close()

    def _await_headers(self) -> None:
        self._deadline = self.loop.call_later(self.header_seconds, self._too_late)
        self.waiting[id(self)] = self

    def _waits_no_longer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self.waiting.pop(id(self), None)

    def _too_late(self) -> None:
        self._deadline = None
        self.waiting.pop(id(self), None)
        self.transport.abort()


def bounded(header_seconds: float, most: int) -> Any:
    """A protocol with bounds of its own: seconds for headers to arrive, and connections before the oldest goes."""
    fields = {"header_seconds": header_seconds, "most": most, "waiting": OrderedDict()}
    return type("Protocol", (BoundedProtocol,), fields)


_STOP_SECONDS: Final = 0.5
"""How long requests may take to end once the service was told to stop."""


class EndingServer(uvicorn.Server):
    """A server of one worker; `serves` is called once it accepts connections, `ends` before the last of them."""

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        opened: socket.socket,
        grace_seconds: float,
        serves: Callable[[], None],
        ends: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._service, self._opened, self._serves, self._ends = service, opened, serves, ends
        self.grace_seconds = grace_seconds
        config.timeout_graceful_shutdown = grace_seconds + _STOP_SECONDS  # type: ignore[assignment]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([self._opened.dup()])
        with suppress(NotImplementedError, AttributeError):  # as on Windows
            reload = partial(self._service.later, "reload", self._service.reload)
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
        self._serves()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        self._ends()
        loop.call_later(self.grace_seconds, self._service.stop)
        for server in self.servers:
            server.close()
        for one in _accepted(self._opened):
            await loop.connect_accepted_socket(self._protocol, one)
        await super().shutdown()

    def _protocol(self) -> asyncio.Protocol:
        kind: Any = self.config.http_protocol_class
        made: asyncio.Protocol = kind(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made


def _accepted(opened: socket.socket) -> list[socket.socket]:
    """The connections that no worker has accepted yet, which closing would reset; then the socket is closed."""
    found: list[socket.socket] = []
    opened.setblocking(False)
    with opened, suppress(OSError):  # nobody else is there
        while True:
            found.append(opened.accept()[0])
    return found
