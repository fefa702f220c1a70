"""A server on the loopback interface that speaks the chat-completions protocol, and fails on command.

For tests in this process::

    with ChatServer(latency=0.2) as server:
        server.plan("429", "500")                  # what the next two calls get
        ...                                        # requests to server.url
        server.calls, server.requests

For other processes, such as benchmarks and commands that are killed::

    python tests/support/chat_server.py --latency 0.2 --fail 0.2 --seed 1

prints its URL; ``GET /stats`` then tells what was called, and ``POST /control`` changes latency, share and faults.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import re
import socket
import struct
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REPLY_FAULTS = (
    "malformed",
    "range",
    "nan",
    "text_number",
    "no_reasoning",
    "refusal",
    "declines",
    "cut_off",
    "empty",
)
"""Replies that arrive and can't be read as a score."""

LOST_FAULTS = ("429", "429:retry-after", "500", "503", "drop", "drop_late", "truncate", "bad_body", "slow_body")
"""Ways in which no reply arrives, though another try may bring one."""

FATAL_FAULTS = ("401", "402", "403", "404", "quota", "no_model", "no_setting", "html", "gateway_401")
"""Errors that every request of the run would meet."""

OTHER_FAULTS = (
    *("400", "400:list", "413", "502:html", "gateway_502", "no_choices", "redirect"),
    *("no_usage", "parts", "thinks", "gzip"),
    *("slow_head", "endless_head", "huge", "bomb", "not_gzip", "other_encoding", "nested"),
)
"""The rest: a request that is refused for itself, and replies that are only unusual."""

FAULTS = (*REPLY_FAULTS, *LOST_FAULTS, *FATAL_FAULTS, *OTHER_FAULTS)

_WRONG_FIELD = {
    "type": "literal_error",
    "loc": ["body", "response_format", "type"],
    "msg": "Input should be 'text' or 'json_object'",
    "input": "json_schema",
}

REFUSALS: dict[str, tuple[int, Any]] = {
    "500": (500, {"error": {"message": str([_WRONG_FIELD]), "type": "internal_server_error"}}),
    "400": (400, {"error": {"message": "This model does not take it.", "param": "response_format"}}),
    "422": (422, {"detail": [_WRONG_FIELD]}),
    "500:bare": (500, "Internal Server Error"),
    "400:bare": (400, {"error": "Bad Request"}),
    "422:bare": (422, {"detail": "Unprocessable Entity"}),
}
"""What strict servers answer to a ``response_format`` that they don't know, with a word about it or without."""

Answer = Callable[[dict[str, Any]], str]
"""Gives the text of a reply from the body of a request."""


def scores_by_text(body: dict[str, Any]) -> str:
    """Return a score that hangs on the messages but for their nonce; the same one each time."""
    text = "\n".join(message["content"] for message in body["messages"])
    marks = re.findall(r"^<<([0-9a-f]{16,})>> END MATERIAL$", text, re.MULTILINE)
    digest = hashlib.sha256(text.replace(marks[0], "").encode() if marks else text.encode()).digest()
    T, I, F = (round(byte / 255, 3) for byte in digest[:3])  # noqa: E741 - the names of the components
    return json.dumps({"reasoning": "as the text has it", "T": T, "I": I, "F": F})


