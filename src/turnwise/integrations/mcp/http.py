"""An MCP server over streamable HTTP, under guard: for a client on our standard streams, or as a local address."""

from __future__ import annotations

import base64
import json
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from threading import Thread
from typing import Any, Final

import httpx
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from turnwise._support.bounded import read_json
from turnwise.errors import GuardError
from turnwise.integrations.mcp.messages import MAX_MESSAGE, McpScreen
from turnwise.integrations.mcp.stdio import StdioClient

_JSON, _STREAM = "application/json", "text/event-stream"
_TIMEOUT = httpx.Timeout(30.0, read=None)
_TRIES = 5
"""Connections after which a stream that breaks off again and again is given up."""

_PATIENCE = 5.0
"""Seconds that requests have to end once the client has gone."""

_UNDER_WAY = 64
"""Requests that are under way at once."""

_SESSIONS = 1_000
_LOCAL: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_KEPT: Final = ("accept", "authorization", "content-type", "last-event-id", "user-agent", "cookie")
_NAMES: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_VERSION: Final = "io.modelcontextprotocol/protocolVersion"


class ServerSentEvents:
    """The events of a stream (WHATWG HTML, 9.2.6); they are written anew, so that a client reads the same."""

    def __init__(self) -> None:
        self.last_id = ""
        self.retry = 1.0
        self._held = b""
        self._line: list[bytes] = []
        self._block: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield the fields beside the data of each event that a chunk completes, and its data."""
        chunk = self._held + chunk
        self._held = b"\r" if chunk.endswith(b"\r") else b""  # the other half of its line end may follow
        chunk = chunk.removesuffix(self._held).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self._size += len(chunk)
        if self._size > MAX_MESSAGE:
            raise GuardError(f"an event of the MCP server is too large: at most {MAX_MESSAGE >> 20} MiB are read")
        *whole, rest = chunk.split(b"\n")
        for end in whole:
            line = b"".join([*self._line, end])
            self._line = []
            if line:
                self._block.append(line)
            elif self._block:
                yield self._event(self._block)
                self._block, self._size = [], len(rest)
        if rest:
            self._line.append(rest)

    def _event(self, lines: list[bytes]) -> tuple[bytes, bytes | None]:
        data, head = [], []
        for line in lines:
            name, _, value = line.removeprefix(b"\xef\xbb\xbf").partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                data.append(value)
            elif name in (b"id", b"event", b"retry"):
                head.append(name + b": " + value + b"\n")
                if name == b"id":
                    self.last_id = value.decode("latin-1")
                elif name == b"retry" and value.isdigit() and len(value) < 6:
                    self.retry = int(value) / 1_000
        return b"".join(head), b"\n".join(data) if any(data) else None


def _written(head: bytes, data: bytes | None) -> bytes:
    lines = [b"data: " + line + b"\n" for line in (data or b"").split(b"\n")]
    return head + b"".join(lines) + b"\n"


def _whole(chunks: Iterable[bytes]) -> bytes:
    parts, size = [], 0
    for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > MAX_MESSAGE:
            raise GuardError(f"an answer of the MCP server is too large: at most {MAX_MESSAGE >> 20} MiB are read")
    return b"".join(parts)


def serve_url(url: str, headers: Mapping[str, str], screen: McpScreen) -> None:
    """Stand between a server at a URL and our standard streams until the client goes."""
    under_way: deque[Thread] = deque()
    with httpx.Client(timeout=_TIMEOUT, limits=httpx.Limits(max_connections=None)) as http:
        remote = _Remote(url, headers, screen, http)
        for raw in remote.client.messages():
            message = _object(raw)
            if message and not ("method" in message and "id" in message):
                remote.send(raw, message)  # in order: a request may rely on a notification before it
                continue
            while under_way and (len(under_way) >= _UNDER_WAY or not under_way[0].is_alive()):
                under_way.popleft().join()
            under_way.append(Thread(target=remote.send, args=(raw, message), daemon=True))
            under_way[-1].start()
        until = time.monotonic() + _PATIENCE
        for thread in under_way:
            thread.join(max(0.0, until - time.monotonic()))
        remote.end()


class _Remote:
    def __init__(self, url: str, headers: Mapping[str, str], screen: McpScreen, http: httpx.Client) -> None:
        self.client = StdioClient(screen)
        self._url = url
        self._http = http
        self._headers = {"accept-encoding": "identity", **headers}
        self._session: dict[str, str] = {}
        self._listens = False

    def send(self, raw: bytes, one: Mapping[str, Any]) -> None:
        accepted = {"content-type": _JSON, "accept": f"{_JSON}, {_STREAM}"}
        headers = {**self._headers, **self._session, **accepted, **_routing(one)}
        waiting = one.get("id") if "method" in one else None
        try:
            with self._http.stream("POST", self._url, content=raw, headers=headers) as response:
                if session := response.headers.get("mcp-session-id"):
                    self._session["mcp-session-id"] = session
                kind = response.headers.get("content-type", "")
                if kind.startswith(_STREAM) and response.status_code < 400:
                    events = ServerSentEvents()
                    if not self._follow(response, waiting, events):
                        self._resume(waiting, events)
                elif (body := _whole(response.iter_bytes())) and kind.startswith(_JSON) and b'"jsonrpc"' in body:
                    self._take(body.replace(b"\n", b" "))
                elif response.status_code >= 300 or body:
                    self._fail(waiting, f"the MCP server answered with status {response.status_code}")
        except (httpx.HTTPError, GuardError) as error:
            self._fail(waiting, f"the MCP server can't be reached: {error or type(error).__name__}")
        if one.get("method") == "notifications/initialized" and not self._listens:
            self._listens = True
            Thread(target=self._resume, args=(None, ServerSentEvents()), daemon=True).start()

    def _take(self, raw: bytes) -> None:
        passed = self.client.screen.to_client(raw)
        if passed.forward is not None:
            self.client.write(passed.forward)
            result = _object(passed.forward).get("result")
            if isinstance(result, dict) and isinstance(version := result.get("protocolVersion"), str):
                self._session["mcp-protocol-version"] = version

    def _follow(self, response: httpx.Response, waiting: Any, events: ServerSentEvents) -> bool:
        """Pass on a stream to its end; whether it had the answer that is waited for."""
        found = waiting is None
        for chunk in response.iter_bytes():
            for _, data in events.feed(chunk):
                if data is not None:
                    found = found or _answers(data, waiting)
                    self._take(data.replace(b"\n", b" "))
        return found

    def _resume(self, waiting: Any, events: ServerSentEvents) -> None:
        """Go on with a stream that broke off before its answer; without one, hear what the server says."""
        for _ in range(_TRIES):
            if waiting is not None and not events.last_id:
                break
            headers = {**self._headers, **self._session, "accept": _STREAM}
            if events.last_id:
                headers["last-event-id"] = events.last_id
            try:
                with self._http.stream("GET", self._url, headers=headers) as response:
                    if response.status_code != 200:
                        break
                    if self._follow(response, waiting, events) and waiting is not None:
                        return
            except (httpx.HTTPError, GuardError, RuntimeError) as error:
                if isinstance(error, RuntimeError):  # closed, since the client has gone
                    return
            time.sleep(min(events.retry, 5.0))
        self._fail(waiting, "the MCP server broke off before its answer")

    def _fail(self, waiting: Any, why: str) -> None:
        if waiting is not None:
            error = {"jsonrpc": "2.0", "id": waiting, "error": {"code": -32000, "message": why}}
            self.client.write(self.client.screen.to_client(json.dumps(error).encode()).forward)

    def end(self) -> None:
        if "mcp-session-id" in self._session:
            with suppress(httpx.HTTPError):
                self._http.delete(self._url, headers={**self._headers, **self._session}, timeout=2.0)


def _answers(data: bytes, waiting: Any) -> bool:
    message = _object(data)
    return "method" not in message and message.get("id") == waiting


def _object(raw: bytes) -> dict[str, Any]:
    """A message; empty for one that is no object, or can't be read."""
    try:
        message = read_json(raw)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _routing(message: Mapping[str, Any]) -> dict[str, str]:
    """Headers that repeat what a message says, for those who route it (since protocol 2026-07-28)."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(meta, dict) or not isinstance(meta.get(_VERSION), str):
        return {}
    headers = {"mcp-protocol-version": meta[_VERSION], "mcp-method": str(message.get("method"))}
    name = params.get(_NAMES.get(headers["mcp-method"], "")) if isinstance(params, dict) else None
    if isinstance(name, str):
        plain = name.isascii() and name.isprintable() and name == name.strip() and not name.startswith("=?")
        headers["mcp-name"] = name if plain else f"=?base64?{base64.b64encode(name.encode()).decode()}?="
    return headers


# A local address


class _OwnAnswerError(Exception):
    """A request that gets another answer than the server's."""

    def __init__(self, status: int, text: str | bytes, kind: str = "text/plain") -> None:
        super().__init__(status)
        self.response = Response(text, status, media_type=kind)


