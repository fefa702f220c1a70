"""Any form of one conversation that turnwise reads, told apart by its shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnwise.conversation.conversation import Conversation
from turnwise.conversation.messages import from_messages
from turnwise.conversation.sharegpt import from_sharegpt
from turnwise.errors import ConversationError

ACCEPTED = (
    "a list of OpenAI messages ({'role', 'content'}), {'messages': [...]}, "
    "ShareGPT {'conversations': [{'from', 'value'}]}, a turnwise conversation ({'conversation_id', 'turns'}), "
    "or a turnwise data set line ({'id', 'turns': [{'role', 'content'}]})"
)


def from_any(data: object) -> Conversation:
    """Return the conversation that parsed JSON holds, in whichever known form.

    Args:
        data: a list of OpenAI messages, or an object with such a list as ``messages``; a ShareGPT item, or its
            bare list; what `Conversation.to_dict` gave; or a line of a turnwise data set. A label beside
            messages, entries or turns is left out: a conversation does not know its own label.

    Raises:
        ConversationError: none of these forms, or one that can't be read.

    >>> from_any([{"role": "user", "content": "Hi"}]).turn(1).prompt
    'Hi'
    >>> from_any({"conversations": ["Hi", "Hello"]}).turn(1).response
    'Hello'
    """
    if isinstance(data, list):
        return _from_list(data)
    if isinstance(data, Mapping):
        unlabelled = {key: value for key, value in data.items() if key != "label"}
        if "messages" in data:
            return from_messages(unlabelled.pop("messages"), conversation_id=_id(data), metadata=unlabelled)
        if "conversations" in data:
            return from_sharegpt(unlabelled)
        if "turns" in data:
            return _from_turns(data)
        keys = ", ".join(map(str, data)) or "none"
        raise ConversationError(f"not a conversation: an object with the keys {keys}; use {ACCEPTED}")
    raise ConversationError(f"not a conversation: {type(data).__name__}; use {ACCEPTED}")


def _from_list(data: list[Any]) -> Conversation:
    if not data:
        raise ConversationError(f"not a conversation: an empty list; use {ACCEPTED}")
    first = data[0]
    if isinstance(first, Mapping):
        if "role" in first:
            return from_messages(data)
        if "from" in first:
            return from_sharegpt({"conversations": data})
    raise ConversationError(f"not a conversation: a list that begins with {_shape(first)}; use {ACCEPTED}")


def _from_turns(data: Mapping[str, Any]) -> Conversation:
    turns = data["turns"]
    first = turns[0] if isinstance(turns, list) and turns else None
    if "conversation_id" in data or (isinstance(first, Mapping) and "prompt" in first):
        return Conversation.from_dict(data)
    metadata = data.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise ConversationError(f"metadata is {type(metadata).__name__}, not an object with keys")
    if "source" in data:
        metadata = {"source": data["source"], **metadata}
    return from_messages(turns, conversation_id=_id(data), metadata=metadata)


def _id(data: Mapping[str, Any]) -> str | None:
    name = data.get("id")
    return name if isinstance(name, str) and name else None


def _shape(value: object) -> str:
    return f"an object with the keys {', '.join(map(str, value))}" if isinstance(value, Mapping) else repr(value)
