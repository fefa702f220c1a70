"""The ways to ask a model through a guarded client of `openai` or `anthropic`, so that each test can take all."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

import anthropic
import openai
from model_api import client_of

from turnwise import GuardrailPipeline
from turnwise.guard import PipelineResult
from turnwise.integrations.anthropic import guard as guard_anthropic
from turnwise.integrations.openai import guard as guard_openai

KINDS = {"responses": "OpenAI", "messages": "Anthropic"}
WAYS = ("create", "stream", "helper", "async create", "async stream", "async helper")


class Told(NamedTuple):
    """What a caller gets: text, calls by name and arguments, the verdict, and all of it as JSON."""

    text: str
    calls: list[tuple[str, Any]]
    result: PipelineResult | None
    raw: str
    reply: Any


class Door:
    """A guarded client, sync and async."""

    def __init__(self, api: str, server: Any, pipeline: GuardrailPipeline, refusal: str | None = None) -> None:
        self.api = api
        guard: Any = guard_openai if api == "responses" else guard_anthropic
        package, url = (openai, server.url) if api == "responses" else (anthropic, server.root)
        kind, later = getattr(package, KINDS[api]), getattr(package, f"Async{KINDS[api]}")
        self.client = guard(client_of(kind, url), pipeline, refusal=refusal)
        self.later = lambda: guard(client_of(later, url), pipeline, refusal=refusal)

    def given(self, said: Any, **more: Any) -> dict[str, Any]:
        """Arguments of a request that says a text, or a list of messages or items."""
        if self.api == "responses":
            return {"model": "m", "input": said, **more}
        messages = [{"role": "user", "content": said}] if isinstance(said, str) else said
        return {"model": "m", "max_tokens": 99, "messages": messages, **more}

    def ask(self, said: Any, way: str = "create", **more: Any) -> Told:
        """Ask, and read the reply to its end."""
        given = self.given(said, **more)
        if way.startswith("async"):
            return asyncio.run(self._aask(given, way))
        part = getattr(self.client, self.api)
        if way == "create":
            reply = part.create(**given)
            return self.told(reply, reply.turnwise_result, [])
        if way == "stream":
            with part.create(**given, stream=True) as stream:
                events = list(stream)
            return self.whole(events, stream.turnwise_result)
        with part.stream(**given) as stream:
            events = list(stream)
            return self.told(self.final(events), stream.guarded.turnwise_result, events)

    async def _aask(self, given: dict[str, Any], way: str) -> Told:
        async with self.later() as client:
            part = getattr(client, self.api)
            if way == "async create":
                reply = await part.create(**given)
                return self.told(reply, reply.turnwise_result, [])
            if way == "async stream":
                async with await part.create(**given, stream=True) as stream:
                    events = [event async for event in stream]
                return self.whole(events, stream.turnwise_result)
            async with part.stream(**given) as stream:
                events = [event async for event in stream]
                return self.told(self.final(events), stream.guarded.turnwise_result, events)

    def final(self, events: list[Any]) -> Any:
        return events[-1].response if self.api == "responses" else events[-1].message

    def whole(self, events: list[Any], result: PipelineResult | None) -> Told:
        """What raw events come to, put together by the deltas alone."""
        assert events[-1].turnwise_result is result
        if self.api == "responses":
            told = self.told(events[-1].response, result, events)
            said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
            assert said == told.text, (said, told.text)
            numbers = [event.sequence_number for event in events]
            assert numbers == sorted(numbers)
            return told
        from anthropic.lib.streaming._messages import accumulate_event

        message, buffers = None, {}
        for event in events:
            message = accumulate_event(event=event, current_snapshot=message, json_bufs=buffers)
        return self.told(message, result, events)

    def told(self, reply: Any, result: PipelineResult | None, events: list[Any]) -> Told:
        raw = json.dumps([one.model_dump(mode="json", warnings=False) for one in (reply, *events)])
        if self.api == "responses":
            calls = [
                (item.name, json.loads(item.arguments)) for item in reply.output if item.type == "function_call"
            ]
            return Told(reply.output_text, calls, result, raw, reply)
        text = "".join(block.text for block in reply.content if block.type == "text")
        calls = [(block.name, block.input) for block in reply.content if block.type == "tool_use"]
        return Told(text, calls, result, raw, reply)

    def close(self) -> None:
        self.client.unguarded.close()
