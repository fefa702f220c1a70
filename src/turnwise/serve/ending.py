"""uvicorn's server, which says when it serves, and ends without resetting a connection."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import uvicorn

from turnwise.serve.service import Service

_STOP_SECONDS: Final = 0.5
"""How long requests may take to end once the service was told to stop."""


class EndingServer(uvicorn.Server):
    """A server of one worker; `serves` is called once it accepts connections on the socket that workers share,
    `ends` before it accepts the last of them.

    Once it ends, requests under way have `grace_seconds`, then the service is told to stop. SIGHUP reloads.
    """

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
        """Begin to accept connections."""
        await super().startup([self._opened.dup()])
        with suppress(NotImplementedError, AttributeError):  # as on Windows
            reload = partial(self._service.later, "reload", self._service.reload)
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
        self._serves()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve those who have connected, accept nobody else, and end."""
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
