"""Lists of messages as a model may be sent them, after a check: without what was blocked, and redacted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from turnwise.conversation import Conversation, Role
from turnwise.conversation.messages import TEXT_PARTS
from turnwise.errors import GuardError
from turnwise.guard.guardrail import TextKind
from turnwise.guard.records import PipelineResult

_OURS: Final = (Role.SYSTEM, Role.DEVELOPER)


def redacted_messages(messages: Sequence[Mapping[str, Any]], result: PipelineResult) -> list[dict[str, Any]]:
    """Return a list of messages with the texts of the last check in the place of those that were checked.

    Args:
        messages: the list.
        result: what `GuardrailPipeline.check_messages` said of it.
    """
    sent = [dict(message) for message in messages]
    for part in result.parts or (result,):
        if part.pipeline_type is TextKind.TOOL_RESULT:
            _put_result(sent, part)
        elif part.pipeline_type is TextKind.TOOL_CALL:
            _put_call(sent[-1], part)
        else:
            sent[-1] = _with_text(sent[-1], part.text)
    return sent


def clean_messages(messages: Sequence[Mapping[str, Any]], chat: Conversation) -> list[dict[str, Any]]:
    """Return what a model may be sent of a conversation that a list of messages is of.

    Args:
        messages: the list, whose last messages stay as they are.
        chat: the conversation, up to them.
    """
    ours = [dict(message) for message in messages if message.get("role") in _OURS]
    sent = chat.to_messages()
    last = messages[-1]
    if sent and last.get("role") == Role.USER and sent[-1].get("role") == Role.USER:
        # What nobody reads of it, such as a picture, is part of no turn.
        sent[-1] = _with_text(dict(last), str(sent[-1]["content"]))
    return [*ours, *sent]


def texts_of(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the texts of messages one by one: content that is text, and parts that hold a ``text``."""
    texts: list[str] = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            texts.append(content)
        for part in content if isinstance(content, list) else ():
            if isinstance(part, Mapping) and isinstance(part.get("text"), str):
                texts.append(part["text"])
    return texts


def _with_text(message: dict[str, Any], text: str) -> dict[str, Any]:
    """Return a message with another text; parts that hold none stay."""
    content = message.get("content")
    if not isinstance(content, list):
        if content is None and isinstance(message.get("refusal"), str):
            return {**message, "refusal": text}
        return message if content == text else {**message, "content": text}
    said = [part for part in content if part.get("type") in TEXT_PARTS]
    if "\n".join(str(part.get(TEXT_PARTS[part["type"]])) for part in said) == text or not said:
        return message
    rest = [part for part in content if part.get("type") not in TEXT_PARTS]
    return {**message, "content": [{"type": "text", "text": text}, *rest]}


def _put_result(messages: list[dict[str, Any]], result: PipelineResult) -> None:
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if message.get("role") not in (Role.TOOL, Role.FUNCTION):
            break
        if result.call_id in (message.get("tool_call_id"), None) or message.get("name") == result.tool:
            messages[at] = _with_text(message, result.text)
            return
    raise GuardError("a result of a tool is not in the list; give the list that was checked")


def _put_call(message: dict[str, Any], result: PipelineResult) -> None:
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        message["tool_calls"] = [
            _with_arguments(call, result.text) if call.get("id") == result.call_id else call for call in calls
        ]
    elif isinstance(message.get("function_call"), Mapping):
        message["function_call"] = {**message["function_call"], "arguments": result.text}


def _with_arguments(call: Mapping[str, Any], text: str) -> dict[str, Any]:
    if isinstance(call.get("custom"), Mapping):
        return {**call, "custom": {**call["custom"], "input": text}}
    return {**call, "function": {**call["function"], "arguments": text}}
