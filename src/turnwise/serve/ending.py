"""uvicorn's server, which says when it serves and ends without a connection that is reset."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import uvicorn

_CANCELLED_SECONDS: Final = 0.5
"""How long requests may take to end after `Service.stop`, before their connections are closed."""


class EndingServer(uvicorn.Server):
    """A server of one worker.

    Args:
        config: how it serves.
        opened: the socket that it listens on, with other workers.
        grace_seconds: how long requests under way may take once it ends.
        serves: called once it accepts connections.
        stop: called when requests under way have had their time.
        reload: called on SIGHUP.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        opened: socket.socket,
        grace_seconds: float,
        serves: Callable[[], None],
        stop: Callable[[], None],
        reload: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._opened = opened
        self._serves, self._stop, self._reload = serves, stop, reload
        self.grace_seconds = grace_seconds
        config.timeout_graceful_shutdown = grace_seconds + _CANCELLED_SECONDS  # type: ignore[assignment]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        await super().startup([self._opened.dup()])
        with suppress(NotImplementedError, AttributeError):  # as on Windows
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload)
        self._serves()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve who connected, accept nobody else, and end."""
        loop = asyncio.get_running_loop()
        loop.call_later(self.grace_seconds, self._stop)
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
    """Accept who has connected by now, close the socket that was listened on, and return the connections.

    Whoever the system has taken a connection for, and no worker, would be reset when the last worker closes.
    """
    found: list[socket.socket] = []
    opened.setblocking(False)
    with opened, suppress(OSError):  # nobody else is there, or no file can be opened for them
        while True:
            found.append(opened.accept()[0])
    return found
