"""ShareGPT items to a conversation and back, without loss.

An item is ``{"conversations": [{"from": "human", "value": text}, ...]}`` with any other keys beside it; some data
sets have plain texts that alternate in place of the entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Unpack

from turnwise._support.visible import shown
from turnwise.conversation.conversation import Conversation
from turnwise.conversation.json_values import json_object
from turnwise.conversation.messages import LEAD, OPENAI, Entry, Format, Role
from turnwise.conversation.options import ConversationArguments
from turnwise.errors import ConversationError

SPEAKERS: Final[Mapping[str, Role]] = {
    "human": Role.USER,
    "user": Role.USER,
    "gpt": Role.ASSISTANT,
    "chatgpt": Role.ASSISTANT,
    "bard": Role.ASSISTANT,
    "bing": Role.ASSISTANT,
    "assistant": Role.ASSISTANT,
    "bot": Role.ASSISTANT,
    "model": Role.ASSISTANT,
    "function_call": Role.ASSISTANT,
    "system": Role.SYSTEM,
    "tool": Role.TOOL,
    "function": Role.TOOL,
    "observation": Role.TOOL,
}
"""Names that ShareGPT data sets use, with whom they stand for."""

CALLS: Final = frozenset({"function_call"})
"""Entries of the assistant that are calls of a tool, not words to the user."""

NAMES: Final[Mapping[Role, str]] = {
    Role.SYSTEM: "system",
    Role.DEVELOPER: "system",
    Role.USER: "human",
    Role.ASSISTANT: "gpt",
    Role.TOOL: "tool",
    Role.FUNCTION: "tool",
}
"""The name under which each role is written."""

LIST: Final = "conversations"
ITEM: Final = "item"
PLAIN: Final = "plain"


def from_sharegpt(item: object, **kwargs: Unpack[ConversationArguments]) -> Conversation:
    """Return the conversation of a ShareGPT item, without time stamps.

    Turns form as in `from_messages`. The item's ``id`` becomes the conversation's id where it is text and no other
    is given. Everything else about the item is kept in metadata, so `to_sharegpt` gives it back.

    Args:
        item: an object with a list ``conversations`` of objects with ``from`` and ``value``, or of plain texts
            that alternate, the user first; an object may have ``role`` and ``content`` instead.
            Speakers: human or user; gpt, chatgpt, bard, bing, assistant, bot or model; system; tool, function,
            function_call or observation.
        kwargs: as for the constructor of `Conversation`.

    Raises:
        ConversationError: no such item, an empty list, or an entry that can't be read; the error names its place,
            from 1.

    >>> chat = from_sharegpt({"id": "a7", "conversations": ["Hi", "Hello", "Bye"]})
    >>> chat.conversation_id, [(turn.prompt, turn.response) for turn in chat]
    ('a7', [('Hi', 'Hello'), ('Bye', None)])
    >>> to_sharegpt(chat)
    {'id': 'a7', 'conversations': ['Hi', 'Hello', 'Bye']}
    """
    if not isinstance(item, Mapping) or LIST not in item:
        raise ConversationError(f"a ShareGPT item must be an object with a list under the key {LIST!r}")
    entries, plain = _entries(item[LIST])
    lead, turns = SHAREGPT.turns(entries)
    rest = json_object({key: value for key, value in item.items() if key != LIST}, "the item")
    metadata = json_object(kwargs.get("metadata"), "metadata")
    if SHAREGPT.key in metadata:
        raise ConversationError(
            f"the metadata key {SHAREGPT.key!r} is reserved for the ShareGPT item; use another name for yours"
        )
    kwargs["metadata"] = {**metadata, SHAREGPT.key: {ITEM: rest, PLAIN: plain, LEAD: lead}}
    name = rest.get("id")
    if isinstance(name, str) and name:
        kwargs.setdefault("conversation_id", name)
    return Conversation.from_turns(turns, copy=False, **kwargs)


def to_sharegpt(conversation: Conversation) -> dict[str, Any]:
    """Return a conversation as a ShareGPT item; see `from_sharegpt`.

    One that did not come from ShareGPT has its id beside the entries. Of one that came from OpenAI messages, the
    texts of system and tool messages are kept.

    >>> to_sharegpt(Conversation.from_turns([("Hi", None)], conversation_id="a7"))
    {'id': 'a7', 'conversations': [{'from': 'human', 'value': 'Hi'}]}
    """
    kept = conversation.metadata.get(SHAREGPT.key)
    entries = SHAREGPT.messages(conversation, (OPENAI,))
    if not isinstance(kept, Mapping) or not isinstance(kept.get(ITEM), Mapping):
        return {"id": conversation.conversation_id, LIST: entries}
    texts = [entry["value"] for entry in entries]
    # Plain texts can tell a conversation only while both sides take turns.
    as_texts = kept.get(PLAIN) is True and entries == _alternating(texts)
    return {**json_object(kept[ITEM], "the item"), LIST: texts if as_texts else entries}


def sharegpt_messages(entries: object) -> list[dict[str, Any]]:
    """Return the list of a ShareGPT item as OpenAI messages, as data set loaders take them.

    Args:
        entries: what an item has under ``conversations``.

    Raises:
        ConversationError: as for `from_sharegpt`, or an entry of anybody but the assistant has no words.

    >>> sharegpt_messages([{"from": "human", "value": "Hi"}])
    [{'role': 'user', 'content': 'Hi'}]
    >>> [message["role"] for message in sharegpt_messages(["Hi", "Hello", "Bye"])]
    ['user', 'assistant', 'user']
    """
    messages = []
    for place, entry in enumerate(_entries(entries)[0], start=1):
        message = {"role": str(entry.role), "content": entry.text}
        if "from" not in entry.raw:
            message = entry.raw
        elif entry.text is None:
            message["call"] = entry.raw["value"]  # no word to the user, so it stands beside an empty text
        if message.get("content") is None and entry.role is not Role.ASSISTANT:
            raise ConversationError(f"message {place} has no text: content is missing or null")
        messages.append(message)
    return messages


def _entries(raws: object) -> tuple[list[Entry], bool]:
    """The entries of a list, and whether it is one of plain texts."""
    plain = isinstance(raws, list | tuple) and any(isinstance(raw, str) for raw in raws)
    return SHAREGPT.entries(_alternating(raws) if plain else raws), plain  # type: ignore[arg-type]


def _alternating(raws: list[Any] | tuple[Any, ...]) -> list[dict[str, Any]]:
    entries = []
    for place, raw in enumerate(raws):
        if not isinstance(raw, str):
            raise ConversationError(
                f"message {place + 1}: {type(raw).__name__} among plain texts; use one form for all messages"
            )
        entries.append(_write(Role.ASSISTANT if place % 2 else Role.USER, raw))
    return entries


def _read(raw: object) -> Entry:
    if not isinstance(raw, Mapping):
        raise ConversationError(f"a message must be an object with from and value, not {type(raw).__name__}")
    if "from" not in raw and "role" in raw:
        return OPENAI.read(raw)
    speaker, value = raw.get("from"), raw.get("value")
    if not isinstance(speaker, str) or speaker.lower() not in SPEAKERS:
        raise ConversationError(f"unknown speaker {shown(speaker)}; known: {', '.join(SPEAKERS)}")
    if not isinstance(value, str):
        raise ConversationError(f"value is {type(value).__name__}, not text")
    speaker = speaker.lower()
    return Entry(SPEAKERS[speaker], None if speaker in CALLS else value, json_object(raw, "the entry"))


def _write(role: Role, text: str) -> dict[str, Any]:
    return {"from": NAMES[role], "value": text}


SHAREGPT: Final = Format(key="sharegpt", read=_read, write=_write)
"""Entries of ShareGPT items."""
