"""Scores back to where traces are looked at (Langfuse, LangSmith, Phoenix, OpenTelemetry), by file or over HTTP.

Every score has an id that rests on run, conversation, turn and name alone, so that sending it again changes it in
place. OpenTelemetry has no such thing: there, as everywhere, what was sent is kept in a ledger and not sent again.
"""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from turnwise._support.batches import batched
from turnwise._version import __version__
from turnwise.errors import UnknownNameError, UsageError
from turnwise.operations.delivery import DeliveryError, is_address, post
from turnwise.runs import flagged

if TYPE_CHECKING:
    from turnwise.store import Store

PROVENANCE: Final = "provenance"
"""Key of a turn's metadata with the traces and spans that it came from, as importers of traces leave it."""

_TRIES: Final = 4
_SECONDS: Final = 30.0
_CONFLICT: Final = 409


@dataclass(frozen=True, slots=True)
class TraceScore:
    """A score of a turn, or the verdict of a detector at it, with the span that it belongs to.

    Args:
        score_id: 32 hexadecimal digits, the same whenever it is made again.
        trace: id of the trace.
        span: id of the last span of the turn; empty where only the trace is known.
        name: ``turnwise.`` with the principle, or with ``flagged``.
        value: F of the turn, in [0, 1]; for a verdict 1.
        label: ``flagged`` for a verdict, else empty.
        explanation: what the observer said, and T and I; for a verdict detector and turn.
        time: when it was scored.
    """

    score_id: str
    trace: str
    span: str
    name: str
    value: float
    label: str
    explanation: str
    time: datetime


def trace_scores(store: Store, run: str) -> Iterator[TraceScore]:
    """Yield the scores of a run whose conversations came from traces, and what its detectors flag.

    A principle that was scored on both sides of a turn has the higher F.

    Raises:
        UnknownNameError: the store has no such run.
    """
    found = flagged(store, run)
    flags = {flag.sequence_id: (place, flag) for place, flag in found.first().values()}
    for head, trajectory in store.trajectories(run):
        spans: dict[int, tuple[str, str]] = {}
        for turn in store.turns(head.sequence_id, range(1, head.turns + 1)):
            known = turn.own_metadata.get(PROVENANCE)
            traces, of = map(known.get, ("traces", "spans")) if isinstance(known, Mapping) else ((), ())
            if isinstance(traces, list) and traces:
                spans[turn.number] = str(traces[-1]), str(of[-1]) if isinstance(of, list) and of else ""
        highest: dict[tuple[int, str], Any] = {}
        for one in trajectory.evaluations if spans else ():
            key = one.key.turn, one.key.principle
            if key[0] in spans and (key not in highest or one.score.F > highest[key].score.F):
                highest[key] = one
        for (number, principle), one in highest.items():
            told = f"T {one.score.T:.3f}, I {one.score.I:.3f}, F {one.score.F:.3f}, {one.key.side}"
            told += f". {one.reasoning}" if one.reasoning else ""
            about = _about(run, head.sequence_id, number, spans[number], principle)
            yield TraceScore(*about, one.score.F, "", told, one.created_at)
        if head.sequence_id in flags and (flag := flags[head.sequence_id][1]).turn in spans:
            spec = found.detectors[flags[head.sequence_id][0]].spec
            told = f"{spec} at turn {flag.turn}: score {flag.score:.3f}, {flag.principle} F {flag.F:.3f}"
            about = _about(run, head.sequence_id, flag.turn, spans[flag.turn], "flagged")
            yield TraceScore(*about, 1.0, "flagged", told, flag.when)


def _about(run: str, sequence_id: str, turn: int, span: tuple[str, str], name: str) -> tuple[str, str, str, str]:
    """The first fields of a `TraceScore`."""
    identity = sha256(json.dumps([run, sequence_id, turn, name]).encode()).hexdigest()[:32]
    return identity, *span, f"turnwise.{name}"


