"""Chat completions of the `openai` package, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import time
from typing import Any, Final
from uuid import uuid4

from turnwise.errors import GuardError
from turnwise.guard import GuardrailBlocked, PipelineResult, TextKind
from turnwise.guard.results import joined
from turnwise.integrations.clients.calls import (
    Asked,
    Do,
    Guarding,
    Steps,
    afinish,
    ask,
    finish,
    not_guarded,
    of_reply,
    parse_again,
    refuse_smuggled,
    stand_in,
    whose,
    with_result,
)
from turnwise.integrations.clients.streams import GuardedAsyncStream, GuardedStream
from turnwise.integrations.openai.completion_streams import FILTERED, ReplySteps

INSTEAD: Final = "create or parse of chat.completions or responses"
"""What is guarded, for messages."""

_SPEAKING: Final = ("content", "tool_calls", "function_call", "refusal", "audio")


class GuardedChat:
    """The part ``chat`` of a client."""

    def __init__(self, completions: GuardedCompletions | GuardedAsyncCompletions) -> None:
        self.completions: Any = completions

    def __getattr__(self, name: str) -> Any:
        raise not_guarded(f"chat.{name}", INSTEAD)


class _Completions:
    def __init__(self, completions: Any, guarding: Guarding) -> None:
        self._completions, self._guarding = completions, guarding

    def __getattr__(self, name: str) -> Any:
        if name in ("retrieve", "list", "delete", "update", "messages"):
            return getattr(self._completions, name)
        raise not_guarded(f"chat.completions.{name}", INSTEAD)


class GuardedCompletions(_Completions):
    """Chat completions, checked."""

    def create(
        self,
        *,
        messages: Iterable[Any],
        conversation_id: str | None = None,
        session_id: str | None = None,
        key: str | None = None,
        role: str | None = None,
        **given: Any,
    ) -> Any:
        """Ask the model, as ``create`` of the package does; return a completion, or a `GuardedStream`.

        Args:
            messages: the messages.
            conversation_id: as for `GuardrailPipeline.check_messages`, and so are the next three.
            session_id: the session.
            key: whose rate limits count.
            role: role of that key.
            given: what else the package takes.

        Raises:
            GuardrailBlocked: prompt or reply was blocked, and no refusal is set.
            GuardError: several replies are asked for in pieces.
            openai.OpenAIError: as without the guard.
        """
        named = whose(conversation_id, session_id, key, role)
        if not given.get("stream"):
            run = complete(self._guarding, self._completions.create, {**given, "messages": messages}, named)
            return finish(run)
        asked = finish(ask(self._guarding, _streamed(given, messages), named))
        raw = None if asked.sent is None else self._completions.create(messages=asked.sent, **given)
        return GuardedStream(ReplySteps(self._guarding, asked, named, given.get("model")), raw)

    def parse(
        self,
        *,
        messages: Iterable[Any],
        conversation_id: str | None = None,
        session_id: str | None = None,
        key: str | None = None,
        role: str | None = None,
        **given: Any,
    ) -> Any:
        """Ask the model for what can be parsed, as ``parse`` of the package does; arguments as for `create`."""
        named = whose(conversation_id, session_id, key, role)
        return finish(complete(self._guarding, self._completions.parse, {**given, "messages": messages}, named))


class GuardedAsyncCompletions(_Completions):
    """Chat completions, checked, for async code."""

    async def create(
        self,
        *,
        messages: Iterable[Any],
        conversation_id: str | None = None,
        session_id: str | None = None,
        key: str | None = None,
        role: str | None = None,
        **given: Any,
    ) -> Any:
        """Ask the model; see `GuardedCompletions.create`. A stream is a `GuardedAsyncStream`."""
        named = whose(conversation_id, session_id, key, role)
        if not given.get("stream"):
            run = complete(self._guarding, self._completions.create, {**given, "messages": messages}, named)
            return await afinish(run)
        asked: Asked = await afinish(ask(self._guarding, _streamed(given, messages), named))
        raw = None if asked.sent is None else await self._completions.create(messages=asked.sent, **given)
        return GuardedAsyncStream(ReplySteps(self._guarding, asked, named, given.get("model")), raw)

    async def parse(
        self,
        *,
        messages: Iterable[Any],
        conversation_id: str | None = None,
        session_id: str | None = None,
        key: str | None = None,
        role: str | None = None,
        **given: Any,
    ) -> Any:
        """Ask the model for what can be parsed; see `GuardedCompletions.parse`."""
        named = whose(conversation_id, session_id, key, role)
        run = complete(self._guarding, self._completions.parse, {**given, "messages": messages}, named)
        return await afinish(run)


def _streamed(given: dict[str, Any], messages: Iterable[Any]) -> Iterable[Any]:
    refuse_smuggled(given)
    many = given.get("n")
    if isinstance(many, int) and many > 1:
        raise GuardError(
            f"n is {many}: several replies in pieces can't be checked; ask without stream, or for one"
        )
    return messages


def complete(
    guarding: Guarding, create: Callable[..., Any], given: Mapping[str, Any], named: Mapping[str, Any]
) -> Steps[Any]:
    """Check a request, ask the model with ``create``, and check its reply; ``named``: whose conversation it is."""
    refuse_smuggled(given)
    asked = yield from ask(guarding, given["messages"], named)
    if asked.sent is None:
        return with_result(refused(given.get("model"), str(guarding.refusal)), asked.result)
    reply = yield Do(create, (), {**given, "messages": asked.sent})
    if not hasattr(reply, "choices"):
        raise GuardError(
            f"the client gave {type(reply).__name__}, which can't be checked; don't use raw responses"
        )
    results = []
    for choice in reply.choices:
        message = choice.message.model_dump(exclude_none=True, exclude={"parsed"}, warnings=False)
        if not says_anything(message):
            continue
        said = [*asked.messages, {key: value for key, value in message.items() if not key.startswith("parsed")}]
        result: PipelineResult = yield guarding.check(said, of_reply(named))
        results.append(result)
        if result.blocked:
            if guarding.refusal is None:
                raise GuardrailBlocked(result)
            refuse_choice(choice, guarding.refusal)
            yield from stand_in(guarding, asked.messages, guarding.refusal, named, result)
        else:
            redact_choice(choice, result)
    verdict = asked.result if not results else results[0] if len(results) == 1 else joined(results)
    return with_result(reply, verdict)


def says_anything(message: Mapping[str, Any]) -> bool:
    """Whether a reply holds text, calls or anything else that there is to check."""
    return any(message.get(key) is not None for key in _SPEAKING)


def refused(model: object, refusal: str) -> Any:
    """A completion with a set text, for a request that was not sent to the model."""
    from openai.types.chat import ChatCompletion

    message = {"role": "assistant", "content": refusal}
    choice = {"index": 0, "finish_reason": FILTERED, "message": message, "logprobs": None}
    given = {"id": f"chatcmpl-{uuid4().hex}", "object": "chat.completion", "created": int(time())}
    return ChatCompletion.model_validate({**given, "model": str(model), "choices": [choice]})


def refuse_choice(choice: Any, refusal: str) -> None:
    """Replace what a choice says by a set text."""
    message = choice.message
    for key in ("tool_calls", "function_call", "refusal", "audio", "parsed"):
        if getattr(message, key, None) is not None:
            setattr(message, key, None)
    message.content, choice.finish_reason = refusal, FILTERED
    if getattr(choice, "logprobs", None) is not None:
        choice.logprobs = None  # they spell the text


def redact_choice(choice: Any, result: PipelineResult) -> None:
    """Replace what a choice says by what guardrails redacted."""
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