def local_app(url: str, headers: Mapping[str, str], screen: Callable[[], McpScreen]) -> Starlette:
    """An ASGI application that stands for the server at a URL; `screen` makes one for each session."""
    local = _Local(url, headers, screen)
    route = Route("/{path:path}", local.serve, methods=["GET", "POST", "DELETE"])
    return Starlette(routes=[route], lifespan=local.lifespan)


class _Local:
    def __init__(self, url: str, headers: Mapping[str, str], screen: Callable[[], McpScreen]) -> None:
        self._url = url
        self._headers = {"accept-encoding": "identity", **headers}
        self._new = screen
        self._sessions: OrderedDict[str, McpScreen] = OrderedDict({"": screen()})
        self._http = httpx.AsyncClient(timeout=_TIMEOUT, limits=httpx.Limits(max_connections=None))

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async with self._http:
            yield

    async def serve(self, request: Request) -> Response:
        """Pass a request on, and its answer back, where they are let through."""
        try:
            return await self._passed(request)
        except _OwnAnswerError as refused:
            return refused.response
        except (httpx.HTTPError, GuardError) as error:
            return Response(f"the MCP server can't be reached: {type(error).__name__}", 502)

    async def _passed(self, request: Request) -> Response:
        _check_local(request)
        sent = {name: value for name, value in request.headers.items() if name in _KEPT or name.startswith("mcp-")}
        session = sent.get("mcp-session-id", "")
        raw = await _body(request.stream(), 413)
        begins = not session and _object(raw).get("method") == "initialize"
        own = self._new() if begins else self._sessions.get(session) or self._sessions[""]
        one = own.for_request()
        content = await self._screened(one, raw, sent) if raw else None
        asked = self._http.build_request(
            request.method, self._url, content=content, headers={**self._headers, **sent}
        )
        answer = await self._http.send(asked, stream=True)
        if named := answer.headers.get("mcp-session-id"):
            self._sessions[named] = own
            self._sessions.move_to_end("")
            if len(self._sessions) > _SESSIONS:
                self._sessions.popitem(last=False)
        return await _answered(answer, one)

    async def _screened(self, screen: McpScreen, raw: bytes, sent: Mapping[str, str]) -> bytes:
        """What goes on of a message; what is held back is answered at once."""
        passed = await run_in_threadpool(screen.to_server, raw)
        if passed.answers or passed.forward is None:
            answers = passed.answers + screen.give_up("another call of the batch was withheld")
            whole = answers[0] if len(answers) == 1 else b"[" + b",".join(answers) + b"]"
            raise _OwnAnswerError(200, whole, _JSON) if answers else _OwnAnswerError(202, b"")
        if passed.forward != raw and any(name.startswith("mcp-param-") for name in sent):
            raise _OwnAnswerError(403, "arguments that were redacted stand in headers too")
        return passed.forward


