"""A real `turnwise serve` in a process of its own, for tests and benchmarks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

_ADDRESS = re.compile(r"on http://([^ :]+):(\d+)")


class Served:
    """A service that runs."""

    def __init__(self, process: subprocess.Popen[str], host: str, port: int, log: list[str]) -> None:
        self.process, self.host, self.port, self.log = process, host, port, log
        self.url = f"http://{host}:{port}"

    def connection(self, timeout: float = 30.0) -> HTTPConnection:
        return HTTPConnection(self.host, self.port, timeout=timeout)

    def ask(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None):
        """Return status and JSON (or text) of a request on a connection of its own."""
        connection = self.connection()
        try:
            data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            text = response.read().decode()
            kind = response.headers.get("Content-Type", "")
            return response.status, json.loads(text) if "json" in kind and "nd" not in kind else text
        finally:
            connection.close()

    def check(self, text: str, conversation_id: str | None = None, **more: object):
        status, body = self.ask("POST", "/v1/check", {"text": text, "conversation_id": conversation_id, **more})
        assert status == 200, body
        return body

    def end(self, number: int = signal.SIGTERM, timeout: float = 30.0) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout)


def until(answer, seconds: float = 20.0):
    """Return what a call returns once that is true; a call that can't connect is asked again."""
    end = time.monotonic() + seconds
    while True:
        try:
            found = answer()
        except OSError:
            found = None
        if found:
            return found
        assert time.monotonic() < end, "it did not come about in time"
        threading.Event().wait(0.02)


@contextmanager
def served(*arguments: str, env: dict[str, str] | None = None, folder: Path | None = None) -> Iterator[Served]:
    """Run `turnwise serve` with some options on a free port, in a working directory, until the block is left."""
    import turnwise

    source = str(Path(turnwise.__file__).parents[1])
    command = [sys.executable, "-c", "from turnwise.cli import main; main()", "serve", "--port", "0", *arguments]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": source, "PYTHONSAFEPATH": "1", **(env or {})},
        cwd=folder,
    )
    log: list[str] = []
    reader = threading.Thread(target=lambda: log.extend(process.stderr or ()), daemon=True)
    assert process.stderr is not None
    try:
        found = None
        for line in process.stderr:
            log.append(line)
            if found := _ADDRESS.search(line):
                break
        assert found, "".join(log)
        reader.start()
        service = Served(process, found[1], int(found[2]), log)
        until(lambda: service.ask("GET", "/healthz")[0] == 200, 60.0)
        yield service
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if reader.is_alive():
            reader.join(10)
        process.stderr.close()