def _langfuse(one: TraceScore) -> dict[str, Any]:
    span = {"observationId": one.span} if one.span else {}
    return {"id": one.score_id, "traceId": one.trace, **span, "name": one.name, "value": one.value,
            "dataType": "NUMERIC", "comment": one.explanation}  # fmt: skip


def _phoenix(one: TraceScore) -> dict[str, Any]:
    result = {"score": one.value, "explanation": one.explanation, **({"label": one.label} if one.label else {})}
    return {"span_id": one.span, "name": one.name, "annotator_kind": "CODE", "result": result,
            "identifier": one.score_id, "metadata": {"turnwise": __version__}}  # fmt: skip


def _langsmith(one: TraceScore) -> dict[str, Any]:
    return {"id": str(UUID(one.score_id)), "run_id": one.span or one.trace, "key": one.name, "score": one.value,
            "comment": one.explanation, "created_at": one.time.isoformat(),
            "feedback_source": {"type": "api", "metadata": {"turnwise": __version__}}}  # fmt: skip


def _otel(one: TraceScore) -> dict[str, Any]:
    values: dict[str, Any] = {"event.name": "gen_ai.evaluation.result", "gen_ai.evaluation.name": one.name}
    values |= {"gen_ai.evaluation.explanation": one.explanation, "turnwise.score.id": one.score_id}
    values |= {"gen_ai.evaluation.score.label": one.label} if one.label else {}
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]
    attributes.append({"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": one.value}})
    nanoseconds = str((one.time - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds().__trunc__() * 1_000_000_000)
    ids = {"traceId": one.trace, **({"spanId": one.span} if one.span else {})}
    return {"timeUnixNano": nanoseconds, "eventName": "gen_ai.evaluation.result", "severityNumber": 9,
            "attributes": attributes, **ids}  # fmt: skip


def _otlp(items: Iterable[Any]) -> Any:
    scope = {"scope": {"name": "turnwise", "version": __version__}, "logRecords": list(items)}
    service = [{"key": "service.name", "value": {"stringValue": "turnwise"}}]
    return {"resourceLogs": [{"resource": {"attributes": service}, "scopeLogs": [scope]}]}


@dataclass(frozen=True, slots=True)
class Target:
    """A tool that scores go back to: the path behind its address, and how a score and a request look to it."""

    path: str
    item: Callable[[TraceScore], dict[str, Any]]
    body: Callable[[Iterable[Any]], Any]
    most: int  # scores of a request
    headers: Callable[[], dict[str, str]]  # keys, from the environment
    spans: bool = False  # whether it takes scores of spans alone


def _one(items: Iterable[Any]) -> Any:
    return next(iter(items))


def _basic() -> dict[str, str]:
    public, private = (os.environ.get(f"LANGFUSE_{kind}_KEY", "") for kind in ("PUBLIC", "SECRET"))
    return {"Authorization": "Basic " + base64.b64encode(f"{public}:{private}".encode()).decode()}


def _bearer() -> dict[str, str]:
    key = os.environ.get("PHOENIX_API_KEY", "")
    return {"Authorization": f"Bearer {key}"} if key else {}


def _otlp_headers() -> dict[str, str]:
    given = os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "")
    pairs = (part.partition("=") for part in given.split(",") if "=" in part)
    return {name.strip(): value.strip() for name, _, value in pairs}


TARGETS: Final[Mapping[str, Target]] = {
    "langfuse": Target("/api/public/scores", _langfuse, _one, 1, _basic),
    "langsmith": Target(
        "/feedback", _langsmith, _one, 1, lambda: {"x-api-key": os.environ.get("LANGSMITH_API_KEY", "")}
    ),
    "phoenix": Target("/v1/span_annotations", _phoenix, lambda items: {"data": list(items)}, 500, _bearer, True),
    "otel": Target("/v1/logs", _otel, _otlp, 500, _otlp_headers),
}
"""What can be sent to, by name. Sources: https://api.reference.langfuse.com, https://api.smith.langchain.com/redoc,
https://arize.com/docs/phoenix/api, and the conventions https://github.com/open-telemetry/semantic-conventions-genai."""


