"""Messages of inspect_ai in OpenAI's shape, for logs, attack sources and scorers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inspect_ai.model import ChatMessage


def openai_messages(messages: str | Iterable[ChatMessage]) -> list[dict[str, Any]]:
    """Convert messages of inspect_ai, or one text of the user; images, audio and reasoning are left out.

    >>> openai_messages("Hi")
    [{'role': 'user', 'content': 'Hi'}]
    """
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    return [_message(message) for message in messages]


def _message(message: ChatMessage) -> dict[str, Any]:
    made: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.role == "assistant" and message.tool_calls:
        made["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function, "arguments": json.dumps(call.arguments)},
            }
            for call in message.tool_calls
        ]
    if message.role == "tool" and message.tool_call_id is not None:
        made["tool_call_id"] = message.tool_call_id
    return made
