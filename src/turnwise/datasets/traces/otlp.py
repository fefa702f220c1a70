"""OTLP in protobuf: requests that follow each other, or framed by length as the collector's file exporter does."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib import import_module
from io import BytesIO
from typing import IO, Any, Final

from turnwise.datasets.fields import parse_json
from turnwise.datasets.files import DAMAGED, MAX_LINE
from turnwise.datasets.protocol import BadRecord, RecordError
from turnwise.datasets.records import ParsedRecord, broken_off
from turnwise.errors import DatasetError

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
