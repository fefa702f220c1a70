"""A model on the loopback interface that says what a test tells it to, in the shape of OpenAI's chat completions.

It streams where it is asked to, a piece for every few characters, and calls tools::

    with ScriptedModel() as model:
        model.say(tool("weather", city="Oslo"), "It is cold.")
        ...                                        # requests to model.url
        model.seen                                 # the messages of each request
"""

from __future__ import annotations

import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_PIECE = 7
"""Characters of a piece of a stream."""


def tool(name: str, call_id: str = "call_1", /, **arguments: Any) -> dict[str, Any]:
    """Return the message in which a model calls a tool."""
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


class ScriptedModel:
    """The server; a context manager that listens from `__enter__` to `__exit__`.

    Attributes:
        seen: the messages of every request, in order.
        streamed: pieces of text that were sent so far.
    """

    def __init__(self) -> None:
        self.seen: list[list[dict[str, Any]]] = []
        self.streamed = 0
        self._script: deque[dict[str, Any]] = deque()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.model = self

    @property
    def url(self) -> str:
        """Base URL of the API."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def say(self, *replies: str | dict[str, Any]) -> None:
        """Set what the next requests get, in order: a text, or a message."""
        self._script += [{"role": "assistant", "content": one} if isinstance(one, str) else one for one in replies]

    def answer(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """Note a request and return its reply."""
        self.seen.append(messages)
        return self._script.popleft()

    def sent(self) -> str:
        """Return all that the model was ever sent, as one text."""
        return json.dumps(self.seen)

    def __enter__(self) -> ScriptedModel:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    model: ScriptedModel

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Leave a client that stopped a stream unmentioned."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *arguments: object) -> None:
        """Write nothing: standard error belongs to the tests."""

    def do_POST(self) -> None:
        """Answer with the next line of the script."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = self.server.model.answer(body["messages"])
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        if body.get("stream"):
            self._stream(message, finish)
            return
        choice = {"index": 0, "message": message, "finish_reason": finish}
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "scripted"}
        content = json.dumps({**head, "choices": [choice], "usage": usage}).encode()
        self._begin("application/json")
        self.wfile.write(content)

    def _begin(self, kind: str) -> None:
        # Each reply on a connection of its own, so that clients leave none open when a test ends.
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def _stream(self, message: dict[str, Any], finish: str) -> None:
        self._begin("text/event-stream")
        text = message["content"] or ""
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": text[at : at + _PIECE]} for at in range(0, len(text), _PIECE)]
        deltas += [
            {"tool_calls": [{"index": at, **call}]} for at, call in enumerate(message.get("tool_calls", []))
        ]
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
        for delta in [*deltas, {}]:
            choice = {"index": 0, "delta": delta, "finish_reason": None if delta else finish}
            self.wfile.write(f"data: {json.dumps({**head, 'choices': [choice]})}\n\n".encode())
            self.server.model.streamed += 1
        self.wfile.write(b"data: [DONE]\n\n")
