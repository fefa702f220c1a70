"""A receiver of OTLP over HTTP: spans are on disk before they are acknowledged, then conversations in a store.

What is sent again is known and kept once. A conversation is put together when nothing came for a while; one
to which something comes later is stored anew, whole, under its id and a number.
"""

from __future__ import annotations

import gzip
import hmac
import json
import logging
import os
import signal
import socket
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import replace
from hashlib import blake2b
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from turnwise._support.bounded import read_json
from turnwise.conversation import Sequence
from turnwise.datasets import BadRecord, LoadOptions
from turnwise.datasets.records import ParsedRecord
from turnwise.datasets.traces.loader import step_values
from turnwise.datasets.traces.otel import OTel
from turnwise.datasets.traces.otlp import read_requests
from turnwise.datasets.traces.step import Step
from turnwise.errors import TurnwiseError, UsageError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp

    from turnwise.store import Store

KEY: Final = "TURNWISE_OTLP_KEY"
"""The environment variable with the key that senders need, as ``Authorization: Bearer`` or ``X-API-Key``."""

MOST_BYTES: Final = 64 << 20
"""Bytes of a request, unpacked."""

_AT_ONCE: Final = 200
"""Conversations that are stored in one transaction."""

_LOG = logging.getLogger("turnwise.operations")

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS steps (place INTEGER PRIMARY KEY, chat TEXT, trace TEXT, digest BLOB UNIQUE, body TEXT);
CREATE INDEX IF NOT EXISTS steps_by_chat ON steps (chat);
CREATE INDEX IF NOT EXISTS steps_by_trace ON steps (trace);
CREATE TABLE IF NOT EXISTS traces (trace TEXT PRIMARY KEY, chat TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS chats (chat TEXT PRIMARY KEY, last REAL, fresh INTEGER) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS chats_by_time ON chats (fresh, last);
"""


class Taken(NamedTuple):
    """What a request held: steps that are kept now, steps that were known, and why others were refused."""

    kept: int
    known: int
    refused: tuple[str, ...]


class Spool:
    """Steps of traces on disk, until their conversations are stored, and for `keep` seconds after.

    Threads may use it at the same time; one process.

    Args:
        path: an SQLite file; made where there is none.
        keep: seconds for which steps of stored conversations are kept, to know what is sent again or comes late.

    Raises:
        UsageError: the file is none, or can't be written to.
    """

    def __init__(self, path: str | Path, keep: float = 86_400.0) -> None:
        self._keep = keep
        self._lock = threading.Lock()
        self._path = path
        try:
            self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = FULL")
            self._file.executescript(_TABLES)
        except sqlite3.Error as error:
            raise UsageError(f"{path} can't keep what is received: {error}") from error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()

    def take(self, steps: Iterable[Step | BadRecord]) -> Taken:
        """Keep steps; when this returns they are on disk.

        Raises:
            UsageError: they can't be written.
        """
        refused, kept, known, now = [], 0, 0, time.time()
        rows: list[tuple[Step, str, bytes]] = []
        for step in steps:
            if isinstance(step, BadRecord):
                refused.append(step.reason)
            else:
                body = json.dumps(step_values(step))
                rows.append((step, body, blake2b(body.encode(), digest_size=16).digest()))
        with self._lock:
            try:
                self._file.execute("BEGIN IMMEDIATE")
                for step, body, digest in rows:
                    chat = self._chat_of(step)
                    done = self._file.execute(
                        "INSERT OR IGNORE INTO steps (chat, trace, digest, body) VALUES (?, ?, ?, ?)",
                        (chat, step.trace, digest, body),
                    )
                    if done.rowcount:
                        kept += 1
                        self._file.execute(
                            "INSERT OR REPLACE INTO chats VALUES (?, ?, 1)",
                            (chat, now),
                        )
                    else:
                        known += 1
                self._file.execute("COMMIT")
            except sqlite3.Error as error:
                self._undo()
                raise UsageError(f"{self._path} can't keep what is received: {error}") from error
        return Taken(kept, known, tuple(refused))

    def _undo(self) -> None:
        if self._file.in_transaction:
            self._file.execute("ROLLBACK")

    def _chat_of(self, step: Step) -> str:
        """The conversation of a step; those of its trace that came before it was known move there."""
        row = self._file.execute("SELECT chat FROM traces WHERE trace = ?", (step.trace,)).fetchone()
        if row is not None:
            return str(row[0])
        if not step.conversation:
            return step.trace
        self._file.execute("INSERT INTO traces VALUES (?, ?)", (step.trace, step.conversation))
        if step.conversation != step.trace:
            moved = self._file.execute(
                "UPDATE steps SET chat = ? WHERE trace = ? AND chat = ?",
                (step.conversation, step.trace, step.trace),
            )
            if moved.rowcount:
                self._file.execute("DELETE FROM chats WHERE chat = ?", (step.trace,))
        return step.conversation

    def finished(self, quiet: float, most: int = _AT_ONCE) -> list[str]:
        """Conversations that have something that is not stored, and to which nothing came for so many seconds."""
        query = "SELECT chat FROM chats WHERE fresh = 1 AND last <= ? ORDER BY last LIMIT ?"
        with self._lock:
            return [chat for (chat,) in self._file.execute(query, (time.time() - quiet, most))]

    def conversation(self, chat: str) -> Iterator[Sequence | BadRecord]:
        """Put a conversation together: its sequence, and those of agents that the main one called."""
        with self._lock:
            bodies = self._file.execute(
                "SELECT place, body FROM steps WHERE chat = ? ORDER BY place", (chat,)
            ).fetchall()
        steps = ((place, Step(*json.loads(body))) for place, body in bodies)
        return OTel().grouped(steps, "otlp", LoadOptions())

    def stored(self, chats: Iterable[tuple[str, float]]) -> None:
        """Note that conversations are stored, unless something came since a time; drop what is old."""
        with self._lock:
            self._file.execute("BEGIN IMMEDIATE")
            self._file.executemany("UPDATE chats SET fresh = 0 WHERE chat = ? AND last <= ?", chats)
            old = "SELECT chat FROM chats WHERE fresh = 0 AND last <= ?"
            before = (time.time() - self._keep,)
            for table in ("steps", "traces", "chats"):
                self._file.execute(f"DELETE FROM {table} WHERE chat IN ({old})", before)
            self._file.execute("COMMIT")

    def waiting(self) -> int:
        """How many conversations have something that is not stored."""
        with self._lock:
            return int(self._file.execute("SELECT count(*) FROM chats WHERE fresh = 1").fetchone()[0])


def steps_of(body: bytes, kind: str) -> Iterator[Step | BadRecord]:
    """The steps of a request, in JSON or protobuf by its content type; what can't be read comes as `BadRecord`."""
    if "json" in kind:
        records: Iterable[ParsedRecord | BadRecord] = [ParsedRecord(1, read_json(body))]
    else:
        records = read_requests(BytesIO(body))
    for _, step in OTel().steps(records, "otlp"):
        yield step


def store_finished(spool: Spool, store: Store, quiet: float) -> int:
    """Store conversations to which nothing came for `quiet` seconds; returns how many sequences are new.

    A crash between the store and the spool does no harm: a conversation that is there word for word is left alone.
    """
    new = 0
    while chats := spool.finished(quiet):
        begun = time.time() - quiet
        made: list[Sequence] = []
        for one in chain.from_iterable(map(spool.conversation, chats)):
            if isinstance(one, BadRecord):
                _LOG.warning("a conversation can't be stored: %s", one.reason)
            else:
                made.append(one)
        try:
            new += sum(one.new for one in store.add_sequences(made))
        except UsageError:  # some were stored before something came late
            new += sum(_add(store, one) for one in made)
        spool.stored((chat, begun) for chat in chats)
    return new


def _add(store: Store, sequence: Sequence) -> bool:
    """Store a sequence; one whose id is taken by an earlier state of it gets a number."""
    name = sequence.sequence_id
    for number in range(1, 1_000):
        about = {**sequence.metadata, "group": name, "replaces": name} if number > 1 else sequence.metadata
        own = replace(sequence, sequence_id=name if number == 1 else f"{name}/{number}", metadata=about)
        try:
            return store.add_sequences([own])[0].new
        except UsageError:
            continue
    _LOG.warning("%s was stored in 1,000 states; what came last is left out", name)
    return False


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
        except _RefusedError as error:
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


class _RefusedError(TurnwiseError):
    """A request that can't be read."""


def _taken(spool: Spool, body: bytes, kind: str, packed: str) -> Taken:
    if packed == "gzip":
        try:
            with gzip.open(BytesIO(body)) as file:
                body = file.read(MOST_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise _RefusedError(f"the request can't be unpacked: {error}") from None
        if len(body) > MOST_BYTES:
            raise _RefusedError(f"the request unpacks to more than {MOST_BYTES >> 20} MiB")
    elif packed not in ("", "identity"):
        raise _RefusedError(f"the encoding {packed!r} is not known; use gzip")
    try:
        steps = list(steps_of(body, kind))
    except ValueError:
        raise _RefusedError("the request is not JSON") from None
    bad = [one for one in steps if isinstance(one, BadRecord)]
    if bad and len(bad) == len(steps):
        raise _RefusedError(bad[0].reason)
    return spool.take(steps)


def _answer(taken: Taken, name: str, kind: str) -> bytes:
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


def receive(store: Store, spool_path: str | Path, host: str, port: int, quiet: float, told: Any = None) -> None:
    """Receive until a signal ends it, and store conversations as they finish.

    Args:
        store: where they go.
        spool_path: the SQLite file between.
        host: address to listen on; other than this machine's own it needs a key in ``TURNWISE_OTLP_KEY``.
        port: port; 0 for a free one.
        quiet: seconds without anything new after which a conversation is stored.
        told: hears the address once it listens.

    Raises:
        UsageError: the address can't be listened on, the spool can't be written, or a key is missing.
    """
    import opentelemetry.proto.collector.trace.v1.trace_service_pb2  # noqa: F401 - to say at once that it is missing
    import uvicorn

    key = os.environ.get(KEY, "")
    if not key and host not in ("127.0.0.1", "::1", "localhost"):
        raise UsageError(f"{host} is reached from other machines: set a key in {KEY}, or listen on 127.0.0.1")
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise UsageError(f"{host}:{port} can't be listened on: {error.strerror}") from error
    stop = threading.Event()
    with closing(Spool(spool_path)) as spool, listening:
        if told is not None:
            told(f"http://{host}:{listening.getsockname()[1]}")
        worker = threading.Thread(target=_keep_storing, args=(spool, store, quiet, stop), daemon=True)
        worker.start()
        config = uvicorn.Config(otlp_app(spool, key), log_level="warning", access_log=False)
        server = uvicorn.Server(config)
        server.capture_signals = nullcontext  # type: ignore[assignment]  # it would raise them again at its end
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: setattr(server, "should_exit", True))
        try:
            server.run(sockets=[listening])
        finally:
            stop.set()
            worker.join(60)


def _keep_storing(spool: Spool, store: Store, quiet: float, stop: threading.Event) -> None:
    while not stop.wait(1.0):
        try:
            store_finished(spool, store, quiet)
        except (TurnwiseError, sqlite3.Error) as error:
            _LOG.warning("conversations can't be stored now: %s", error)
