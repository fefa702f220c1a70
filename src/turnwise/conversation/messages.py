"""Lists of messages to a conversation and back, without loss: what all formats share, and OpenAI's chat messages.

A turn takes its user message and all that follows up to the next one. Where that slice is just one user text
and one assistant text, the turn says it all. Any other slice (tool calls, parts, extra keys) is kept as it
came in the turn's metadata, under the key of its format, and is what the way back gives. What comes before
the first turn is kept in the metadata of the conversation.

OpenAI's format is that of the ``messages`` of its chat completions: objects with ``role`` and ``content``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from turnwise.conversation.conversation import Conversation
from turnwise.conversation.json_values import json_object
from turnwise.conversation.turn import Side, Turn
from turnwise.errors import ConversationError
from turnwise.visible import shown

LEAD = "before"
"""Key of the messages before the first turn, in what a format keeps in a conversation's metadata."""


class Role(StrEnum):
    """Who a message is from."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    FUNCTION = "function"


@dataclass(frozen=True, slots=True)
class Entry:
    """One message.

    Args:
        role: who it is from.
        text: what it says; None where it has no words, such as a mere tool call.
        raw: a copy of the message as it came.
    """

    role: Role
    text: str | None
    raw: Any


@dataclass(frozen=True, slots=True)
class Format:
    """A format of message lists.

    Args:
        key: the metadata key under which it keeps what turns can't say.
        read: reads one message; raises ConversationError without saying which message it was.
        write: gives the message of a role and a text.
    """

    key: str
    read: Callable[[object], Entry]
    write: Callable[[Role, str], Any]

    def entries(self, raws: object) -> list[Entry]:
        """Read a list of messages.

        Raises:
            ConversationError: no list, an empty one, or a message that can't be read, with its place from 1.
        """
        if not isinstance(raws, list | tuple):
            raise ConversationError(f"expected a list of message objects, not {type(raws).__name__}")
        if not raws:
            raise ConversationError("the conversation is empty: a list without messages")
        entries = []
        for place, raw in enumerate(raws, start=1):
            try:
                entries.append(self.read(raw))
            except ConversationError as error:
                raise ConversationError(f"message {place}: {error}") from None
        return entries

    def turns(self, entries: Iterable[Entry]) -> tuple[list[Any], list[Turn]]:
        """Return the messages before the first turn as they came, and the turns, without time stamps."""
        lead, slices = _cut(entries)
        return [entry.raw for entry in lead], [
            self._turn(number, entries) for number, entries in enumerate(slices, start=1)
        ]

    def messages(self, conversation: Conversation, others: Items[Format], *, blocked: bool = True) -> list[Any]:
        """Return a conversation as messages of this format.

        Args:
            conversation: the conversation.
            others: further formats that it may come from; of their messages, the texts are kept.
            blocked: whether what a guard blocked or still checks is among them. Without a prompt its turn is
                left out whole.
        """
        sources = (self, *others)
        messages = self._lead(conversation.metadata, sources)
        for turn in conversation:
            if blocked or not (turn.withheld(Side.PROMPT) or turn.withheld(Side.RESPONSE)):
                messages.extend(self._slice(turn, sources))
            elif not turn.withheld(Side.PROMPT):
                messages.extend(self._plain(turn.prompt, None))
        return messages

    def _turn(self, number: int, entries: Items[Entry]) -> Turn:
        prompt, response = _texts(entries)
        raws = [entry.raw for entry in entries]
        metadata = {} if raws == self._plain(prompt, response) else {self.key: raws}
        return Turn(number, prompt, response, metadata=metadata)

    def _plain(self, prompt: str, response: str | None) -> list[Any]:
        # An empty prompt is no message where the other side spoke first.
        plain = [self.write(Role.USER, prompt)] if prompt or response is None else []
        if response is not None:
            plain.append(self.write(Role.ASSISTANT, response))
        return plain

    def _slice(self, turn: Turn, sources: Items[Format]) -> list[Any]:
        response = turn.response
        for source in sources:
            lead, slices = _cut(source._kept(turn.metadata.get(source.key)))
            if lead or len(slices) != 1:
                continue
            told = _texts(slices[0])
            # Metadata is the user's: a slice that tells another story than the turn is not ours, or is stale.
            if told[0] != turn.prompt or told[1] not in (None, response):
                continue
            raws = [raw for entry in slices[0] for raw in self._translated(entry, source)]
            if told[1] is None and response is not None:
                raws.append(self.write(Role.ASSISTANT, response))
            return raws
        return self._plain(turn.prompt, response)

    def _lead(self, metadata: Mapping[str, Any], sources: Items[Format]) -> list[Any]:
        for source in sources:
            kept = metadata.get(source.key)
            lead, slices = _cut(source._kept(kept.get(LEAD) if isinstance(kept, Mapping) else None))
            if lead and not slices:
                return [raw for entry in lead for raw in self._translated(entry, source)]
        return []

    def _kept(self, raws: object) -> list[Entry]:
        """Read what metadata holds under this format's key; nothing where it is not ours."""
        if raws is None:
            return []
        try:
            return self.entries(raws)
        except ConversationError:
            return []

    def _translated(self, entry: Entry, source: Format) -> list[Any]:
        if source is self:
            return [entry.raw]
        return [] if entry.text is None else [self.write(entry.role, entry.text)]


def _cut(entries: Iterable[Entry]) -> tuple[list[Entry], list[list[Entry]]]:
    """Part messages into those before the first turn and one list a turn."""
    lead: list[Entry] = []
    slices: list[list[Entry]] = []
    for entry in entries:
        opens = entry.role is Role.USER or (entry.role is Role.ASSISTANT and not slices)
        if opens:
            slices.append([entry])
        else:
            (slices[-1] if slices else lead).append(entry)
    return lead, slices


def _texts(entries: Items[Entry]) -> tuple[str, str | None]:
    """Return the prompt and the response that the messages of one turn tell."""
    first = entries[0]
    prompt = first.text if first.role is Role.USER and first.text is not None else ""
    said = [entry.text for entry in entries if entry.role is Role.ASSISTANT and entry.text is not None]
    return prompt, "\n".join(said) if said else None


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
                f"the metadata key {OPENAI.key!r} is reserved for the messages before the first "
                "turn; use another name for yours"
            )
        known[OPENAI.key] = {LEAD: lead}
    return turns, known


def write_messages(conversation: Conversation, *, blocked: bool) -> list[dict[str, Any]]:
    """Return a conversation as messages, while nobody changes it; arguments as for `to_messages`."""
    from turnwise.conversation.sharegpt import SHAREGPT

    return OPENAI.messages(conversation, (SHAREGPT,), blocked=blocked)


def _read(raw: object) -> Entry:
    if not isinstance(raw, Mapping):
        raise ConversationError(f"a message must be an object with role and content, not {type(raw).__name__}")
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
        raise ConversationError(f"content part {place} is not an object with a type, such as text")
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


OPENAI: Final = Format(key="messages", read=_read, write=_write)
"""OpenAI chat messages."""
