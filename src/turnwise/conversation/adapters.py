"""Conversations out of OpenAI messages, ShareGPT items and whatever form one comes in, and back.

A ShareGPT item is ``{"conversations": [{"from": "human", "value": text}, ...]}`` with any other keys beside it;
some data sets have plain texts that alternate in place of the entries. OpenAI messages are written by
`Conversation.to_messages`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Unpack

from turnwise.conversation.conversation import Conversation
from turnwise.conversation.json_values import json_object
from turnwise.conversation.message_entries import MessageEntry, Role, write_sharegpt
from turnwise.conversation.message_formats import LEAD, OPENAI, SHAREGPT
from turnwise.conversation.participants import ConversationArguments
from turnwise.errors import ConversationError

LIST: Final = "conversations"
ITEM: Final = "item"
PLAIN: Final = "plain"
"""Keys of the list in an item, and of the rest of the item and the form of its list in metadata."""

ACCEPTED = (
    "a list of OpenAI messages ({'role', 'content'}), {'messages': [...]}, "
    "ShareGPT {'conversations': [{'from', 'value'}]}, a turnwise conversation ({'conversation_id', 'turns'}), "
    "or a turnwise data set line ({'id', 'turns': [{'role', 'content'}]})"
)


def from_messages(messages: object, **kwargs: Unpack[ConversationArguments]) -> Conversation:
    """Return the conversation of a list of OpenAI chat messages, without time stamps.

    Each user message begins a turn; all assistant texts up to the next one are its response, joined by newlines.
    An assistant that speaks first has a turn with an empty prompt. Calls and results of tools are parts of the
    turn (`Turn.tool_calls`, `Turn.tool_results`); those in Anthropic's form too, where results stand in a user
    message, which then begins no turn. What turns can't say (system messages, images) is kept in metadata, so that
    `Conversation.to_messages` gives the same list back.

    Args:
        messages: objects with ``role`` (system, developer, user, assistant, tool or function) and ``content``
            (text, a list of parts, or null).
        kwargs: as for the constructor of `Conversation`.

    Raises:
        ConversationError: an empty list, or an item that is no such message; the error names its place, from 1.

    >>> chat = from_messages([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])
    >>> chat.turn(1).prompt, chat.metadata
    ('Hi', {'messages': {'before': [{'role': 'system', 'content': 'Be brief.'}]}})
    >>> chat.to_messages()
    [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Hi'}]
    """
    lead, turns = OPENAI.turns(OPENAI.entries(messages))
    metadata = json_object(kwargs.get("metadata"), "metadata")
    if lead:
        if OPENAI.key in metadata:
            raise ConversationError(
                f"the metadata key {OPENAI.key!r} is reserved for the messages before the first "
                "turn; use another name for yours"
            )
        metadata[OPENAI.key] = {LEAD: lead}
    kwargs["metadata"] = metadata
    return Conversation.from_turns(turns, copy=False, **kwargs)


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
    entries = SHAREGPT.messages(conversation.metadata, conversation.turns)
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
            raise ConversationError(f"message {place} needs text: its content is missing or null")
        messages.append(message)
    return messages


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


def _entries(raws: object) -> tuple[list[MessageEntry], bool]:
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
        entries.append(write_sharegpt(Role.ASSISTANT if place % 2 else Role.USER, raw))
    return entries


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
