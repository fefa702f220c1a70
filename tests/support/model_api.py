"""A server of a model on the loopback interface: OpenAI's chat completions and Responses, Anthropic's Messages.

It says what a test tells it to, streams where it is asked to, and keeps what reached it::

    with ModelServer() as model:
        model.say(tool("weather", city="Oslo"), "It is cold.")
        ...                                        # requests to model.url
        model.seen                                 # the messages of each request
"""

from __future__ import annotations

import json
import random
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Part = Mapping[str, Any]
Answer = Callable[[dict[str, Any]], Any]
"""Gives what is said from the body of a request: a message of a chat, or the parts of another reply."""

_PIECE = 7
"""Characters of a piece of a chat."""

CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
"""The call of a tool in a chat."""


def echo(body: dict[str, Any]) -> Mapping[str, Any]:
    """Tell the last message of a chat, so that what reached the model can be seen in the reply."""
    return {"role": "assistant", "content": f"You said: {body['messages'][-1]['content']}"}


def tool(name: str, call_id: str = "call_1", /, **arguments: Any) -> dict[str, Any]:
    """The message of a chat in which a model calls a tool."""
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def text(said: str) -> Part:
    return {"kind": "text", "text": said}


def thinking(said: str) -> Part:
    return {"kind": "thinking", "text": said}


def call(name: str, arguments: Mapping[str, Any], call_id: str = "call_1") -> Part:
    return {"kind": "call", "name": name, "arguments": json.dumps(arguments), "id": call_id}


def fine(body: dict[str, Any]) -> Sequence[Part]:
    return [text("Fine.")]


def client_of(kind: Any, url: str) -> Any:
    """A client of the `openai` or `anthropic` package, of a class; it reads no certificates, which takes long."""
    package = sys.modules[kind.__module__.partition(".")[0]]
    http = package.DefaultAsyncHttpxClient if kind.__name__.startswith("Async") else package.DefaultHttpxClient
    return kind(base_url=url, api_key="none", max_retries=0, http_client=http(verify=False))


