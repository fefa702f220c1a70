"""Messages and replies of the `openai` package as the guard reads them, and as they go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import time
from typing import Any, Final
from uuid import uuid4

from turnwise.errors import GuardError
from turnwise.guard import PipelineResult, TextKind

RESULT: Final = "turnwise_result"
"""Attribute of a reply that has the verdict on it."""

FILTERED: Final = "content_filter"
"""Why a reply ended that was blocked, in the words of the API."""

_SMUGGLED: Final = frozenset(
    {"messages", "input", "prompt", "system", "instructions", "background", "previous_response_id", "conversation"}
    | {"stream", "n"}
)
"""Keys of a request that may not come in ``extra_body``, past the guard."""

_SPEAKING: Final = ("content", "tool_calls", "function_call", "refusal", "audio")


def plain_messages(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """Messages as dicts, also those that are objects of the package."""
    return [
        dict(message)
        if isinstance(message, Mapping)
        else message.model_dump(exclude_none=True, exclude={"parsed"}, warnings=False)
        for message in messages
    ]


def says_anything(message: Mapping[str, Any]) -> bool:
    """Whether a reply holds text, calls or anything else that there is to check."""
    return any(message.get(key) is not None for key in _SPEAKING)


def with_result(reply: Any, result: PipelineResult | None) -> Any:
    """Put the verdict on a reply as an attribute, which is no part of its JSON."""
    object.__setattr__(reply, RESULT, result)
    return reply


def refused(model: object, refusal: str) -> Any:
    """A completion with a set text, for a request that was not sent to the model."""
    from openai.types.chat import ChatCompletion

    message = {"role": "assistant", "content": refusal}
    choice = {"index": 0, "finish_reason": FILTERED, "message": message, "logprobs": None}
    given = {"id": f"chatcmpl-{uuid4().hex}", "object": "chat.completion", "created": int(time())}
    return ChatCompletion.model_validate({**given, "model": str(model), "choices": [choice]})


def refused_chunk(model: object, refusal: str) -> Any:
    """A piece of a completion that says a set text, and ends it."""
    from openai.types.chat import ChatCompletionChunk

    choice = {"index": 0, "delta": {"role": "assistant", "content": refusal}, "finish_reason": FILTERED}
    given = {"id": f"chatcmpl-{uuid4().hex}", "object": "chat.completion.chunk", "created": int(time())}
    return ChatCompletionChunk.model_validate({**given, "model": str(model), "choices": [choice]})


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


def parse_again(holder: Any, key: str, text: str) -> None:
    """Parse text that changed into the type that it was parsed into before; None where it no longer fits."""
    parsed = getattr(holder, key, None)
    if parsed is None:
        return
    try:
        setattr(holder, key, type(parsed).model_validate_json(text))
    except (AttributeError, ValueError):
        setattr(holder, key, None)


def refuse_smuggled(given: Mapping[str, Any]) -> None:
    """Raise GuardError where ``extra_body`` would change what was checked."""
    beside = sorted(_SMUGGLED & (given.get("extra_body") or {}).keys())
    if beside:
        raise GuardError(
            f"extra_body has {', '.join(beside)}, which would go past the guard; give it as an argument"
        )


def not_guarded(what: str, instead: str = "create or parse of chat.completions or responses") -> GuardError:
    """The error of a part of the surface that would go past the guard."""
    return GuardError(f"{what} is not guarded: use {instead}, or the client itself, as .unguarded")
