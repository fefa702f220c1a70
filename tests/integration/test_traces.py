"""Traces of real SDKs and exporters, in JSON and protobuf, read back as conversations."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import httpx
import pytest
import zstandard
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    Runner,
    function_tool,
    set_trace_processors,
    set_tracing_disabled,
    trace,
)
from agents.tracing import Span, Trace, TracingProcessor
from google.protobuf.json_format import MessageToDict
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langchain_core.tracers import LangChainTracer
from langsmith import Client
from openai import AsyncOpenAI
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.capabilities.instrumentation import Instrumentation
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings
from tests.datasets.trace_samples import otel, otel_logs, otel_structured

from turnwise.conversation import Sequence
from turnwise.datasets import BadRecord, open_dataset

pytestmark = pytest.mark.integration

ASKED, THANKS = "Weather in Paris?", "Thanks!"
RESULT, ANSWER, WELCOME = "rain, 14 C", "Rainy.", "You are welcome."
ARGUMENTS = {"city": "Paris"}


def weather(city: str) -> str:
    """Say how the weather is."""
    return RESULT if city == "Paris" else "sun"


def is_the_chat(path: Path) -> str:
    """Check what is read of a file; return the id."""
    (sequence,) = open_dataset(path)
    assert not isinstance(sequence, BadRecord), sequence
    told = [(turn.prompt, turn.response) for turn in sequence.conversation]
    assert told == [(ASKED, ANSWER), (THANKS, WELCOME)]
    first = sequence.conversation.turn(1)
    assert [(call.name, json.loads(call.arguments)) for call in first.tool_calls] == [("weather", ARGUMENTS)]
    assert [result.content for result in first.tool_results] == [RESULT]
    assert "history" not in sequence.metadata
    assert all(turn.metadata["provenance"]["spans"] for turn in sequence.conversation)
    system = sequence.conversation.to_messages()[0]
    assert (system["role"], system["content"]) == ("system", "Be brief.")
    return sequence.sequence_id


@pytest.mark.parametrize("framed", [False, True])
def test_pydantic_ai_through_otlp(tmp_path: Path, framed: bool) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    call = ToolCallPart("weather", ARGUMENTS, "call_1")
    replies = iter([ModelResponse([part]) for part in (call, TextPart(ANSWER), TextPart(WELCOME))])
    settings = InstrumentationSettings(tracer_provider=provider, version=5)
    agent = PydanticAgent(
        FunctionModel(lambda messages, info: next(replies)),
        instructions="Be brief.",
        tools=[weather],
        capabilities=[Instrumentation(settings=settings)],
    )

    async def talk() -> None:
        first = await agent.run(ASKED)
        await agent.run(THANKS, message_history=first.all_messages())

    asyncio.run(talk())
    request = encode_spans(exporter.get_finished_spans())
    content = request.SerializeToString()
    binary = tmp_path / "spans.pb"
    binary.write_bytes(len(content).to_bytes(4, "big") + content if framed else content)
    lines = tmp_path / "spans.jsonl"
    lines.write_text(json.dumps(MessageToDict(request)) + "\n")  # ids stand in base64 there
    assert is_the_chat(binary) == is_the_chat(lines)


class Kept(TracingProcessor):
    """Keeps what traces and spans export."""

    def __init__(self) -> None:
        self.lines: list[Any] = []

    def on_trace_start(self, trace: Trace) -> None:
        self.lines.append(trace.export())

    def on_trace_end(self, trace: Trace) -> None: ...

    def on_span_start(self, span: Span[Any]) -> None: ...

    def on_span_end(self, span: Span[Any]) -> None:
        self.lines.append(span.export())

    def shutdown(self) -> None: ...

    def force_flush(self) -> None: ...


def test_the_agents_sdk_through_a_processor(tmp_path: Path) -> None:
    def messages() -> Iterator[dict[str, Any]]:
        told = {"name": "weather", "arguments": json.dumps(ARGUMENTS)}
        yield {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": told}]}
        yield {"role": "assistant", "content": ANSWER}
        yield {"role": "assistant", "content": WELCOME}

    replies = messages()

    def reply(request: httpx.Request) -> httpx.Response:
        choice = {"index": 0, "message": next(replies), "finish_reason": "stop"}
        head = {"id": "c", "object": "chat.completion", "created": 1, "model": "m1"}
        return httpx.Response(200, json={**head, "choices": [choice]})

    async def talk() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(reply))
        client = AsyncOpenAI(api_key="k", base_url="http://model/v1", http_client=http)
        model = OpenAIChatCompletionsModel(model="m1", openai_client=client)
        agent = Agent(name="Helper", instructions="Be brief.", tools=[function_tool(weather)], model=model)
        with trace("chat", group_id="chat-7"):
            first = await Runner.run(agent, ASKED)
            await Runner.run(agent, [*first.to_input_list(), {"role": "user", "content": THANKS}])

    kept = Kept()
    set_trace_processors([kept])
    set_tracing_disabled(False)
    try:
        asyncio.run(talk())
    finally:
        set_tracing_disabled(True)
        set_trace_processors([])
    path = tmp_path / "traces.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in kept.lines))
    assert is_the_chat(path) == "chat-7"


def test_langchain_through_runs_of_langsmith(tmp_path: Path) -> None:
    call = {"name": "weather", "args": ARGUMENTS, "id": "call_1"}
    said = [AIMessage("", tool_calls=[call]), AIMessage(ANSWER), AIMessage(WELCOME)]
    model, look = GenericFakeChatModel(messages=iter(said)), tool(weather)

    def agent(asked: list[BaseMessage], config: RunnableConfig) -> list[BaseMessage]:
        messages = [SystemMessage("Be brief."), *asked]
        while True:
            messages.append(model.invoke(messages, config))
            calls = messages[-1].tool_calls
            if not calls:
                return messages[1:]
            messages.append(look.invoke({**calls[0], "type": "tool_call"}, config))

    lines: list[dict[str, Any]] = []

    class Runs(LangChainTracer):
        """Keeps the runs that it would send; LangChain makes more of its kind."""

        def _persist_run_single(self, run: Any) -> None: ...

        def _update_run_single(self, run: Any) -> None:
            lines.append(json.loads(run.model_dump_json(exclude={"child_runs"})))

    config: RunnableConfig = {
        "callbacks": [Runs(client=create_autospec(Client))],
        "metadata": {"thread_id": "chat-7"},
    }
    first = RunnableLambda(agent).invoke([HumanMessage(ASKED)], config)
    RunnableLambda(agent).invoke([*first, HumanMessage(THANKS)], config)
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert is_the_chat(path) == "chat-7"


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
