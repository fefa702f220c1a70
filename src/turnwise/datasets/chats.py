"""Messages as data sets have them, as the messages that a conversation is built from."""

from __future__ import annotations

from typing import Any

from turnwise.datasets.protocol import RecordError
from turnwise.datasets.values import kind


def only_text(messages: list[Any]) -> list[Any]:
    """Return OpenAI messages after checking that what a person or a system prompt says is text.

    An assistant may have no text: a mere tool call. The rest is checked where the conversation is built.

    Args:
        messages: the list that stands in the record.

    Raises:
        RecordError: the list is empty, or a text is missing; the message counts from 1.
    """
    if not messages:
        raise RecordError("the conversation is empty: a list without messages")
    for number, message in enumerate(messages, start=1):
        if not isinstance(message, dict):
            raise RecordError(f"message {number} is {kind(message)}, not an object with role and content")
        if message.get("content") is None and message.get("role") != "assistant":
            raise RecordError(f"message {number} has no text: content is missing or null")
    return messages


def plain(messages: list[Any]) -> list[Any]:
    """Return messages with nothing but role and content, where a data set hangs other things on each of them.

    Raises:
        RecordError: as for `only_text`.
    """
    return [{key: message.get(key) for key in ("role", "content")} for message in only_text(messages)]
