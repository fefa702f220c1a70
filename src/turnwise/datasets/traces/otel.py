"""Spans and log records of OpenTelemetry: OTLP as JSON, or in protobuf as it is or framed by the collector."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib import import_module
from io import BytesIO
from typing import IO, Any, Final

from turnwise.datasets.files import DAMAGED, MAX_LINE, open_binary
from turnwise.datasets.layout import FileHead, Layout, read_head, read_records
from turnwise.datasets.protocol import BadRecord, LoadOptions, RecordError
from turnwise.datasets.records import ParsedRecord, broken_off, parse_json
from turnwise.datasets.traces.loader import TraceFormat, first_object
from turnwise.datasets.traces.messages import first_of, objects
from turnwise.datasets.traces.steps import TraceStep, event_step, name_of, span_step, time_of
from turnwise.errors import DatasetError

_RESOURCES = ("resourceSpans", "resourceLogs", "resource_spans", "resource_logs")
_PARTS = {
    "resourceSpans": ("scopeSpans", "spans"),
    "resource_spans": ("scope_spans", "spans"),
    "resourceLogs": ("scopeLogs", "logRecords"),
    "resource_logs": ("scope_logs", "log_records"),
}


def _is_otlp(head: FileHead) -> bool:
    if head.layout is Layout.PROTOBUF:
        return not head.records
    return any(isinstance(first_object(head).get(one), list) for one in _RESOURCES)


def _records_of(path: str, options: LoadOptions) -> Iterator[ParsedRecord | BadRecord]:
    head = read_head(path, options.encoding)
    if head.layout is not Layout.PROTOBUF:
        yield from read_records(head)
        return
    with open_binary(path) as stream:
        yield from read_requests(stream)


def _spans(record: ParsedRecord) -> Iterator[ParsedRecord | BadRecord]:
    value = record.value
    if isinstance(value, dict) and isinstance(value.get("data"), list):  # a page of Phoenix's REST interface
        yield from (ParsedRecord(record.number, ("spans", span)) for span in value["data"])
        return
    there = [key for key in _RESOURCES if isinstance(value, dict) and isinstance(value.get(key), list)]
    if not there:
        yield BadRecord(record.number, "no request of OTLP: resourceSpans and resourceLogs are missing")
        return
    for key in there:
        scope, part = _PARTS[key]
        for resource in value[key]:
            for scoped in _list(resource, scope):
                for one in _list(scoped, part):
                    yield ParsedRecord(record.number, (part, one))


def _list(value: Any, key: str) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _steps(told: tuple[str, Any]) -> Iterator[TraceStep]:
    part, value = told
    if not isinstance(value, dict):
        raise RecordError(f"an item of {part} is no object")
    attributes = attributes_of(value.get("attributes"))
    known: dict[str, Any] = {
        "trace": name_of(value, "traceId", "trace_id"),
        "span": name_of(value, "spanId", "span_id"),
    }
    if part == "spans":
        if not known["trace"]:
            raise RecordError("a span has no traceId")
        events = [
            (name_of(event, "name"), attributes_of(event.get("attributes")))
            for event in objects(value.get("events"))
        ]
        yield span_step(
            attributes,
            name_of(value, "name"),
            events,
            **known,
            parent=name_of(value, "parentSpanId", "parent_span_id"),
            time=time_of(first_of(value, "startTimeUnixNano", "start_time_unix_nano")),
            end=time_of(first_of(value, "endTimeUnixNano", "end_time_unix_nano")),
        )
        return
    event = name_of(value, "eventName", "event_name") or name_of(attributes, "event.name")
    time = time_of(first_of(value, "timeUnixNano", "time_unix_nano", "observedTimeUnixNano"))
    step = event_step(event, attributes, any_value(value.get("body")), **known, time=time, end=time)
    if step is None:
        return
    if not (step.trace and step.span):
        raise RecordError(f"an event {event} belongs to no span: traceId or spanId is missing")
    yield step


OTEL: Final = TraceFormat(
    name="otel",
    title="OpenTelemetry traces and logs (OTLP) by the conventions of GenAI or OpenInference",
    source="an application that is instrumented with OpenTelemetry",
    url="https://opentelemetry.io/docs/specs/semconv/gen-ai/",
    shape="a request in each line or one document as JSON, or binary; or a folder of such files",
    told_by=_is_otlp,
    records=_records_of,
    items=_spans,
    reader=lambda path: _steps,
)
"""Reads OTLP; protobuf needs ``turnwise[otlp]``."""


def attributes_of(pairs: Any) -> dict[str, Any]:
    """Attributes as an object; OTLP has a list of keys and values."""
    if isinstance(pairs, dict):
        return {str(key): value for key, value in pairs.items()}
    found = {}
    for pair in pairs if isinstance(pairs, list) else ():
        if isinstance(pair, dict) and isinstance(pair.get("key"), str):
            found[pair["key"]] = any_value(pair.get("value"))
    return found


def any_value(value: Any) -> Any:
    """The value that OTLP wraps in an object which names its type."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((key, inner),) = value.items()
    kind = str(key).replace("_", "").lower()
    if kind == "intvalue" and isinstance(inner, str):  # 64 bits are text in OTLP's JSON
        return int(inner) if len(inner) < 20 and inner.removeprefix("-").isdigit() and inner.isascii() else inner
    if kind == "arrayvalue":
        return [any_value(one) for one in _list(inner, "values")]
    if kind == "kvlistvalue":
        return attributes_of(_list(inner, "values"))
    return inner if kind in ("stringvalue", "boolvalue", "intvalue", "doublevalue", "bytesvalue") else value


