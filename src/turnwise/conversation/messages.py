"""Lists of messages to a conversation and back, without loss: what all formats share, and OpenAI's chat messages.

A turn is a user message and all that follows up to the next one. Where that is more than a user text and an
assistant text (tool calls, parts, extra keys), the messages are kept as they came in the turn's metadata, under
the key of their format, for the way back; those before the first turn are kept in the conversation's metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Unpack

from turnwise._support.visible import shown
from turnwise.conversation.json_values import json_object
from turnwise.conversation.tool_reading import (
    has_calls,
    has_results,
    read_calls,
    read_results,
    unread_calls,
    unread_part,
)
from turnwise.conversation.tools import TEXTS, ToolLog, says_anything, sendable, without_text
from turnwise.conversation.turn import OPENAI_KEY, Side, Turn
from turnwise.errors import ConversationError

if TYPE_CHECKING:
    from turnwise.conversation.conversation import Conversation
    from turnwise.conversation.options import ConversationArguments

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
    """One message, with a copy as it came; `text` is None where it has no words, such as a mere tool call."""

    role: Role
    text: str | None
    raw: Any


@dataclass(frozen=True, slots=True)
class Format:
    """A format of message lists; `key` is the metadata key under which it keeps what turns can't say.

    `read` raises ConversationError without saying which message it was: `entries` adds the place.
    """

    key: str
    read: Callable[[object], Entry]
    write: Callable[[Role, str], Any]

    def entries(self, raws: object) -> list[Entry]:
        """Read a list of messages; errors name the place of a message, from 1."""
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
        """The messages before the first turn as they came, and the turns, without time stamps."""
        lead, slices = _cut(entries)
        return [entry.raw for entry in lead], [
            self._turn(number, entries) for number, entries in enumerate(slices, start=1)
        ]

    def messages(
        self, conversation: Conversation, others: Items[Format], *, blocked: bool = True, until: int | None = None
    ) -> list[Any]:
        """A conversation as messages of this format, up to the turn `until`; it may come from one of the `others`.

        Unless `blocked`, what a guard blocked or still checks is left out; where that is the prompt, the whole
        turn.
        """
        sources = (self, *others)
        messages = self._lead(conversation.metadata, sources)
        gone: set[str] = set()
        for turn in conversation.turns[:until]:
            if blocked:
                messages.extend(self._slice(turn, sources))
            elif not turn.withheld(Side.PROMPT):
                messages.extend(self._sendable(turn, sources, gone))
        return messages

    def _sendable(self, turn: Turn, sources: Items[Format], gone: set[str]) -> list[Any]:
        """The messages of a turn whose prompt is not withheld, without the parts that are."""
        mute = turn.withheld(Side.RESPONSE)
        if not any(source.key in turn.own_metadata for source in sources):
            return self._plain(turn.prompt, None if mute else turn.response)
        withheld = turn.withheld_tools()
        messages = self._slice(turn, sources)
        if not (withheld or mute or gone):
            return messages
        entries = self._kept(messages)
        last = _last_step(entries)
        if mute and last < 0:
            return self._plain(turn.prompt, None)
        # What an import has for a response is all that the assistant said in the turn.
        muted = (-1 if _texts(entries)[1] == turn.response else last) if mute else len(entries)
        texts = {identity for section, identity in withheld if section == TEXTS}
        beside = first_calls(messages)
        silent = [
            at
            for at, entry in enumerate(entries)
            if entry.role is Role.ASSISTANT and (at > muted or beside.get(at) in texts)
        ]
        return sendable(messages, withheld=withheld, silent=silent, gone=gone)

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

    def _slice(self, turn: Turn, sources: Items[Format], *, whole: bool = True) -> list[Any]:
        """The messages of a turn; unless `whole`, without a response that does not stand among them."""
        response = turn.response
        for source in sources:
            lead, slices = _cut(source._kept(turn.own_metadata.get(source.key)))
            if lead or len(slices) != 1:
                continue
            told = _texts(slices[0])
            # Beside calls a text is no response, unless it was taken for a part of one when it was read.
            final = told[1] if told[1] == response else _texts(slices[0], after_tools=True)[1]
            # Metadata is the user's: a slice that tells another story than the turn is not ours, or is stale.
            if told[0] != turn.prompt or final not in (None, response):
                continue
            raws = self._from(slices[0], source)
            if final is None and response is not None and whole:
                raws.append(self.write(Role.ASSISTANT, response))
            return raws
        return self._plain(turn.prompt, response if whole else None)

    def _lead(self, metadata: Mapping[str, Any], sources: Items[Format]) -> list[Any]:
        for source in sources:
            kept = metadata.get(source.key)
            lead, slices = _cut(source._kept(kept.get(LEAD) if isinstance(kept, Mapping) else None))
            if lead and not slices:
                return self._from(lead, source)
        return []

    def _kept(self, raws: object) -> list[Entry]:
        """What metadata holds under this format's key; nothing where it is not ours."""
        if raws is None:
            return []
        try:
            return self.entries(raws)
        except ConversationError:
            return []

    def _from(self, entries: Iterable[Entry], source: Format) -> list[Any]:
        """Entries as messages of this format: its own as they came, of others the texts, for OpenAI calls too."""
        if source is self:
            return [entry.raw for entry in entries]
        log = ToolLog([])
        for entry in entries:
            if self.key == OPENAI_KEY:
                for call in read_calls(entry.raw):
                    log.add_call(call.name, call.text, call.call_id)
                results = list(read_results(entry.raw))
                for result in results:
                    log.add_result(result.text, result.call_id, result.name)
                if results:
                    continue
            if entry.text is not None:
                log.messages.append(self.write(entry.role, entry.text))
        return log.messages


