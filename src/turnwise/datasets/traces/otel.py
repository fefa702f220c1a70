"""Spans and log records of OpenTelemetry: OTLP as JSON, or in protobuf as it is or framed by the collector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from turnwise.datasets.files import open_binary
from turnwise.datasets.layout import Head, Layout, read_head, read_records
from turnwise.datasets.protocol import BadRecord, LoadOptions, RecordError
from turnwise.datasets.records import ParsedRecord
from turnwise.datasets.traces.loader import TraceLoader, each_step, first_object, info_of
from turnwise.datasets.traces.messages import first_of, objects
from turnwise.datasets.traces.spans import event_step, span_step
from turnwise.datasets.traces.step import Step, name_of, time_of

_RESOURCES = ("resourceSpans", "resourceLogs", "resource_spans", "resource_logs")
_PARTS = {
    "resourceSpans": ("scopeSpans", "spans"),
    "resource_spans": ("scope_spans", "spans"),
    "resourceLogs": ("scopeLogs", "logRecords"),
    "resource_logs": ("scope_logs", "log_records"),
}


class OTel(TraceLoader):
    """Reads OTLP; protobuf needs ``turnwise[otlp]``."""

    info = info_of(
        name="otel",
        title="OpenTelemetry traces and logs (OTLP) by the conventions of GenAI or OpenInference",
        source="an application that is instrumented with OpenTelemetry",
        url="https://opentelemetry.io/docs/specs/semconv/gen-ai/",
        shape="a request in each line or one document as JSON, or binary; or a folder of such files",
    )

    def sniff(self, head: Head) -> bool:
        """Return whether records are requests of OTLP, or the file is one in protobuf."""
        if head.layout is Layout.PROTOBUF:
            return not head.records
        return any(isinstance(first_object(head).get(one), list) for one in _RESOURCES)

    def records(self, path: str, options: LoadOptions) -> Iterator[ParsedRecord | BadRecord]:
        """Yield the requests of a file."""
        head = read_head(path, options.encoding)
        if head.layout is not Layout.PROTOBUF:
            yield from read_records(head)
            return
        from turnwise.datasets.traces.otlp import read_requests

        with open_binary(path) as stream:
            yield from read_requests(stream)

    def steps(
        self, records: Iterable[ParsedRecord | BadRecord], path: str
    ) -> Iterator[tuple[int, Step | BadRecord]]:
        """Yield the step of each span and log record; a bad one leaves the others of its request."""
        spans = chain.from_iterable(map(_spans, records))
        return each_step(spans, _steps)


def _spans(record: ParsedRecord | BadRecord) -> Iterator[ParsedRecord | BadRecord]:
    if isinstance(record, BadRecord):
        yield record
        return
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


def _steps(told: tuple[str, Any]) -> Iterator[Step]:
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
