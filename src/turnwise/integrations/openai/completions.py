"""Chat completions of the `openai` package, checked: whole, and in pieces."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from time import time
from typing import Any, Final
from uuid import uuid4

from turnwise.errors import GuardError
from turnwise.guard import GuardrailBlocked, PipelineResult, TextKind
from turnwise.guard.results import joined
from turnwise.integrations.checking import Do, Steps
from turnwise.integrations.clients.calls import (
    AdmittedRequest,
    Guarding,
    ask,
    of_reply,
    parse_again,
    refuse_smuggled,
    stand_in,
    with_result,
)
from turnwise.integrations.clients.client import AsyncResource, Resource, Streamed, SyncResource, not_guarded
from turnwise.integrations.clients.streams import END, PieceSteps, Show

INSTEAD: Final = "create or parse of chat.completions or responses"
"""What is guarded, for messages."""

FILTERED: Final = "content_filter"
"""Why a reply ended that was blocked, in the words of the API."""

_SPEAKING: Final = ("content", "tool_calls", "function_call", "refusal", "audio")


class GuardedChat:
    """The part ``chat`` of a client."""

    def __init__(self, completions: GuardedCompletions | GuardedAsyncCompletions) -> None:
        self.completions: Any = completions

    def __getattr__(self, name: str) -> Any:
        raise not_guarded(f"chat.{name}", INSTEAD)


class _Completions(Resource):
    path = "chat.completions."
    instead = INSTEAD
    free = frozenset({"retrieve", "list", "delete", "update", "messages"})

    def _answered(
        self, create: Callable[..., Any], given: dict[str, Any], named: dict[str, Any], *, parsed: bool
    ) -> Steps[Any]:
        refuse_smuggled(given)
        guarding = self._guarding
        asked = yield from ask(guarding, _messages(given), named)
        if asked.sent is None:
            return with_result(_refused(given.get("model"), str(guarding.refusal)), asked.result)
        reply = yield Do(create, (), {**given, "messages": asked.sent})
        if not hasattr(reply, "choices"):
            raise GuardError(
                f"the client gave {type(reply).__name__}, which can't be checked; don't use raw responses"
            )
        results = []
        for choice in reply.choices:
            message = choice.message.model_dump(exclude_none=True, exclude={"parsed"}, warnings=False)
            if not _says_anything(message):
                continue
            said = {key: value for key, value in message.items() if not key.startswith("parsed")}
            result: PipelineResult = yield guarding.check([*asked.messages, said], of_reply(named))
            results.append(result)
            if result.blocked:
                if guarding.refusal is None:
                    raise GuardrailBlocked(result)
                _refuse_choice(choice, guarding.refusal)
                yield from stand_in(guarding, asked.messages, guarding.refusal, named, result)
            else:
                _redact_choice(choice, result)
        verdict = asked.result if not results else results[0] if len(results) == 1 else joined(results)
        return with_result(reply, verdict)

    def _streamed(self, given: dict[str, Any], named: dict[str, Any]) -> Steps[Streamed]:
        refuse_smuggled(given)
        many = given.get("n")
        if isinstance(many, int) and many > 1:
            raise GuardError(
                f"n is {many}: several replies in pieces can't be checked; ask without stream, or for one"
            )
        asked = yield from ask(self._guarding, _messages(given), named)
        reply = CompletionSteps(self._guarding, asked, named, given.get("model"))
        return reply, None if asked.sent is None else {**given, "messages": asked.sent}


class GuardedCompletions(_Completions, SyncResource):
    """Chat completions, checked."""


class GuardedAsyncCompletions(_Completions, AsyncResource):
    """Chat completions, checked, for async code."""


def _messages(given: Mapping[str, Any]) -> Any:
    if "messages" not in given:
        raise TypeError("messages is missing: give the messages of the conversation")
    return given["messages"]


def _says_anything(message: Mapping[str, Any]) -> bool:
    return any(message.get(key) is not None for key in _SPEAKING)


def _refused(model: object, refusal: str) -> Any:
    """A completion with a set text, for a request that was not sent to the model."""
    from openai.types.chat import ChatCompletion

    message = {"role": "assistant", "content": refusal}
    choice = {"index": 0, "finish_reason": FILTERED, "message": message, "logprobs": None}
    given = {"id": f"chatcmpl-{uuid4().hex}", "object": "chat.completion", "created": int(time())}
    return ChatCompletion.model_validate({**given, "model": str(model), "choices": [choice]})


def _refuse_choice(choice: Any, refusal: str) -> None:
    message = choice.message
    for key in ("tool_calls", "function_call", "refusal", "audio", "parsed"):
        if getattr(message, key, None) is not None:
            setattr(message, key, None)
    message.content, choice.finish_reason = refusal, FILTERED
    if getattr(choice, "logprobs", None) is not None:
        choice.logprobs = None  # they spell the text


def _redact_choice(choice: Any, result: PipelineResult) -> None:
    message = choice.message
    calls = {call.id: call for call in message.tool_calls or ()}
    for part in result.parts or (result,):
        if part.pipeline_type is TextKind.OUTPUT:
            _put_text(choice, part.text)
        elif part.call_id in calls:
            call = calls[part.call_id]
            if call.type == "custom":
                call.custom.input = part.text
            elif call.function.arguments != part.text:
                call.function.arguments = part.text
                parse_again(call.function, "parsed_arguments", part.text)
        elif message.function_call is not None:
            message.function_call.arguments = part.text


def _put_text(choice: Any, text: str) -> None:
    message = choice.message
    key = "content" if message.content is not None else "refusal"
    if getattr(message, key) == text:
        return
    setattr(message, key, text)
    parse_again(message, "parsed", text)
    if getattr(choice, "logprobs", None) is not None:
        choice.logprobs = None  # they spell the text


class CompletionSteps(PieceSteps):
    """A completion that comes in pieces: its text is passed on as it comes, calls of tools at the end."""

    def __init__(
        self, guarding: Guarding, asked: AdmittedRequest, named: Mapping[str, Any], model: object
    ) -> None:
        super().__init__(guarding, asked, named)
        self._model = model
        self._key = "content"
        self._calls: dict[int, dict[str, Any]] = {}
        self._legacy: dict[str, str] | None = None

    def steps(self, following: Callable[[], Any]) -> Generator[Do | Show, Any, None]:
        if self._asked.sent is None:
            yield Show(with_result(_refused_chunk(self._model, str(self._guarding.refusal)), self._asked.result))
            return
        last: list[Any] = []
        while (chunk := (yield Do(following))) is not END:
            if not chunk.choices:
                last.append(chunk)
                continue
            choice = chunk.choices[0]
            text = self._taken(choice.delta)
            if text:
                shown = yield from self._feed(text)
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

    def _taken(self, delta: Any) -> str:
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
        end = _refused_chunk(self._model if chunk is None else chunk.model, "" if shown else refusal)
        yield Show(with_result(end, self.result))


def _id(call: Mapping[str, str]) -> dict[str, Any]:
    return {"call_id": call["id"] or None}


def _piece(chunk: Any, delta: Mapping[str, Any], ended: str | None = None) -> Any:
    """A piece like another one that says something else."""
    choice = chunk.choices[0]
    made = type(choice.delta)(**delta)
    kept = {"delta": made, "finish_reason": ended, "logprobs": None}
    return chunk.model_copy(update={"choices": [choice.model_copy(update=kept)]})


def _refused_chunk(model: object, refusal: str) -> Any:
    """A piece of a completion that says a set text, and ends it."""
    from openai.types.chat import ChatCompletionChunk

    choice = {"index": 0, "delta": {"role": "assistant", "content": refusal}, "finish_reason": FILTERED}
    given = {"id": f"chatcmpl-{uuid4().hex}", "object": "chat.completion.chunk", "created": int(time())}
    return ChatCompletionChunk.model_validate({**given, "model": str(model), "choices": [choice]})