def _cut(entries: Iterable[Entry]) -> tuple[list[Entry], list[list[Entry]]]:
    """Split messages into those before the first turn and one list for each turn."""
    lead: list[Entry] = []
    slices: list[list[Entry]] = []
    for entry in entries:
        # What a tool gave back is no prompt, though some formats have it in the user's name.
        only_results = entry.text is None and has_results(entry.raw)
        opens = (entry.role is Role.USER and not only_results) or (entry.role is Role.ASSISTANT and not slices)
        if opens:
            slices.append([entry])
        else:
            (slices[-1] if slices else lead).append(entry)
    return lead, slices


def _texts(entries: Items[Entry], *, after_tools: bool = False) -> tuple[str, str | None]:
    """Prompt and response in a turn's messages; with `after_tools`, only what was said after the last tool."""
    first = entries[0]
    prompt = first.text if first.role is Role.USER and first.text is not None else ""
    spoken = entries[_last_step(entries) + 1 :] if after_tools else entries
    said = [entry.text for entry in spoken if entry.role is Role.ASSISTANT and entry.text is not None]
    return prompt, "\n".join(said) if said else None


def _last_step(entries: Items[Entry]) -> int:
    """Index of the last message with a call or a result; -1 without one."""
    for at in reversed(range(len(entries))):
        if has_calls(entries[at].raw) or has_results(entries[at].raw):
            return at
    return -1


def first_calls(messages: list[Any]) -> dict[int, str]:
    """The id of the first call in each message that has one, by index; the text beside calls goes by that id."""
    found: dict[int, str] = {}
    for call in ToolLog(messages).calls.values():
        found.setdefault(call.place.message, call.call_id)
    return found


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

CALL_KEYS: Final = ("tool_calls", "function_call")
"""Those of them that hold calls of tools, which are read."""

_KIND = 30
"""Characters that the type of a content part has at most where it is named."""


