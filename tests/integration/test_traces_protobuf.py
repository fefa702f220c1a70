"""OTLP in protobuf: in every frame the same as JSON; whatever lies in it is named."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import zstandard
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from tests.datasets.trace_samples import otel, otel_logs, otel_structured

from turnwise.conversation import Sequence
from turnwise.datasets import BadRecord, open_dataset

pytestmark = pytest.mark.integration


def fill(target: Any, wrapped: dict[str, Any]) -> None:
    """A value of OTLP's JSON into its message."""
    ((kind, value),) = wrapped.items()
    if kind == "arrayValue":
        for one in value["values"]:
            fill(target.array_value.values.add(), one)
    elif kind == "kvlistValue":
        pairs(target.kvlist_value.values, value["values"])
    elif kind == "intValue":
        target.int_value = int(value)
    else:
        target.string_value = value


def pairs(target: Any, attributes: list[dict[str, Any]]) -> None:
    for pair in attributes:
        fill(target.add(key=pair["key"]).value, pair["value"])


def binary(line: dict[str, Any]) -> bytes:
    """A request of OTLP's JSON in protobuf."""
    data = LogsData() if "resourceLogs" in line else TracesData()
    for resource in line.get("resourceSpans", ()):
        for one in resource["scopeSpans"][0]["spans"]:
            made = data.resource_spans.add().scope_spans.add().spans.add(name=one["name"])
            made.trace_id, made.span_id = bytes.fromhex(one["traceId"]), bytes.fromhex(one["spanId"])
            made.parent_span_id = bytes.fromhex(one["parentSpanId"])
            made.start_time_unix_nano = int(one["startTimeUnixNano"])
            made.end_time_unix_nano = int(one["endTimeUnixNano"])
            pairs(made.attributes, one["attributes"])
            for event in one.get("events", ()):
                pairs(made.events.add(name=event["name"]).attributes, event["attributes"])
    for resource in line.get("resourceLogs", ()):
        scope = data.resource_logs.add().scope_logs.add()
        for one in resource["scopeLogs"][0]["logRecords"]:
            made = scope.log_records.add(event_name=one["eventName"], time_unix_nano=int(one["timeUnixNano"]))
            made.trace_id, made.span_id = bytes.fromhex(one["traceId"]), bytes.fromhex(one["spanId"])
            pairs(made.attributes, one["attributes"])
            fill(made.body, one["body"])
    return bytes(data.SerializeToString())


def framed(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def packed(part: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(part)


def read(path: Path, format: str | None = None) -> list[Sequence | BadRecord]:
    return list(open_dataset(path, format=format))


def told(items: list[Sequence | BadRecord]) -> list[Any]:
    return [one if isinstance(one, BadRecord) else one.conversation.to_dict()["turns"] for one in items]


FRAMES = {
    "as it is": b"".join,
    "framed": lambda parts: framed(*parts),
    "packed frames": lambda parts: framed(*map(packed, parts)),
}


@pytest.mark.parametrize("sample", [otel, otel_structured, otel_logs])
@pytest.mark.parametrize("frame", FRAMES)
def test_every_frame_is_read_as_json_is(tmp_path: Path, sample: Any, frame: str) -> None:
    lines = sample()
    plain, path = tmp_path / "plain.jsonl", tmp_path / "spans"
    plain.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    path.write_bytes(FRAMES[frame]([binary(line) for line in lines]))
    assert told(read(path)) == told(read(plain))
    assert len(read(path)) == 1


def test_frames_of_json_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "spans.json"
    path.write_bytes(framed(*(packed(json.dumps(line).encode()) for line in otel())))
    (sequence,) = read(path)
    assert isinstance(sequence, Sequence)


@pytest.mark.parametrize("frame", FRAMES)
def test_a_file_that_is_cut_off_or_changed_is_read_as_far_as_it_goes(tmp_path: Path, frame: str) -> None:
    content = FRAMES[frame]([binary(line) for line in otel()])
    path, source = tmp_path / "spans.pb", random.Random(3)
    changes = [content[: source.randrange(1, len(content))] for _ in range(150)]
    for _ in range(400):
        flipped = bytearray(content)
        flipped[source.randrange(len(flipped))] = source.choice([0, 1, 10, 127, 128, 255, source.randrange(256)])
        changes.append(bytes(flipped))
    for changed in changes:
        path.write_bytes(changed)
        for item in read(path, "otel") if changed[:1] in (b"\n", b"\0") else ():
            assert isinstance(item, Sequence | BadRecord)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\n\xff\xff\xff\xff\x0f\x12\x08", "a part of 4,294,967,295 bytes: 64 MiB is the most"),
        (b"\n\x00\n\xff\xff\xff\xff\xff\xff\xff\x12\x08", "a length of more than 32 bits"),
        (b"\x00\x01\x00\x00\n\x10", "65,536 bytes are announced, and 2 are left"),
        (b"\n\x02\x12\x10\x12\x08", "no request of OTLP: a field begins with byte 18, not 10"),
        (framed(packed(b"\n" + bytes(100 << 20))), "a frame unpacks to more than 64 MiB"),
    ],
)
def test_lengths_that_lie_are_named(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "spans.pb"
    path.write_bytes(content)
    *_, last = read(path, "otel")
    assert isinstance(last, BadRecord)
    assert reason in last.reason


def test_values_that_are_nested_without_end_are_named(tmp_path: Path) -> None:
    value = b"\n\x01x"
    for _ in range(400):  # an array in an array
        value = b"\n" + _length(len(value)) + value
        value = b"\x2a" + _length(len(value)) + value
    pair = b"\n\x01k\x12" + _length(len(value)) + value
    ids = b"\n\x10" + bytes(15) + b"\x01\x12\x08" + bytes(7) + b"\x01"
    inner = ids + b"\x4a" + _length(len(pair)) + pair
    for field in (b"\x12", b"\x12", b"\n"):  # a span in a scope in a resource
        inner = field + _length(len(inner)) + inner
    path = tmp_path / "spans.pb"
    path.write_bytes(binary(otel()[0]) + inner + binary(otel()[1]))
    bad, sequence = read(path, "otel")
    assert isinstance(bad, BadRecord)
    assert "no spans or log records in protobuf" in bad.reason
    assert isinstance(sequence, Sequence)


def _length(size: int) -> bytes:
    made = bytearray()
    while size > 0x7F:
        made.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*made, size])