class ChatServer:
    """The server; a context manager that listens from `__enter__` to `__exit__`.

    Args:
        answer: gives the text of a reply.
        latency: seconds before each answer.
        fail: share of calls, from 0 to 1, that get one of `faults`, chosen at random.
        faults: what those calls get.
        seed: makes the choice repeatable.
        retry_after: seconds that ``429:retry-after`` asks for.
        slow: seconds between the pieces of a slow head or body.
        key: the key that is asked for; None for none.
        limit: calls that may be under way at once; more get a 429. None for no limit.
        port: where to listen; 0 for any free one.

    Attributes:
        refused: types of ``response_format`` that it does not take, such as ``("json_schema",)``;
            ``"logprobs"`` for log-probabilities.
        logprobs: gives the log-probabilities of a reply from its text; None where it gives none.
        refusal: what it answers to these, one of `REFUSALS`.
    """

    def __init__(
        self,
        answer: Answer = scores_by_text,
        *,
        latency: float = 0.0,
        fail: float = 0.0,
        faults: Sequence[str] = (*REPLY_FAULTS, *LOST_FAULTS),
        seed: int = 0,
        retry_after: float = 0.2,
        slow: float = 0.05,
        key: str | None = None,
        limit: int | None = None,
        port: int = 0,
    ) -> None:
        self.answer = answer
        self.latency = latency
        self.fail = fail
        self.faults = tuple(faults)
        self.retry_after = retry_after
        self.slow = slow
        self.key = key
        self.limit = limit
        self.keep = True
        self.usage: str | None = None
        self.refusal = "500"
        self.refused: tuple[str, ...] = ()
        self.logprobs: Callable[[str], list[dict[str, Any]]] | None = None
        self.rewrite: Callable[[bytes], bytes] = bytes
        self.sent: list[bytes] = []
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.given: Counter[str] = Counter()
        self.most_under_way = 0
        self._calls = 0
        self._under_way = 0
        self._planned: deque[str | None] = deque()
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.chat = self

    @property
    def url(self) -> str:
        """Base URL of the API."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def calls(self) -> int:
        """Calls so far, whatever they got."""
        return self._calls

    @property
    def replies(self) -> int:
        """Calls that got a whole reply, readable or not: those that a provider would bill."""
        return sum(self.given[name] for name in ("ok", "no_usage", "parts", "thinks", "gzip", *REPLY_FAULTS))

    def plan(self, *faults: str | None) -> None:
        """Set what the next calls get, in order; None for a sound reply."""
        for fault in faults:
            if fault is not None and fault not in FAULTS:
                raise ValueError(f"no fault {fault!r}; there are {', '.join(FAULTS)}")
        with self._lock:
            self._planned.extend(faults)

    def stats(self) -> dict[str, Any]:
        """Return what was called and given so far."""
        with self._lock:
            given = dict(self.given)
        return {"calls": self._calls, "replies": self.replies, "given": given, "most": self.most_under_way}

    def __enter__(self) -> ChatServer:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def enter(self, body: dict[str, Any], headers: dict[str, str]) -> str | None:
        """Count a call and return its fault, if it is to have one."""
        with self._lock:
            self._calls += 1
            self._under_way += 1
            self.most_under_way = max(self.most_under_way, self._under_way)
            if self.keep:
                self.requests.append(body)
                self.headers.append(headers)
            if self.key is not None and headers.get("authorization") != f"Bearer {self.key}":
                return "401"
            if self.limit is not None and self._under_way > self.limit:
                return "429"
            if self._planned:
                return self._planned.popleft()
            if self.fail and self._random.random() < self.fail:
                return self._random.choice(self.faults)
            return None

    def leave(self) -> None:
        """Count a call as over."""
        with self._lock:
            self._under_way -= 1

    def note(self, fault: str | None) -> None:
        """Count what a call gets; before it goes out, so that whoever has it finds it counted."""
        with self._lock:
            self.given[fault or "ok"] += 1


class _Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True
    block_on_close = False
    chat: ChatServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Leave a client that went away in the middle unmentioned."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *arguments: object) -> None:
        """Write nothing: standard error belongs to the tests."""

    def do_GET(self) -> None:
        """Tell what was called."""
        self._send(200, json.dumps(self.server.chat.stats()).encode())

    def do_POST(self) -> None:
        """Answer a call, or change what calls get."""
        chat = self.server.chat
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/control":
            for name, value in body.items():
                setattr(chat, name, value)
            self._send(200, b"{}")
            return
        fault = chat.enter(body, {name.lower(): value for name, value in self.headers.items()})
        asked = "logprobs" if body.get("logprobs") else body.get("response_format", {}).get("type")
        if asked in chat.refused:
            chat.leave()
            chat.note("refused")
            status, answer = REFUSALS[chat.refusal]
            self._send(status, json.dumps(answer).encode())
            return
        try:
            if chat.latency:
                time.sleep(chat.latency)
            chat.note(fault)
            self._give(fault, body)
        finally:
            chat.leave()

    def _give(self, fault: str | None, body: dict[str, Any]) -> None:
        statuses = _STATUSES.get(fault or "")
        if statuses is not None:
            status, error = statuses
            self._fail(status, error, fault)
        elif fault == "drop":
            self._reset()
        elif fault == "html":
            self._send(200, b"<!doctype html><html><body>Welcome</body></html>", "text/html")
        elif fault == "502:html":
            self._send(502, b"<html><body><h1>502 Bad Gateway</h1></body></html>", "text/html")
        elif fault in _BODIES:
            self._send(200, _BODIES[fault])
        elif fault == "redirect":
            self._send(302, b"", extra={"Location": "/elsewhere"})
        else:
            self._reply(fault, body)

    def _reply(self, fault: str | None, body: dict[str, Any]) -> None:
        chat = self.server.chat
        text = chat.answer(body)
        message: dict[str, Any] = {"role": "assistant", "content": _TEXTS.get(fault or "", text)}
        finish = "length" if fault == "cut_off" else "stop"
        if fault == "refusal":
            message = {"role": "assistant", "content": None, "refusal": "I will not judge this."}
        elif fault == "cut_off":
            message["content"] = text[: len(text) // 2]
        elif fault == "parts":
            message["content"] = [{"type": "text", "text": text[:9]}, {"type": "text", "text": text[9:]}]
        elif fault == "thinks":
            message["content"] = f'<think>{{"T": 9}} perhaps</think>\n```json\n{text}\n```'
        prompt = sum(len(one["content"]) for one in body["messages"]) // 4
        completion = max(1, len(text) // 4)
        answer: dict[str, Any] = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": f"{body['model']}-2025-01-01",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "total_tokens": prompt + completion,
            },
        }
        if chat.logprobs is not None and body.get("logprobs"):
            answer["choices"][0]["logprobs"] = {"content": chat.logprobs(text)}
        if fault == "no_usage":
            del answer["usage"]
        content = json.dumps(answer).encode()
        if chat.usage is not None:  # written out, since it may be a number that Python can't hold
            content = json.dumps({**answer, "usage": "@"}).replace('"@"', chat.usage).encode()
        self._deliver(fault, content)

    def _deliver(self, fault: str | None, content: bytes) -> None:
        chat = self.server.chat
        if fault == "truncate":
            self._send(200, content[: len(content) // 2], length=len(content))
            self._reset(gently=True)
        elif fault == "drop_late":
            self._send(200, content[:10], length=len(content))
            self._reset()
        elif fault in _ENCODED:
            encoding, encode = _ENCODED[fault]
            self._send(200, encode(content), extra={"Content-Encoding": encoding})
        elif fault == "huge":
            self._head(200, _HUGE + len(content))
            for _ in range(_HUGE >> 20):
                self.wfile.write(b" " * 2**20)
            self.wfile.write(content)
        elif fault == "slow_head":
            head = f"HTTP/1.1 200 Whatever\r\nContent-Length: {len(content)}\r\nX-Slow: {'z' * 40}\r\n\r\n"
            for byte in head.encode():
                self.wfile.write(bytes([byte]))
                time.sleep(chat.slow)
            chat.note("slow_head:whole")
            self.wfile.write(content)
        elif fault == "endless_head":
            while True:  # until the client goes away
                self.wfile.write(b"HTTP/1.1 103 Early Hints\r\nLink: %b\r\n\r\n" % (b"z" * 9000))
        elif fault == "slow_body":
            self._head(200, len(content))
            step = max(1, len(content) // 20)
            for at in range(0, len(content), step):
                self.wfile.write(content[at : at + step])
                time.sleep(chat.slow)
        else:
            self._send(200, content)

    def _fail(self, status: int, error: dict[str, Any], fault: str | None) -> None:
        chat = self.server.chat
        told = dict(error)
        # Some servers send the whole request back in their errors, key included.
        told["message"] = f"{error['message']} (headers: authorization={self.headers.get('authorization')})"
        extra = {"Retry-After": f"{chat.retry_after:g}"} if fault == "429:retry-after" else {}
        sent = 200 if fault and fault.startswith("gateway") else status
        answer: Any = {"error": told}
        self._send(sent, json.dumps([answer] if fault == "400:list" else answer).encode(), extra=extra)

    def _send(
        self,
        status: int,
        content: bytes,
        kind: str = "application/json",
        *,
        length: int | None = None,
        extra: dict[str, str] | None = None,
    ) -> None:
        chat = self.server.chat
        content = chat.rewrite(content)
        if chat.keep:
            chat.sent.append(content)
        self._head(status, len(content) if length is None else length, kind, extra, content)

    def _head(
        self,
        status: int,
        length: int,
        kind: str = "application/json",
        extra: dict[str, str] | None = None,
        content: bytes = b"",
    ) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", f"Content-Type: {kind}", f"Content-Length: {length}"]
        lines += [f"{name}: {value}" for name, value in (extra or {}).items()]
        # Head and body in one piece: two would wait for each other's acknowledgement.
        self.wfile.write("\r\n".join([*lines, "", ""]).encode() + content)

    def _reset(self, *, gently: bool = False) -> None:
        """End the connection; not gently means that the other side sees a reset."""
        self.close_connection = True
        if not gently:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


_HUGE = 32 * 2**20

_BODIES = {
    "no_choices": b'{"choices": []}',
    "bad_body": b'{"choices": [{"message": {"content": "cut',
    "nested": b'{"choices": ' + b"[" * 1_000_000,
}

_ENCODED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    # A sound reply after much white space, in a few kilobytes.
    "bomb": ("gzip", lambda content: gzip.compress(b" " * _HUGE + content, 1)),
    "not_gzip": ("gzip", bytes),
    "other_encoding": ("gzip, gzip", bytes),
}

_TEXTS = {
    "malformed": "The score is high, I would say.",
    "range": '{"reasoning": "far too much", "T": 0.1, "I": 0.2, "F": 1.7}',
    "nan": '{"reasoning": "not a number", "T": 0.1, "I": NaN, "F": 0.2}',
    "text_number": '{"reasoning": "as text", "T": "0.1", "I": 0.2, "F": 0.3}',
    "no_reasoning": '{"T": 0.1, "I": 0.2, "F": 0.3}',
    "declines": "I'm sorry, but I can't help with that.",
    "empty": "",
}

_STATUSES: dict[str, tuple[int, dict[str, Any]]] = {
    "400": (400, {"message": "This request is not accepted.", "type": "invalid_request_error"}),
    "400:list": (400, {"code": 400, "message": "This request is not accepted.", "status": "INVALID_ARGUMENT"}),
    "401": (401, {"message": "Incorrect API key provided.", "code": "invalid_api_key"}),
    "402": (402, {"message": "Payment required."}),
    "403": (403, {"message": "Country not supported."}),
    "404": (404, {"message": "The model does not exist.", "code": "model_not_found"}),
    "413": (413, {"message": "The request is too long."}),
    "429": (429, {"message": "Too many requests.", "code": "rate_limit_exceeded"}),
    "429:retry-after": (429, {"message": "Too many requests.", "code": "rate_limit_exceeded"}),
    "500": (500, {"message": "The server had an error."}),
    "503": (503, {"message": "Overloaded."}),
    "quota": (429, {"message": "You exceeded your current quota.", "code": "insufficient_quota"}),
    "no_model": (400, {"message": "Model nonesuch is not a valid model ID."}),
    "no_setting": (400, {"message": "Unsupported value: 'temperature'.", "code": "unsupported_value"}),
    "gateway_401": (401, {"message": "No key.", "code": 401}),
    "gateway_502": (502, {"message": "Provider returned an error.", "code": 502}),
}


def main() -> None:
    """Serve until standard input ends or the process is killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--fail", type=float, default=0.0, help="share of calls that fail")
    parser.add_argument("--faults", nargs="*", default=[*REPLY_FAULTS, *LOST_FAULTS], choices=FAULTS)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    server = ChatServer(
        latency=given.latency, fail=given.fail, faults=given.faults, seed=given.seed, port=given.port
    )
    server.keep = False  # a benchmark would fill the memory
    with server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