class ModelServer:
    """The server; a context manager that listens from `__enter__` to `__exit__`.

    Args:
        answer: gives what a reply says; None for what `say` set.
        keep_alive: whether connections stay open; clients that nobody closes then leave some behind.

    Attributes:
        requests: the bodies that came, in order.
        streamed: pieces of chats that were sent so far.
        deleted: what was to be deleted, by its path.
        stored: the input and output items of each response, and the response before it, by id.
        cut: draws the pieces in which texts of parts come.
        breaks_off: whether replies of parts end before their last events.
    """

    def __init__(self, answer: Answer | None = None, *, keep_alive: bool = False) -> None:
        self.answer = answer or (lambda body: self._script.popleft())
        self.keep_alive = keep_alive
        self.requests: list[dict[str, Any]] = []
        self.streamed = 0
        self.deleted: list[str] = []
        self.stored: dict[str, tuple[list[Any], str | None]] = {}
        self.cut = random.Random(1)
        self.breaks_off = False
        self._script: deque[dict[str, Any]] = deque()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.model = self
        self.root = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.url = f"{self.root}/v1"

    def say(self, *replies: str | dict[str, Any]) -> None:
        """Set what the next requests of a chat get, in order: a text, or a message."""
        self._script += [{"role": "assistant", "content": one} if isinstance(one, str) else one for one in replies]

    def forget(self) -> None:
        """Say nothing more of what was set."""
        self._script.clear()

    @property
    def seen(self) -> list[Any]:
        """The messages of every request."""
        return [body["messages"] for body in self.requests]

    def sent(self) -> str:
        """All that the model was ever sent, as one text."""
        return json.dumps(self.seen)

    def history(self, response_id: str | None) -> str:
        """All that the server has before and in a response, as JSON."""
        items: list[Any] = []
        while response_id is not None:
            some, response_id = self.stored[response_id]
            items = [*some, *items]
        return json.dumps(items)

    def __enter__(self) -> ModelServer:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    model: ModelServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Leave a client that stopped a stream unmentioned."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        model, body = self.server.model, json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        model.requests.append(body)
        said = model.answer(body)
        if self.path.endswith("/chat/completions"):
            whole, events = _completion(body, said), _completion_pieces(body, said)
            lines = (f"data: {json.dumps(event)}\n\n" for event in events)
            self._answer(body, whole, lines)
            return
        if self.path.endswith("/responses"):
            before = body.get("previous_response_id")
            if before is not None and before not in model.stored:
                self._send({"error": {"message": "no such response"}}, 400)
                return
            whole = _response(f"resp_{len(model.requests)}", body, list(said))
            told = body["input"]
            items = told if isinstance(told, list) else [{"role": "user", "content": told}]
            model.stored[whole["id"]] = ([*items, *whole["output"]], before)
            events = _response_events(whole, model.cut)
        else:
            whole = _message(f"msg_{len(model.requests)}", body, list(said))
            events = _message_events(whole, model.cut)
        told_events = list(events)[: -2 if model.breaks_off else None]
        self._answer(body, whole, (f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in told_events))

    def do_GET(self) -> None:
        self._send({"object": "list", "data": [], "has_more": False})

    def do_DELETE(self) -> None:
        self.server.model.deleted.append(self.path)
        self._send({"id": "conv_1", "object": "conversation", "created_at": 1})

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _answer(self, body: Mapping[str, Any], whole: Mapping[str, Any], lines: Iterable[str]) -> None:
        if not body.get("stream"):
            self._send(whole)
            return
        self._begin("text/event-stream", 200, keep_alive=False)
        for line in lines:
            self.wfile.write(line.encode())
            self.server.model.streamed += 1
        if self.path.endswith("/chat/completions"):
            self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, told: Mapping[str, Any], status: int = 200) -> None:
        data = json.dumps(told).encode()
        self._begin("application/json", status, keep_alive=self.server.model.keep_alive, size=len(data))
        self.wfile.write(data)

    def _begin(self, kind: str, status: int, *, keep_alive: bool, size: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if size is not None:
            self.send_header("Content-Length", str(size))
        if not keep_alive:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()


def _completion(body: Mapping[str, Any], message: Mapping[str, Any]) -> dict[str, Any]:
    choices = [
        {"index": index, "finish_reason": _reason(message), "message": message, "logprobs": None}
        for index in range(body.get("n") or 1)
    ]
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    return {**_about(body), "object": "chat.completion", "choices": choices, "usage": usage}


def _completion_pieces(body: Mapping[str, Any], message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    said = message.get("content") or ""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": said[at : at + _PIECE]} for at in range(0, len(said), _PIECE)]
    for index, one in enumerate(message.get("tool_calls") or ()):
        raw = one["function"]["arguments"]
        deltas.append({"tool_calls": [{"index": index, **one, "function": {**one["function"], "arguments": ""}}]})
        for part in (raw[: len(raw) // 2], raw[len(raw) // 2 :]):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    for delta in [*deltas, {}]:
        choice = {"index": 0, "delta": delta, "finish_reason": None if delta else _reason(message)}
        yield {**_about(body), "object": "chat.completion.chunk", "choices": [choice]}


def _about(body: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "created": 1, "model": body.get("model", "m")}


def _reason(message: Mapping[str, Any]) -> str:
    return "tool_calls" if message.get("tool_calls") else "stop"


def _pieces(whole: str, cut: random.Random) -> list[str]:
    pieces, at = [], 0
    while at < len(whole):
        size = cut.randint(1, 9)
        pieces.append(whole[at : at + size])
        at += size
    return pieces


def _response(identity: str, body: Mapping[str, Any], parts: Sequence[Part]) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    for at, part in enumerate(parts):
        if part["kind"] == "thinking":
            summary = [{"type": "summary_text", "text": part["text"]}]
            output.append({"type": "reasoning", "id": f"rs_{at}", "summary": summary})
        elif part["kind"] == "call":
            told = {"call_id": part["id"], "name": part["name"], "arguments": part["arguments"]}
            output.append({"type": "function_call", "id": f"fc_{at}", "status": "completed", **told})
        elif part["kind"] == "item":
            output.append(dict(part["item"]))
        else:
            spelled = part.get("logprobs", [])
            said: dict[str, Any] = {"type": "output_text", "text": part["text"], "annotations": []}
            said["logprobs"] = spelled
            if part["kind"] == "refusal":
                said = {"type": "refusal", "refusal": part["text"]}
            if part.get("joins") and output[-1]["type"] == "message":
                output[-1]["content"].append(said)
                continue
            told = {"type": "message", "id": f"msg_{at}", "role": "assistant", "status": "completed"}
            output.append({**told, "content": [said]})
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": identity,
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "model": body.get("model", "m"),
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "usage": usage,
    }


def _response_events(whole: dict[str, Any], cut: random.Random) -> Iterator[dict[str, Any]]:
    for number, event in enumerate(_bare_events(whole, cut)):
        yield {**event, "sequence_number": number}


def _bare_events(whole: dict[str, Any], cut: random.Random) -> Iterator[dict[str, Any]]:
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for at, item in enumerate(whole["output"]):
        here = {"item_id": item["id"], "output_index": at}
        if item["type"] == "message":
            yield _added(at, {**item, "status": "in_progress", "content": []})
            for index, part in enumerate(item["content"]):
                key, name = ("text", "output_text") if part["type"] == "output_text" else ("refusal", "refusal")
                place = {**here, "content_index": index}
                begun = {**part, key: "", **({"logprobs": []} if key == "text" else {})}
                yield {"type": "response.content_part.added", **place, "part": begun}
                spelled = {"logprobs": part["logprobs"]} if key == "text" else {}
                for piece in _pieces(part[key], cut):
                    yield {"type": f"response.{name}.delta", **place, "delta": piece, **spelled}
                yield {"type": f"response.{name}.done", **place, key: part[key], **spelled}
                yield {"type": "response.content_part.done", **place, "part": part}
        elif item["type"] == "reasoning":
            yield _added(at, {**item, "summary": []})
            place = {**here, "summary_index": 0}
            (part,) = item["summary"]
            yield {"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}}
            for piece in _pieces(part["text"], cut):
                yield {"type": "response.reasoning_summary_text.delta", **place, "delta": piece}
            yield {"type": "response.reasoning_summary_text.done", **place, "text": part["text"]}
            yield {"type": "response.reasoning_summary_part.done", **place, "part": part}
        elif item["type"] == "function_call":
            yield _added(at, {**item, "arguments": "", "status": "in_progress"})
            for piece in _pieces(item["arguments"], cut):
                yield {"type": "response.function_call_arguments.delta", **here, "delta": piece}
            told = {"name": item["name"], "arguments": item["arguments"]}
            yield {"type": "response.function_call_arguments.done", **here, **told}
        else:
            yield _added(at, {**item, "status": "in_progress"})
        yield {"type": "response.output_item.done", "output_index": at, "item": item}
    yield {"type": "response.completed", "response": whole}


def _added(at: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": at, "item": item}


def _message(identity: str, body: Mapping[str, Any], parts: Sequence[Part]) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    for part in parts:
        if part["kind"] == "thinking":
            blocks.append({"type": "thinking", "thinking": part["text"], "signature": "c2lnbmVk"})
        elif part["kind"] == "call":
            told = {"id": part["id"], "name": part["name"], "input": json.loads(part["arguments"])}
            blocks.append({"type": "tool_use", **told})
        else:
            blocks.append({"type": "text", "text": part["text"]})
    called = any(part["kind"] == "call" for part in parts)
    return {
        "id": identity,
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "m"),
        "content": blocks,
        "stop_reason": "tool_use" if called else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _message_events(whole: dict[str, Any], cut: random.Random) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
    yield {"type": "ping"}
    for at, block in enumerate(whole["content"]):
        if block["type"] == "tool_use":
            begun, told = (
                {**block, "input": {}},
                [("input_json_delta", "partial_json", json.dumps(block["input"]))],
            )
        elif block["type"] == "thinking":
            begun, told = (
                {**block, "thinking": "", "signature": ""},
                [("thinking_delta", "thinking", block["thinking"])],
            )
        else:
            begun, told = {**block, "text": ""}, [("text_delta", "text", block["text"])]
        yield {"type": "content_block_start", "index": at, "content_block": begun}
        for kind, key, said in told:
            for piece in _pieces(said, cut):
                yield {"type": "content_block_delta", "index": at, "delta": {"type": kind, key: piece}}
        if block["type"] == "thinking":
            signed = {"type": "signature_delta", "signature": block["signature"]}
            yield {"type": "content_block_delta", "index": at, "delta": signed}
        yield {"type": "content_block_stop", "index": at}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 2}}
    yield {"type": "message_stop"}
