"""Connections that send nothing, or too slowly: they are closed, the oldest first where there are too many."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

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
        """Begin to wait for the first request."""
        super().connection_made(transport)
        if len(self.connections) > self.most and self.waiting:
            next(iter(self.waiting.values())).transport.abort()
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._waits_no_longer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of the headers, where this began another request."""
        if self._deadline is None and self._is_idle():
            self._await_headers()
        super().data_received(data)

    def on_headers_complete(self) -> None:
        """Wait no longer: from here on the application has its own times."""
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
    """A protocol with bounds of its own.

    The headers of a request have `header_seconds` from the beginning of the connection, or from their first byte.
    Where there are more than `most` connections, the oldest that owes a request is closed.
    """
    fields = {"header_seconds": header_seconds, "most": most, "waiting": OrderedDict()}
    return type("Protocol", (BoundedProtocol,), fields)
