"""A loopback server that speaks the language of OpenAI's moderation endpoint."""

from __future__ import annotations

import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CATEGORIES = (
    "harassment",
    "harassment/threatening",
    "hate",
    "hate/threatening",
    "illicit",
    "illicit/violent",
    "self-harm",
    "self-harm/instructions",
    "self-harm/intent",
    "sexual",
    "sexual/minors",
    "violence",
    "violence/graphic",
)

WORDS = {"rude": {"harassment": 0.8}, "gory": {"violence": 0.9, "violence/graphic": 0.6}}
"""Scores that a text gets for a word in it; a score of at least 0.5 is flagged."""


def result_of(text: str) -> dict[str, Any]:
    """Return the result of a text."""
    scores = dict.fromkeys(CATEGORIES, 0.01)
    for word, given in WORDS.items():
        if word in text:
            scores |= given
    flags = {name: score >= 0.5 for name, score in scores.items()}
    return {
        "flagged": any(flags.values()),
        "categories": flags,
        "category_scores": scores,
        "category_applied_input_types": {name: ["text"] for name in CATEGORIES},
    }


class ModerationServer:
    """The server; a context manager that listens from `__enter__` to `__exit__`.

    ``planned`` holds what the next calls get in place of a result: a status, a body as bytes, or ``"hang"``, which
    answers nothing until the server ends.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.planned: deque[int | bytes | str] = deque()
        self.ended = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.moderation = self

    @property
    def url(self) -> str:
        """Base URL of the API."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ModerationServer:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    moderation: ModerationServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Leave a client that went away unmentioned."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *arguments: object) -> None:
        """Write nothing: standard error belongs to the tests."""

    def do_POST(self) -> None:
        """Answer a call."""
        server = self.server.moderation
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server.requests.append(body)
        server.keys.append(self.headers.get("authorization"))
        planned = server.planned.popleft() if server.planned else None
        if planned == "hang":
            server.ended.wait()
            return
        if isinstance(planned, int):
            # Some servers send the whole request back in their errors, key included.
            said = f"refused (headers: authorization={self.headers.get('authorization')})"
            self._send(planned, json.dumps({"error": {"message": said}}).encode())
        elif isinstance(planned, bytes):
            self._send(200, planned)
        else:
            answer = {"id": "modr-1", "model": body["model"], "results": [result_of(body["input"])]}
            self._send(200, json.dumps(answer).encode())

    def _send(self, status: int, content: bytes) -> None:
        lines = [
            f"HTTP/1.1 {status} Whatever",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
        ]
        self.wfile.write("\r\n".join([*lines, "", ""]).encode() + content)
