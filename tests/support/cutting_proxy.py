"""A proxy on the loopback that forwards everything, until it is told to cut a connection at a word."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

_SIZE = 65_536


class CuttingProxy:
    """Stands between clients and a server on the loopback; `cuts` counts the connections that it cut."""

    def __init__(self, port: int) -> None:
        self._server = port
        self._word: bytes | None = None
        self._delivered = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_once(self, word: bytes, *, delivered: bool) -> None:
        """Cut the next connection whose client says a word; what was `delivered` loses only its answer."""
        self._delivered, self._word = delivered, word

    def close(self) -> None:
        """Take no more clients."""
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server))
                for job in (self._ask, self._answer):
                    threading.Thread(target=job, args=(client, server), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(_SIZE):
                if self._word is not None and self._word in data:
                    self._word = None
                    self._cut(client, server, data)
                    return
                server.sendall(data)
        _end(client, server)

    def _cut(self, client: socket.socket, server: socket.socket, data: bytes) -> None:
        """End a connection to a client; the server may hear the last words, and is waited for."""
        self.cuts += 1
        client.shutdown(socket.SHUT_RDWR)
        if self._delivered:
            server.sendall(data)
            server.shutdown(socket.SHUT_WR)  # it answers, sees that nobody is there, and ends
        else:
            server.shutdown(socket.SHUT_RDWR)

    def _answer(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(_SIZE):
                client.sendall(data)
        _end(client, server)


def _end(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@contextlib.contextmanager
def proxy_to(port: int) -> Iterator[CuttingProxy]:
    """Give a proxy to a port of the loopback."""
    proxy = CuttingProxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
