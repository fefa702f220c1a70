"""Chat completions that come in pieces: what may be shown of them is passed on as it comes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from time import time
from typing import Any, Final
from uuid import uuid4

from turnwise.guard import AsyncOutputStream, GuardrailBlocked, OutputStream, PipelineResult
from turnwise.guard.results import joined
from turnwise.integrations.clients.calls import Asked, Do, Guarding, of_reply, stand_in, with_result
from turnwise.integrations.clients.streams import END, Show

FILTERED: Final = "content_filter"
"""Why a reply ended that was blocked, in the words of the API."""


class ReplySteps:
    """A reply that comes in pieces, under check. Its text is passed on as it comes, calls of tools at the end."""

    def __init__(self, guarding: Guarding, asked: Asked, named: Mapping[str, Any], model: object) -> None:
        self._guarding, self._asked, self._named, self._model = guarding, asked, named, model
        self._stream: OutputStream | AsyncOutputStream | None = None
        self._key = "content"
        self._calls: dict[int, dict[str, Any]] = {}
        self._legacy: dict[str, str] | None = None
        self.result: PipelineResult | None = None if asked.sent is not None else asked.result

    def steps(self, following: Callable[[], Any]) -> Generator[Do | Show, Any, None]:
        """Take the model's pieces, and show what may be shown; ``following`` gives `END` after the last."""
        if self._asked.sent is None:
            yield Show(with_result(refused_chunk(self._model, str(self._guarding.refusal)), self._asked.result))
            return
        last: list[Any] = []
        while (chunk := (yield Do(following))) is not END:
            if not chunk.choices:
                last.append(chunk)
                continue
            choice = chunk.choices[0]
            text = self._taken(choice.delta)
            if text:
                shown = yield from self._fed(text)
                if self._stream is not None and self._stream.blocked:
                    yield from self._stopped(chunk)
                    return
                if shown:
                    yield Show(_piece(chunk, {self._key: shown}))
            elif choice.delta.role is not None and choice.finish_reason is None and not self._calls:
                yield Show(_piece(chunk, {"role": choice.delta.role, "content": choice.delta.content}))
            if choice.finish_reason is not None:
                last.insert(0, chunk)
        yield from self._ended(last)

    def drop(self) -> None:
        """Record that the reply broke off, where it did not end."""
        if self._stream is not None and self._stream.result is None:
            self._stream.drop()
            self.result = self._stream.result

    def _taken(self, delta: Any) -> str:
        """Take calls of tools, and return the text."""
        for call in getattr(delta, "tool_calls", None) or ():
            held = self._calls.setdefault(call.index, {"id": "", "name": "", "arguments": ""})
            held["id"] += call.id or ""
            if call.function is not None:
                held["name"] += call.function.name or ""
                held["arguments"] += call.function.arguments or ""
        called = getattr(delta, "function_call", None)
        if called is not None:
            self._legacy = self._legacy or {"name": "", "arguments": ""}
            self._legacy["name"] += called.name or ""
            self._legacy["arguments"] += called.arguments or ""
        refusal = getattr(delta, "refusal", None)
        if refusal and not delta.content:
            self._key = "refusal"
            return str(refusal)
        return delta.content or ""

    def _fed(self, text: str) -> Generator[Do, Any, str]:
        if self._stream is None:
            self._stream = yield self._guarding.open_stream(self._asked.messages, self._named)
        shown: str = yield Do(self._stream.feed, (text,))
        return shown

    def _ended(self, last: list[Any]) -> Generator[Do | Show, Any, None]:
        """Check the whole of it, then calls of tools, and show what was held back."""
        results = []
        if self._stream is not None:
            results.append((yield Do(self._stream.end)))
            self.result = results[0]
            if results[0].blocked:
                yield from self._stopped(last[0] if last else None)
                return
            if self._stream.rest and last:
                yield Show(_piece(last[0], {self._key: self._stream.rest}))
        calls = [self._calls[index] for index in sorted(self._calls)]
        if self._stream is not None:
            for call in calls:
                results.append(
                    (yield Do(self._stream.check_tool_call, (call["name"], call["arguments"]), _id(call)))
                )
        elif calls or self._legacy:
            result: PipelineResult = yield self._guarding.check(
                [*self._asked.messages, self._message(calls)], of_reply(self._named)
            )
            results = [*result.parts] or [result]
        self.result = results[0] if len(results) == 1 else joined(results) if results else self._asked.result
        if self.result is not None and self.result.blocked:
            yield from self._stopped(last[0] if last else None)
            return
        told = results[len(results) - len(calls) :] if calls else results
        for index, (call, one) in enumerate(zip(calls, told, strict=False)):
            raw = {"name": call["name"], "arguments": one.text}
            listed = [{"index": index, "id": call["id"], "type": "function", "function": raw}]
            if last:
                yield Show(_piece(last[0], {"tool_calls": listed}))
        if self._legacy and last:
            yield Show(_piece(last[0], {"function_call": {**self._legacy, "arguments": results[-1].text}}))
        for chunk in last:
            ended = chunk if not chunk.choices else _piece(chunk, {}, chunk.choices[0].finish_reason)
            yield Show(with_result(ended, self.result))

    def _message(self, calls: list[dict[str, Any]]) -> dict[str, Any]:
        listed = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"]},
            }
            for call in calls
        ]
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if listed:
            message["tool_calls"] = listed
        if self._legacy:
            message["function_call"] = self._legacy
        return message

    def _stopped(self, chunk: Any) -> Generator[Do | Show, Any, None]:
        """End a reply that was blocked: by an exception, or by the set text where nothing was shown."""
        stream, refusal = self._stream, self._guarding.refusal
        if stream is not None and stream.result is not None and self.result is None:
            self.result = stream.result
        assert self.result is not None
        if refusal is None:
            raise GuardrailBlocked(self.result)
        shown = "" if stream is None else stream.shown
        yield from stand_in(self._guarding, self._asked.messages, shown or refusal, self._named, self.result)
        end = refused_chunk(self._model if chunk is None else chunk.model, "" if shown else refusal)
        yield Show(with_result(end, self.result))


def _id(call: Mapping[str, str]) -> dict[str, Any]:
    return {"call_id": call["id"] or None}


def _piece(chunk: Any, delta: Mapping[str, Any], ended: str | None = None) -> Any:
    """A piece like another one that says something else."""
    choice = chunk.choices[0]
    made = type(choice.delta)(**delta)
    kept = {"delta": made, "finish_reason": ended, "logprobs": None}
    return chunk.model_copy(update={"choices": [choice.model_copy(update=kept)]})


def refused_chunk(model: object, refusal: str) -> Any:
    """A piece of a completion that says a set text, and ends it."""
    from openai.types.chat import ChatCompletionChunk

    choice = {"index": 0, "delta": {"role": "assistant", "content": refusal}, "finish_reason": FILTERED}
    given = {"id": f"chatcmpl-{uuid4().hex}", "object": "chat.completion.chunk", "created": int(time())}
    return ChatCompletionChunk.model_validate({**given, "model": str(model), "choices": [choice]})