def _check_local(request: Request) -> None:
    """Refuse what a page of somebody else asks, also by a name that it had point to this machine."""
    host, origin = request.headers.get("host", ""), request.headers.get("origin")
    named = [httpx.URL(f"http://{host}").host, *([] if origin is None else [httpx.URL(origin).host])]
    if not _LOCAL.issuperset(named):
        raise _OwnAnswerError(403, "only pages and programs of this machine may ask")


async def _body(chunks: AsyncIterator[bytes], status: int) -> bytes:
    parts, size = [], 0
    async for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > MAX_MESSAGE:
            raise _OwnAnswerError(status, "the message is too long")
    return b"".join(parts)


async def _answered(answer: httpx.Response, screen: McpScreen) -> Response:
    kept = {
        name: value
        for name, value in answer.headers.items()
        if name.startswith("mcp-") or name in ("allow", "cache-control", "set-cookie", "www-authenticate")
    }
    kind = answer.headers.get("content-type", "")
    if kind.startswith(_STREAM):
        return StreamingResponse(_checked_stream(answer, screen), answer.status_code, kept, media_type=_STREAM)
    try:
        body = await _body(answer.aiter_bytes(), 502)
    finally:
        await answer.aclose()
    if kind.startswith(_JSON) and body:
        body = (await run_in_threadpool(screen.to_client, body)).forward or b""
    elif body and answer.status_code < 400:
        raise _OwnAnswerError(502, "the MCP server answered with something else than JSON")
    return Response(body, answer.status_code, kept, media_type=kind or None)


async def _checked_stream(answer: httpx.Response, screen: McpScreen) -> AsyncIterator[bytes]:
    events = ServerSentEvents()
    try:
        async for chunk in answer.aiter_bytes():
            for head, data in events.feed(chunk):
                if data is None:
                    if head:
                        yield _written(head, None)
                    continue
                passed = await run_in_threadpool(screen.to_client, data)
                if passed.forward is not None:
                    yield _written(head, passed.forward)
    finally:
        await answer.aclose()
