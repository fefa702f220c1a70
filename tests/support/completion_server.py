"""A server of a model on the loopback interface, in the shape of OpenAI: it tells what reached it, and answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], Mapping[str, Any]]
"""Gives the message of a reply from the body of a request."""

CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
"""The call of a tool."""


def echo(body: dict[str, Any]) -> Mapping[str, Any]:
    """Return a reply that tells the last message, so that what reached the model can be seen in it."""
    return {"role": "assistant", "content": f"You said: {body['messages'][-1]['content']}"}


class CompletionServer:
    """The server; a context manager that listens from `__enter__` to `__exit__`.

    Args:
        answer: gives the message of a reply.
        piece: characters of a piece, where a reply comes in pieces.

    Attributes:
        requests: the bodies that came, in order.
    """

    def __init__(self, answer: Answer = echo, piece: int = 7) -> None:
        self.answer, self.requests = answer, []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append(body)
                message = dict(outer.answer(body))
                reason = "tool_calls" if message.get("tool_calls") else "stop"
                given = {"id": "chatcmpl-1", "created": 1, "model": body.get("model", "m")}
                if body.get("stream"):
                    self._send_pieces(given, message, reason)
                    return
                choices = [
                    {"index": index, "finish_reason": reason, "message": message, "logprobs": None}
                    for index in range(body.get("n") or 1)
                ]
                usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
                whole = {**given, "object": "chat.completion", "choices": choices, "usage": usage}
                self._send("application/json", json.dumps(whole).encode())

            def do_GET(self) -> None:
                self._send("application/json", b'{"object": "list", "data": []}')

            def _send_pieces(self, given: dict[str, Any], message: dict[str, Any], reason: str) -> None:
                deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
                text = message.get("content") or ""
                deltas += [{"content": text[at : at + piece]} for at in range(0, len(text), piece)]
                for index, call in enumerate(message.get("tool_calls") or ()):
                    raw = call["function"]["arguments"]
                    head = {**call, "function": {**call["function"], "arguments": ""}}
                    deltas.append({"tool_calls": [{"index": index, **head}]})
                    deltas += [
                        {"tool_calls": [{"index": index, "function": {"arguments": part}}]}
                        for part in (raw[: len(raw) // 2], raw[len(raw) // 2 :])
                    ]
                choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
                choices.append({"index": 0, "delta": {}, "finish_reason": reason})
                lines = [{**given, "object": "chat.completion.chunk", "choices": [one]} for one in choices]
                sent = "".join(f"data: {json.dumps(line)}\n\n" for line in lines) + "data: [DONE]\n\n"
                self._send("text/event-stream", sent.encode())

            def _send(self, kind: str, data: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> CompletionServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
