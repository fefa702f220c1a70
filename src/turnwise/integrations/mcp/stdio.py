"""An MCP server that speaks over its standard streams, under guard: each line is a message."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from threading import Event, Lock, Thread

from turnwise.errors import GuardError
from turnwise.integrations.mcp.messages import MAX_MESSAGE, McpScreen

_PATIENCE = 5.0
"""Seconds that a server has to end once the client has gone."""


def lines(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Lines of a stream without their ends; the last one may be longer than a message may be, and ends it."""
    parts: list[bytes] = []
    size = 0
    while chunk := read(1 << 16):
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield b"".join([*parts, line])
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
        if size > MAX_MESSAGE:
            break
    if size:
        yield b"".join(parts)


class StdioClient:
    """The client at the other end of our standard streams."""

    def __init__(self, screen: McpScreen) -> None:
        self.screen = screen
        self._lock = Lock()

    def write(self, *messages: bytes | None) -> None:
        with self._lock:
            for message in messages:
                if message is not None:
                    _write(1, message + b"\n")

    def messages(self) -> Iterator[bytes]:
        """What the client sends and the screen lets through."""
        for line in lines(lambda size: os.read(0, size)):
            passed = self.screen.to_server(line)
            self.write(*passed.answers)
            if passed.forward is not None:
                yield passed.forward


def _write(stream: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(stream, view) :]


def serve_command(command: Sequence[str], screen: McpScreen) -> int:
    """Start a server and stand between it and our standard streams until either ends; its exit code."""
    try:
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError as error:
        raise GuardError(f"{command[0]}: the MCP server can't be started: {error.strerror or error}") from error
    client = StdioClient(screen)
    over = Event()

    def send() -> None:
        assert server.stdin is not None
        with suppress(OSError):
            for message in client.messages():
                _write(server.stdin.fileno(), message + b"\n")
        with suppress(OSError):
            server.stdin.close()
        if not _ended(server):
            server.terminate()
            if not _ended(server):
                server.kill()
        over.set()

    def receive() -> None:
        assert server.stdout is not None
        stream = server.stdout.fileno()
        with suppress(OSError):
            for line in lines(lambda size: os.read(stream, size)):
                passed = screen.to_client(line)
                client.write(passed.forward)
        with suppress(OSError):
            client.write(*screen.give_up("the MCP server has ended"))
        over.set()

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    receiver = Thread(target=receive, daemon=True)
    try:
        receiver.start()
        Thread(target=send, daemon=True).start()
        over.wait()
        receiver.join(_PATIENCE)
    finally:
        if not _ended(server, 0.5):
            server.kill()
    return server.wait()


def _ended(server: subprocess.Popen[bytes], seconds: float = _PATIENCE) -> bool:
    try:
        server.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