# Protobuf: requests that follow each other, or framed by length as the collector's file exporter does

_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_TRACE_ID: Final = 32
"""Hexadecimal digits of a trace's id."""

_LEAST_RAW: Final = 0x0A
"""First byte of a request: its field 1. The length before a frame begins with a smaller one."""


def read_requests(stream: IO[bytes]) -> Iterator[ParsedRecord | BadRecord]:
    """Yield each resource's spans or log records in the form that OTLP has as JSON."""
    kinds = _kinds()
    number = 0
    try:
        for number, part in enumerate(_parts(stream), start=1):
            try:
                yield ParsedRecord(number, parse_json(part) if part.startswith(b"{") else _resource(part, kinds))
            except RecordError as error:
                yield BadRecord(number, str(error))
    except (RecordError, *DAMAGED) as error:
        yield broken_off(number + 1, error)


def _kinds() -> tuple[Any, Any, Any]:
    try:
        traces: Any = import_module("opentelemetry.proto.trace.v1.trace_pb2")
        logs: Any = import_module("opentelemetry.proto.logs.v1.logs_pb2")
        message: Any = import_module("google.protobuf.message")
    except ImportError:
        raise DatasetError(
            "reading OTLP in protobuf needs another package: pip install 'turnwise[otlp]'"
        ) from None
    return traces.ResourceSpans, logs.ResourceLogs, message.DecodeError


def _parts(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the bytes of each resource, or of a request in JSON."""
    first = stream.read(1)
    framed = bool(first) and first[0] < _LEAST_RAW
    if not framed:
        yield from _fields(stream, first)
        return
    while first:
        size = int.from_bytes(first + _exactly(stream, 3), "big")
        frame = _unpacked(_exactly(stream, size))
        if frame.startswith(b"{"):
            yield frame
        else:
            inner = BytesIO(frame)
            yield from _fields(inner, inner.read(1))
        first = stream.read(1)


def _fields(stream: IO[bytes], first: bytes) -> Iterator[bytes]:
    """Yield what stands in field 1, again and again; requests that follow each other are one request."""
    while first:
        if first[0] != _LEAST_RAW:
            raise RecordError(f"no request of OTLP: a field begins with byte {first[0]}, not {_LEAST_RAW}")
        yield _exactly(stream, _length(stream))
        first = stream.read(1)


def _length(stream: IO[bytes]) -> int:
    value = 0
    for shift in range(0, 35, 7):
        byte = _exactly(stream, 1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise RecordError("a length of more than 32 bits")


def _exactly(stream: IO[bytes], size: int) -> bytes:
    if size > MAX_LINE:
        raise RecordError(f"a part of {size:,} bytes: {MAX_LINE >> 20} MiB is the most")
    data = stream.read(size)
    if len(data) < size:
        raise RecordError(f"{size:,} bytes are announced, and {len(data):,} are left")
    return data


def _unpacked(frame: bytes) -> bytes:
    if not frame.startswith(_ZSTD):
        return frame
    try:
        import zstandard
    except ImportError:
        raise DatasetError("its frames are packed with zstd: pip install 'turnwise[scan]'") from None
    try:
        with zstandard.ZstdDecompressor().stream_reader(frame) as reader:
            data = reader.read(MAX_LINE + 1)
    except zstandard.ZstdError as error:
        raise RecordError(f"a frame can't be unpacked: {error}") from None
    if len(data) > MAX_LINE:
        raise RecordError(f"a frame unpacks to more than {MAX_LINE >> 20} MiB, which is the most")
    return bytes(data)


def _resource(part: bytes, kinds: tuple[Any, Any, Any]) -> dict[str, Any]:
    wrong: Exception | None = None
    spans, records = [], []
    try:
        spans = [_span(one) for scope in kinds[0].FromString(part).scope_spans for one in scope.spans]
    except (kinds[2], RecursionError) as error:
        wrong = error
    if not any(span["traceId"] for span in spans):  # log records have other fields in their places, or no place
        try:
            records = [_record(one) for scope in kinds[1].FromString(part).scope_logs for one in scope.log_records]
        except (kinds[2], RecursionError) as error:
            wrong = wrong or error
    if wrong is not None and not any(len(record["traceId"]) == _TRACE_ID for record in records):
        raise RecordError(f"no spans or log records in protobuf: {wrong}")
    if records:
        return {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}
    return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}


def _span(span: Any) -> dict[str, Any]:
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "parentSpanId": span.parent_span_id.hex(),
        "name": span.name,
        "startTimeUnixNano": span.start_time_unix_nano,
        "endTimeUnixNano": span.end_time_unix_nano,
        "attributes": _attributes(span.attributes),
        "events": [{"name": one.name, "attributes": _attributes(one.attributes)} for one in span.events],
    }


def _record(record: Any) -> dict[str, Any]:
    return {
        "traceId": record.trace_id.hex(),
        "spanId": record.span_id.hex(),
        "eventName": getattr(record, "event_name", ""),
        "timeUnixNano": record.time_unix_nano or record.observed_time_unix_nano,
        "attributes": _attributes(record.attributes),
        "body": _value(record.body),
    }


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    inner = getattr(value, kind)
    if kind == "array_value":
        return [_value(one) for one in inner.values]
    if kind == "kvlist_value":
        return _attributes(inner.values)
    if kind == "double_value" and not math.isfinite(inner):
        return None
    return inner.hex() if kind == "bytes_value" else inner
