"""A server of a model in the formats of OpenAI's Responses and Anthropic's Messages, on the loopback interface."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Part = Mapping[str, Any]
Answer = Callable[[dict[str, Any]], Sequence[Part]]
"""Gives what a reply says from the body of a request, in parts: ``text``, ``refusal``, ``thinking``, ``call``."""


def text(said: str) -> Part:
    return {"kind": "text", "text": said}


def thinking(said: str) -> Part:
    return {"kind": "thinking", "text": said}


def call(name: str, arguments: Mapping[str, Any], call_id: str = "call_1") -> Part:
    return {"kind": "call", "name": name, "arguments": json.dumps(arguments), "id": call_id}


class PartsServer:
    """The server; a context manager that listens from `__enter__` to `__exit__`.

    Args:
        answer: gives what a reply says.

    Attributes:
        requests: the bodies that came, in order.
        deleted: what was to be deleted, by its path.
        stored: the input and output items of each response, and the response before it, by id.
        cut: draws the pieces in which texts come.
        breaks_off: whether replies in pieces end before their last events.
    """

    def __init__(self, answer: Answer = lambda body: [text("Fine.")]) -> None:
        self.answer = answer
        self.requests: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self.stored: dict[str, tuple[list[Any], str | None]] = {}
        self.cut = random.Random(1)
        self.breaks_off = False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append(body)
                parts = list(outer.answer(body))
                if self.path.endswith("/responses"):
                    before = body.get("previous_response_id")
                    if before is not None and before not in outer.stored:
                        self._send("application/json", b'{"error": {"message": "no such response"}}', 400)
                        return
                    whole = _response(f"resp_{len(outer.requests)}", body, parts)
                    told = body["input"]
                    items = told if isinstance(told, list) else [{"role": "user", "content": told}]
                    outer.stored[whole["id"]] = ([*items, *whole["output"]], before)
                    events = _response_events(whole, outer.cut)
                else:
                    whole = _message(f"msg_{len(outer.requests)}", body, parts)
                    events = _message_events(whole, outer.cut)
                if not body.get("stream"):
                    self._send("application/json", json.dumps(whole).encode())
                    return
                told_events = list(events)[: -2 if outer.breaks_off else None]
                lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in told_events]
                self._send("text/event-stream", "".join(lines).encode())

            def do_GET(self) -> None:
                self._send("application/json", b'{"object": "list", "data": [], "has_more": false}')

            def do_DELETE(self) -> None:
                outer.deleted.append(self.path)
                self._send("application/json", b'{"id": "conv_1", "object": "conversation", "created_at": 1}')

            def _send(self, kind: str, data: bytes, status: int = 200) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.root = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.url = f"{self.root}/v1"

    def history(self, response_id: str | None) -> str:
        """All that the server has before and in a response, as JSON."""
        items: list[Any] = []
        while response_id is not None:
            some, response_id = self.stored[response_id]
            items = [*some, *items]
        return json.dumps(items)

    def __enter__(self) -> PartsServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


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
