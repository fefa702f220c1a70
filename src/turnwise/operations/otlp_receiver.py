"""A receiver of OTLP over HTTP: spans are on disk before they are acknowledged, then conversations in a store.

What is sent again is known and kept once. A conversation is put together when nothing came for a while; one
to which something comes later is stored anew, whole, under its id and a number. `scan_received` in
`spool` scores them as they come instead.
"""

from __future__ import annotations

import gzip
import hmac
import json
import logging
import os
import signal
import socket
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, nullcontext
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from turnwise._support.bounded import read_json
from turnwise.datasets import BadRecord
from turnwise.datasets.records import ParsedRecord
from turnwise.datasets.traces.otel import OTEL, read_requests
from turnwise.datasets.traces.steps import TraceStep
from turnwise.errors import TurnwiseError, UsageError
from turnwise.operations.spool import Spool, TakenSteps

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp


OTLP_KEY: Final = "TURNWISE_OTLP_KEY"
"""The environment variable with the key that senders need, as ``Authorization: Bearer`` or ``X-API-Key``."""

MOST_BYTES: Final = 64 << 20
"""Bytes of a request, unpacked."""

_LOG = logging.getLogger("turnwise.operations")


def steps_of(body: bytes, kind: str) -> Iterator[TraceStep | BadRecord]:
    """The steps of a request, in JSON or protobuf by its content type; what can't be read comes as `BadRecord`."""
    if "json" in kind:
        records: Iterable[ParsedRecord | BadRecord] = [ParsedRecord(1, read_json(body))]
    else:
        records = read_requests(BytesIO(body))
    for _, step in OTEL().steps(records, "otlp"):
        yield step


def otlp_app(spool: Spool, key: str = "") -> ASGIApp:
    """The application that takes ``POST /v1/traces`` and ``/v1/logs``, acknowledged once they are on disk."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import Response
    from starlette.routing import Route

    async def take(request: Request) -> Response:
        if key and not _knows(request.headers, key):
            return Response("a key is needed: Authorization: Bearer, or X-API-Key", 401)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                return Response(f"a request has at most {MOST_BYTES >> 20} MiB", 413)
        kind = request.headers.get("content-type", "application/x-protobuf")
        try:
            taken = await run_in_threadpool(_taken, spool, body, kind, request.headers.get("content-encoding", ""))
        except _UnreadableRequestError as error:
            return Response(str(error), 400)
        except TurnwiseError as error:
            _LOG.error("%s", error)
            return Response("it can't be kept now", 503, headers={"Retry-After": "5"})
        name = "rejectedSpans" if request.url.path.endswith("traces") else "rejectedLogRecords"
        return Response(_answer(taken, name, kind), 200, media_type=kind.partition(";")[0])

    async def alive(request: Request) -> Response:
        return Response("ok")

    routes = [Route(path, take, methods=["POST"]) for path in ("/v1/traces", "/v1/logs")]
    return Starlette(routes=[*routes, Route("/healthz", alive)])


class _UnreadableRequestError(TurnwiseError):
    """A request that can't be read."""


def _taken(spool: Spool, body: bytes, kind: str, packed: str) -> TakenSteps:
    if packed == "gzip":
        try:
            with gzip.open(BytesIO(body)) as file:
                body = file.read(MOST_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise _UnreadableRequestError(f"the request can't be unpacked: {error}") from None
        if len(body) > MOST_BYTES:
            raise _UnreadableRequestError(f"the request unpacks to more than {MOST_BYTES >> 20} MiB")
    elif packed not in ("", "identity"):
        raise _UnreadableRequestError(f"the encoding {packed!r} is not known; use gzip")
    try:
        steps = list(steps_of(body, kind))
    except ValueError:
        raise _UnreadableRequestError("the request is not JSON") from None
    bad = [one for one in steps if isinstance(one, BadRecord)]
    if bad and len(bad) == len(steps):
        raise _UnreadableRequestError(bad[0].reason)
    return spool.take(steps)


def _answer(taken: TakenSteps, name: str, kind: str) -> bytes:
    """What the protocol answers: empty, or how many were refused."""
    told = {name: len(taken.refused), "errorMessage": taken.refused[0]} if taken.refused else {}
    if "json" in kind:
        return json.dumps({"partialSuccess": {**told, name: str(len(taken.refused))}} if told else {}).encode()
    if not told:
        return b""
    from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]  # it has no types
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    message: Any = ExportTraceServiceResponse() if name == "rejectedSpans" else ExportLogsServiceResponse()
    return bytes(ParseDict({"partialSuccess": told}, message).SerializeToString())


def _knows(headers: Mapping[str, str], key: str) -> bool:
    given = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
    return hmac.compare_digest(given.encode("utf-8", "replace"), key.encode())


def receive(
    spool_path: str | Path,
    host: str,
    port: int,
    work: Callable[[Spool, threading.Event], None],
    told: Callable[[str], None] | None = None,
) -> None:
    """Receive until a signal ends it, while a thread takes conversations on as they finish.

    Args:
        spool_path: the SQLite file between.
        host: address to listen on; other than this machine's own it needs a key in ``TURNWISE_OTLP_KEY``.
        port: port; 0 for a free one.
        work: what takes them on, until the event is set; an error of it ends the receiver, and is raised.
        told: hears the address once it listens.

    Raises:
        UsageError: the address can't be listened on, the spool can't be written, or a key is missing.
    """
    import opentelemetry.proto.collector.trace.v1.trace_service_pb2  # noqa: F401 - to say at once that it is missing
    import uvicorn

    key = os.environ.get(OTLP_KEY, "")
    if not key and host not in ("127.0.0.1", "::1", "localhost"):
        raise UsageError(f"{host} is reached from other machines: set a key in {OTLP_KEY}, or listen on 127.0.0.1")
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise UsageError(f"{host}:{port} can't be listened on: {error.strerror}") from error
    stop = threading.Event()
    with closing(Spool(spool_path)) as spool, listening:
        if told is not None:
            told(f"http://{host}:{listening.getsockname()[1]}")
        config = uvicorn.Config(otlp_app(spool, key), log_level="warning", access_log=False)
        server = uvicorn.Server(config)
        server.capture_signals = nullcontext  # type: ignore[assignment]  # it would raise them again at its end
        failed: list[BaseException] = []

        def run() -> None:
            try:
                work(spool, stop)
            except BaseException as error:  # noqa: BLE001 - the thread that waits raises it
                failed.append(error)
            server.should_exit = True

        worker = threading.Thread(target=run, daemon=True)
        worker.start()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: setattr(server, "should_exit", True))
        try:
            server.run(sockets=[listening])
        finally:
            stop.set()
            worker.join(60)
        if failed:
            raise failed[0]
