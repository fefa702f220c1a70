"""OpenAI chat messages to a conversation and back, without loss.

The format is that of the ``messages`` of OpenAI's chat completions: objects with ``role`` and ``content``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from turnwise.conversation.conversation import Conversation
from turnwise.conversation.entries import LEAD, Entry, Format, Role
from turnwise.conversation.json_values import json_object
from turnwise.conversation.turn import Turn
from turnwise.errors import ConversationError
from turnwise.visible import shown

ROLES: Final = frozenset(Role)
"""All roles; a text is looked up here because Python 3.11 can't look one up in the enumeration."""

TEXT_PARTS: Final[Mapping[str, str]] = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
}
"""Types of content parts that say something, with the key of what they say."""

SPEAKING_KEYS: Final = (
    "refusal",
    "tool_calls",
    "function_call",
    "audio",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "thinking",
)
"""Keys of a message beside its content under which it may say more."""

_KIND = 30
"""Characters that the type of a content part has at most where it is named."""


def from_messages(messages: object, **kwargs: Any) -> Conversation:
    """Return the conversation of a list of OpenAI chat messages, without time stamps.

    Each user message begins a turn; all assistant texts up to the next one are its response, joined by
    newlines. An assistant that speaks first has a turn with an empty prompt. What turns can't say (system
    messages, tool calls, images) is kept in metadata, so `to_messages` gives the same list back.

    Args:
        messages: objects with ``role`` (system, developer, user, assistant, tool or function) and ``content``
            (text, a list of parts, or null).
        kwargs: as for the constructor of `Conversation`.

    Raises:
        ConversationError: an empty list, or a message that is none; the error names its place, from 1.

    >>> chat = from_messages([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])
    >>> chat.turn(1).prompt, chat.metadata
    ('Hi', {'messages': {'before': [{'role': 'system', 'content': 'Be brief.'}]}})
    >>> chat.to_messages()
    [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Hi'}]
    """
    return Conversation.from_messages(messages, **kwargs)


def to_messages(conversation: Conversation, *, blocked: bool = False) -> list[dict[str, Any]]:
    """Return a conversation as OpenAI chat messages, as a model may be sent them; see `from_messages`.

    A response that was added later follows its turn. Of a conversation that came from ShareGPT, the texts of
    system and tool entries are kept.

    Args:
        conversation: the conversation.
        blocked: whether prompts and responses that a guard blocked, or still checks, are among them. A model
            should not see them.

    >>> chat = Conversation.from_turns([("Hi", "Hello"), ("Bye", None)])
    >>> [message["role"] for message in to_messages(chat)]
    ['user', 'assistant', 'user']
    """
    return conversation.to_messages(blocked=blocked)


def read_messages(messages: object, metadata: object) -> tuple[list[Turn], dict[str, Any]]:
    """Return the turns of a list of messages, and the metadata of their conversation.

    Args:
        messages: as for `from_messages`.
        metadata: what else is known of the conversation.

    Raises:
        ConversationError: as for `from_messages`, or the metadata already has the key that is needed.
    """
    lead, turns = OPENAI.turns(OPENAI.entries(messages))
    known = json_object(metadata, "metadata")
    if lead:
        if OPENAI.key in known:
            raise ConversationError(
                f"the metadata key {OPENAI.key!r} is needed for the messages before the first turn; rename yours"
            )
        known[OPENAI.key] = {LEAD: lead}
    return turns, known


def write_messages(conversation: Conversation, *, blocked: bool) -> list[dict[str, Any]]:
    """Return a conversation as messages, while nobody changes it; arguments as for `to_messages`."""
    from turnwise.conversation.sharegpt import SHAREGPT

    return OPENAI.messages(conversation, (SHAREGPT,), blocked=blocked)


def _read(raw: object) -> Entry:
    if not isinstance(raw, Mapping):
        raise ConversationError(f"a message is an object with role and content, not {type(raw).__name__}")
    role = raw.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise ConversationError(f"unknown role {shown(role)}; known: {', '.join(Role)}")
    text = _text(raw, Role(role))
    return Entry(Role(role), text, json_object(raw, "the message"))


def _text(message: Mapping[str, Any], role: Role) -> str | None:
    if "content" not in message and role is not Role.ASSISTANT:
        raise ConversationError(f"a {role} message needs content: text, a list of parts, or null")
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [_part(place, part) for place, part in enumerate(content, start=1)]
        said = [part for part in parts if part is not None]
        return "\n".join(said) if said else None
    if content is None:
        refusal = message.get("refusal")
        return refusal if isinstance(refusal, str) else None
    raise ConversationError(f"content is {type(content).__name__}; use text, a list of parts, or null")


def _part(place: int, part: object) -> str | None:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(part, Mapping) or not isinstance(kind, str):
        raise ConversationError(f"content part {place} is no object with a type, such as text")
    if kind not in TEXT_PARTS:
        return None
    text = part.get(TEXT_PARTS[kind])
    if not isinstance(text, str):
        raise ConversationError(f"content part {place}: {TEXT_PARTS[kind]} is {type(text).__name__}, not text")
    return text


def unread(message: Mapping[str, Any]) -> list[str]:
    """Return what a valid message holds beside the text that is read of it, each by its place.

    Args:
        message: the message.

    >>> picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    >>> unread({"role": "user", "content": [{"type": "text", "text": "Look:"}, picture]})
    ['content part 2 (image_url)']
    """
    content = message.get("content")
    found = []
    for place, part in enumerate(content if isinstance(content, list) else (), start=1):
        kind = part["type"]
        if kind not in TEXT_PARTS:
            # A type is text of others: one that does not look like a type is not repeated.
            named = kind if kind.isidentifier() and len(kind) <= _KIND else "of an unknown type"
            found.append(f"content part {place} ({named})")
    for key in SPEAKING_KEYS:
        said = key == "refusal" and content is None
        if message.get(key) and not said:
            found.append(key)
    return found


def _write(role: Role, text: str) -> dict[str, Any]:
    return {"role": role.value, "content": text}


OPENAI: Final = Format(key="messages", item="message", read=_read, write=_write)
"""OpenAI chat messages."""
