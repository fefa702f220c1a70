"""Traces that the real clients write are read as the chat that they traced."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import httpx
import pytest
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
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.capabilities.instrumentation import Instrumentation
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings

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