def from_messages(messages: object, **kwargs: Unpack[ConversationArguments]) -> Conversation:
    """Return the conversation of a list of OpenAI chat messages, without time stamps.

    Each user message begins a turn; all assistant texts up to the next one are its response, joined by newlines.
    An assistant that speaks first has a turn with an empty prompt. Calls and results of tools are parts of the
    turn (`Turn.tool_calls`, `Turn.tool_results`); those in Anthropic's form too, where results stand in a user
    message, which then begins no turn. What turns can't say (system messages, images) is kept in metadata, so that
    `to_messages` gives the same list back.

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
    from turnwise.conversation.conversation import Conversation

    return Conversation.from_messages(messages, **kwargs)


def to_messages(conversation: Conversation, *, blocked: bool = False) -> list[dict[str, Any]]:
    """Return a conversation as OpenAI chat messages, as a model may be sent them; see `from_messages`.

    A response that was added later follows its turn. Of a conversation that came from ShareGPT, texts, calls and
    what tools gave back are kept.

    Args:
        conversation: the conversation.
        blocked: whether to include what a guard blocked or still checks, which a model should not see. Without it
            such a call is left out with its result, and such a result alone becomes ``[tool result withheld]``,
            since providers refuse a call without a result as they do a result without its call.

    >>> from turnwise.conversation import Conversation
    >>> chat = Conversation.from_turns([("Hi", "Hello"), ("Bye", None)])
    >>> [message["role"] for message in to_messages(chat)]
    ['user', 'assistant', 'user']
    """
    return conversation.to_messages(blocked=blocked)


def read_messages(messages: object, metadata: object) -> tuple[list[Turn], dict[str, Any]]:
    """The turns of a list of messages, and the metadata of their conversation; errors as for `from_messages`."""
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


def write_messages(conversation: Conversation, *, blocked: bool, until: int | None) -> list[dict[str, Any]]:
    """A conversation as messages, see `Conversation.to_messages`; the caller holds the conversation's lock."""
    from turnwise.conversation.sharegpt import SHAREGPT

    return OPENAI.messages(conversation, (SHAREGPT,), blocked=blocked, until=until)


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
    """What a valid message holds beside the text that is read of it, each by its place.

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
            left = unread_part(part, message.get("role"))
            if left is not None:
                plain = len(left) <= _KIND and left.replace(" ", "_").isidentifier()
                found.append(f"content part {place} ({left if plain else 'of an unknown type'})")
    for key in SPEAKING_KEYS:
        said = key == "refusal" and content is None
        if message.get(key) and not said and key not in CALL_KEYS:
            found.append(key)
    if not isinstance(message.get("name"), str | None):
        found.append("name")
    if message.get("role") != Role.ASSISTANT:
        return found + [key for key in CALL_KEYS if message.get(key)]
    return found + unread_calls(message)


def _write(role: Role, text: str) -> dict[str, Any]:
    return {"role": role.value, "content": text}


OPENAI: Final = Format(key=OPENAI_KEY, read=_read, write=_write)
"""OpenAI chat messages."""


def messages_of_turn(turn: Turn, *, whole: bool = True) -> list[dict[str, Any]]:
    """The messages of a turn in OpenAI's form, none of a mere empty prompt; `whole` as for `Format._slice`."""
    from turnwise.conversation.sharegpt import SHAREGPT

    messages = OPENAI._slice(turn, (OPENAI, SHAREGPT), whole=whole)
    return [] if messages == [_write(Role.USER, "")] else messages


def has_response(messages: list[Any], response: str) -> bool:
    """Whether a turn's messages hold a response: what was said after the last tool, or all that was said."""
    entries = OPENAI._kept(messages or None)
    return bool(entries) and response in (_texts(entries)[1], _texts(entries, after_tools=True)[1])


def only_beside_calls(messages: list[Any], response: str) -> bool:
    """Whether the response is all that was said in the turn, and none of it came after the last tool."""
    entries = OPENAI._kept(messages or None)
    return bool(entries) and _texts(entries)[1] == response and _texts(entries, after_tools=True)[1] is None


def with_text(turn: Turn, side: Side, text: str) -> list[dict[str, Any]] | None:
    """The messages of a turn with another text on one side; None for a turn without tools.

    A new response replaces all that the assistant said in the turn, where all of that was the response; else only
    what it said after the last tool.
    """
    messages = messages_of_turn(turn)
    if not ToolLog(messages):
        return None
    if side is Side.PROMPT:
        rest = [_without_words(one) if one.get("role") == Role.USER else one for one in messages]
        kept = [one for one in rest if one.get("role") != Role.USER or says_anything(one)]
        first = next((at for at, one in enumerate(kept) if one.get("role") == Role.ASSISTANT), len(kept))
        return [*kept[:first], _write(Role.USER, text), *kept[first:]]
    entries = OPENAI._kept(messages)
    first = 0 if _texts(entries)[1] == turn.response else _last_step(entries) + 1
    spoken = [
        without_text(one) if at >= first and one.get("role") == Role.ASSISTANT else one
        for at, one in enumerate(messages)
    ]
    rest = [one for one in spoken if one.get("role") != Role.ASSISTANT or says_anything(one)]
    return [*rest, _write(Role.ASSISTANT, text)]


def _without_words(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    parts = [part for part in content if part["type"] not in TEXT_PARTS] if isinstance(content, list) else None
    return {**message, "content": parts}
