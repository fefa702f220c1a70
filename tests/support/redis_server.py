"""A Redis server for a test, which can be killed, frozen and started again; and a wire that can be cut."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any


def free_port() -> int:
    """Return a port of the loopback that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


class RedisServer:
    """A server that keeps what it acknowledged: it syncs its log at every change."""

    def __init__(self, folder: Path, **options: str) -> None:
        program = shutil.which("redis-server")
        assert program, "there is no redis-server: install Debian's package redis-server"
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        plain = {"port": str(self.port), "bind": "127.0.0.1", "dir": str(folder), "save": ""}
        given = {**plain, "appendonly": "yes", "appendfsync": "always", **options}
        self._command = [program, *(word for name, value in given.items() for word in (f"--{name}", value))]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def client(self, **options: Any) -> Any:
        """Return a plain client of the server."""
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        return redis.Redis(port=self.port, retry=Retry(NoBackoff(), 0), **options)

    def start(self) -> None:
        """Start it, and wait until it takes commands."""
        import redis

        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            assert self._process.poll() is None, "redis-server ended at once"
            try:
                self.client().ping()
            except redis.AuthenticationError:
                return
            except redis.ConnectionError:
                continue
            return

    def kill(self) -> None:
        """End it at once, as the system does when memory runs out."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Let it answer nothing, and keep its connections."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        assert self._process is not None
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGCONT)


class Wire:
    """Passes bytes between clients and a server, and loses answers when told to."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._lose = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, answers: int) -> None:
        """Cut so many of the next connections that send a change, after the server has done it."""
        self._lose = answers

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(("127.0.0.1", self._to)) as server:
            while asked := client.recv(1 << 20):
                server.sendall(asked)
                answer = server.recv(1 << 20)
                if self._lose and b"EVALSHA" in asked:
                    self._lose -= 1
                    return
                client.sendall(answer)
