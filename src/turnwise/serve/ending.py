"""uvicorn's server, which says when it serves, and ends without resetting a connection."""

from __future__ import annotations

import asyncio
import ctypes
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import parent_process
from typing import Any, Final

import uvicorn

from turnwise.serve.service import Service

_STOP_SECONDS: Final = 0.5
"""How long requests may take to end once the service was told to stop."""

_ATTACH_FILTER: Final = 26
"""Linux's SO_ATTACH_FILTER, which Python gives no name."""

_DROP: Final = struct.pack("HBBI", 6, 0, 0, 0)
"""A packet filter of one instruction: keep nothing."""


class EndingServer(uvicorn.Server):
    """A server of one worker; `serves` is called once it accepts connections on the socket that workers share.

    Once it ends, requests under way have `grace_seconds`, then the service is told to stop. SIGHUP reloads.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        opened: socket.socket,
        grace_seconds: float,
        serves: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._service, self._opened, self._serves = service, opened, serves
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
        if parent_process() is None:
            turn_away(self._opened)  # else the supervisor did, unless the other workers go on
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


def turn_away(opened: socket.socket) -> None:
    """Let nobody connect any more, with whatever process listens on the socket.

    Who comes between the last accept and the closing would be reset. So Linux drops what arrives: the client tries
    again a second later, and is refused. Elsewhere nothing is done.

    Args:
        opened: listens.
    """
    if sys.platform == "linux":
        program = ctypes.create_string_buffer(_DROP, len(_DROP))
        with suppress(OSError):  # a sandbox without filters
            opened.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(program)))


def _accepted(opened: socket.socket) -> list[socket.socket]:
    """The connections that no worker has accepted yet, which closing would reset; then the socket is closed."""
    found: list[socket.socket] = []
    opened.setblocking(False)
    with opened, suppress(OSError):  # nobody else is there
        while True:
            found.append(opened.accept()[0])
    return found
