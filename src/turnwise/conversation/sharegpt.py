"""ShareGPT items to a conversation and back, without loss.

An item is ``{"conversations": [{"from": "human", "value": text}, ...]}`` with any other keys beside it; some data
sets have plain texts that alternate in place of the entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from turnwise.conversation.conversation import Conversation
from turnwise.conversation.entries import LEAD, Entry, Format, Role
from turnwise.conversation.json_values import json_object
from turnwise.conversation.messages import OPENAI
from turnwise.errors import ConversationError
from turnwise.visible import shown

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


def from_sharegpt(item: object, **kwargs: Any) -> Conversation:
    """Return the conversation of a ShareGPT item, without time stamps.

    Turns form as in `from_messages`. The item's ``id`` becomes the conversation's id where it is text and no
    other is given. Everything else about the item is kept in metadata, so `to_sharegpt` gives it back.

    Args:
        item: an object with a list ``conversations`` of objects with ``from`` and ``value``, or of plain texts
            that alternate, the user first. Speakers: human or user; gpt, chatgpt, bard, bing, assistant, bot or
            model; system; tool, function, function_call or observation.
        kwargs: as for the constructor of `Conversation`.

    Raises:
        ConversationError: no such item, an empty one, or an entry that is none; the error names its place,
            from 1.

    >>> chat = from_sharegpt({"id": "a7", "conversations": ["Hi", "Hello", "Bye"]})
    >>> chat.conversation_id, [(turn.prompt, turn.response) for turn in chat]
    ('a7', [('Hi', 'Hello'), ('Bye', None)])
    >>> to_sharegpt(chat)
    {'id': 'a7', 'conversations': ['Hi', 'Hello', 'Bye']}
    """
    if not isinstance(item, Mapping) or LIST not in item:
        raise ConversationError(f"a ShareGPT item is an object with a list under the key {LIST!r}")
    raws = item[LIST]
    plain = isinstance(raws, list | tuple) and any(isinstance(raw, str) for raw in raws)
    lead, turns = SHAREGPT.turns(SHAREGPT.entries(_alternating(raws) if plain else raws))
    rest = json_object({key: value for key, value in item.items() if key != LIST}, "the item")
    metadata = json_object(kwargs.pop("metadata", None), "metadata")
    if SHAREGPT.key in metadata:
        raise ConversationError(f"the metadata key {SHAREGPT.key!r} is needed for the item; rename yours")
    metadata[SHAREGPT.key] = {ITEM: rest, PLAIN: plain, LEAD: lead}
    name = rest.get("id")
    if isinstance(name, str) and name:
        kwargs.setdefault("conversation_id", name)
    return Conversation.from_turns(turns, metadata=metadata, **kwargs)


def to_sharegpt(conversation: Conversation) -> dict[str, Any]:
    """Return a conversation as a ShareGPT item; see `from_sharegpt`.

    One that did not come from ShareGPT has its id beside the entries. Of one that came from OpenAI messages,
    the texts of system and tool messages are kept.

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


def _alternating(raws: list[Any] | tuple[Any, ...]) -> list[dict[str, Any]]:
    entries = []
    for place, raw in enumerate(raws):
        if not isinstance(raw, str):
            raise ConversationError(f"entry {place + 1}: {type(raw).__name__} among plain texts; use one form")
        entries.append(_write(Role.ASSISTANT if place % 2 else Role.USER, raw))
    return entries


def _read(raw: object) -> Entry:
    if not isinstance(raw, Mapping):
        raise ConversationError(f"an entry is an object with from and value, not {type(raw).__name__}")
    speaker, value = raw.get("from"), raw.get("value")
    if not isinstance(speaker, str) or speaker.lower() not in SPEAKERS:
        raise ConversationError(f"unknown speaker {shown(speaker)}; known: {', '.join(SPEAKERS)}")
    if not isinstance(value, str):
        raise ConversationError(f"value is {type(value).__name__}, not text")
    speaker = speaker.lower()
    return Entry(SPEAKERS[speaker], None if speaker in CALLS else value, json_object(raw, "the entry"))


def _write(role: Role, text: str) -> dict[str, Any]:
    return {"from": NAMES[role], "value": text}


SHAREGPT: Final = Format(key="sharegpt", item="entry", read=_read, write=_write)
"""Entries of ShareGPT items."""