@dataclass(frozen=True, slots=True)
class Published:
    """How many scores were sent or written, and how many had been sent before."""

    sent: int
    before: int


def _target(name: str) -> Target:
    if name not in TARGETS:
        raise UnknownNameError("target of scores", name, TARGETS)
    return TARGETS[name]


def write_scores(scores: Iterable[TraceScore], target: str, path: str | Path) -> int:
    """Write scores as a target takes them, one a line (``otel``: a request of logs a line); returns how many.

    Raises:
        UnknownNameError: no such target.
        UsageError: the file can't be written.
    """
    kind, count = _target(target), 0
    try:
        with Path(path).open("w", encoding="utf-8") as file:
            for some in batched((one for one in scores if one.span or not kind.spans), kind.most):
                items = [kind.item(one) for one in some]
                count += len(items)
                lines = [kind.body(items)] if target == "otel" else items
                file.writelines(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines)
    except OSError as error:
        raise UsageError(f"scores can't be written to {path}: {error.strerror}") from error
    return count


def send_scores(scores: Iterable[TraceScore], target: str, url: str, ledger: str | Path) -> Published:
    """Send scores to a target over HTTP; what the ledger has with the same value is not sent again.

    Args:
        scores: the scores.
        target: one of `TARGETS`.
        url: its address, such as ``https://cloud.langfuse.com``. Keys come from the environment:
            LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY, LANGSMITH_API_KEY, PHOENIX_API_KEY, or
            OTEL_EXPORTER_OTLP_HEADERS.
        ledger: SQLite file that keeps what was sent; made where there is none.

    Raises:
        UnknownNameError: no such target.
        UsageError: the address or the ledger is none.
        DeliveryError: the target refuses a score, or does not answer; the same call goes on there.
    """
    kind = _target(target)
    if not is_address(url):
        raise UsageError(f"{url!r} must be an address such as https://cloud.langfuse.com")
    address = url.rstrip("/") + ("" if url.rstrip("/").endswith(kind.path) else kind.path)
    sent = before = 0
    try:
        with closing(sqlite3.connect(ledger, isolation_level=None)) as known:
            known.execute(
                "CREATE TABLE IF NOT EXISTS sent (address TEXT, id TEXT, said TEXT, PRIMARY KEY (address, id)) "
                "WITHOUT ROWID"
            )

            def fresh() -> Iterator[tuple[TraceScore, str]]:
                nonlocal before
                for one in scores:
                    said = sha256(json.dumps(kind.item(one), default=str).encode()).hexdigest()
                    query = "SELECT said FROM sent WHERE address = ? AND id = ?"
                    row = known.execute(query, (address, one.score_id)).fetchone()
                    if row is not None and row[0] == said:
                        before += 1
                    elif one.span or not kind.spans:
                        yield one, said

            for some in batched(fresh(), kind.most):
                body = json.dumps(kind.body([kind.item(one) for one, _ in some]), allow_nan=False).encode()
                _post(target, address, body, kind.headers())
                rows = [(address, one.score_id, said) for one, said in some]
                known.executemany("INSERT OR REPLACE INTO sent VALUES (?, ?, ?)", rows)
                sent += len(some)
    except sqlite3.Error as error:
        raise UsageError(f"{ledger} can't keep what was sent: {error}") from error
    return Published(sent, before)


def _post(target: str, address: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Post, again where the target is busy; DeliveryError where it refuses."""
    for number in range(_TRIES):
        status, answer = 0, b""
        try:
            status, answer = post(target, address, body, headers, _SECONDS)
        except DeliveryError:
            if number == _TRIES - 1:
                raise
        if 200 <= status < 300 or (target == "langsmith" and status == _CONFLICT):
            return
        if status and status != 429 and status < 500:
            break
        if number < _TRIES - 1:
            time.sleep(2.0**number)
    said = " ".join(answer.decode("utf-8", "replace").split())[:200]
    raise DeliveryError(f"{target} answers with status {status}: {said}; the same command goes on there")
