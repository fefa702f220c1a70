"""Lists of messages to turns and back, without loss.

A turn is a user message and all that follows up to the next one. Where that is more than a user text and an
assistant text (tool calls, parts, extra keys), the messages are kept as they came in the turn's metadata, under
the key of their format, for the way back; those before the first turn are kept in the conversation's metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Any, Final

from turnwise.conversation.message_entries import (
    TEXT_PARTS,
    MessageEntry,
    Role,
    has_calls,
    has_results,
    is_thinking,
    read_calls,
    read_openai,
    read_results,
    read_sharegpt,
    write_openai,
    write_sharegpt,
)
from turnwise.conversation.tool_log import CALLS, RESULTS, TEXTS, MessagePlace, ToolLog
from turnwise.conversation.turn import MESSAGE_KEYS, OPENAI_KEY, SHAREGPT_KEY, Side, Turn
from turnwise.errors import ConversationError

WITHHELD_RESULT: Final = "[tool result withheld]"
"""What a model is sent in place of a result that a guard blocked or still checks: providers ask for one to each
call."""


def sendable(
    messages: Items[dict[str, Any]],
    *,
    withheld: Collection[tuple[str, str]],
    silent: Collection[int],
    gone: set[str],
) -> list[dict[str, Any]]:
    """The messages of a turn, which are changed, as a model may be sent them.

    `withheld` has pairs of `CALLS` or `RESULTS` and an id, `silent` the indices of the assistant's messages whose
    text must not go on, and `gone` the ids of calls that were left out so far, to which this turn's are added.
    """
    log = ToolLog(list(messages))
    emptied: dict[int, set[MessagePlace]] = {}
    dropped = {call.call_id for call in log.calls.values() if (CALLS, call.call_id) in withheld}
    for identity in dropped:
        place = log.calls[identity].place
        emptied.setdefault(place.message, set()).add(place)
    gone |= dropped
    for result in log.results.values():
        if result.call_id in (gone if result.alone else dropped):
            emptied.setdefault(result.place.message, set()).add(result.place)
        elif (RESULTS, result.call_id) in withheld:
            log.replace(result, WITHHELD_RESULT, whole=True)
    kept = []
    for at, message in enumerate(log.messages):
        places = emptied.get(at, ())
        left = _without(message, places) if places else message
        if at in silent:
            left = without_text(left)
        if left is message or says_anything(left):
            kept.append(left)
    return kept


def _without(message: dict[str, Any], places: Iterable[MessagePlace]) -> dict[str, Any]:
    left = dict(message)
    for key in {place.key for place in places}:
        indices = {place.at for place in places if place.key == key}
        if None in indices:
            left.pop(key)
            continue
        rest = [one for index, one in enumerate(message[key]) if index not in indices]
        if any(not is_thinking(one) for one in rest):
            left[key] = rest
        else:
            left.pop(key)
    return left


def without_text(message: dict[str, Any]) -> dict[str, Any]:
    """A message without its words; calls stay."""
    content = message.get("content")
    left = {key: value for key, value in message.items() if key != "refusal"}
    parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    if any(part.get("type") == "tool_use" for part in parts):
        return {**left, "content": [part for part in parts if part.get("type") == "tool_use" or is_thinking(part)]}
    return {**left, "content": None}


def says_anything(message: Mapping[str, Any]) -> bool:
    """Whether a message holds words, parts or calls."""
    keys = ("content", "tool_calls", "function_call", "call", "value")
    return any(message.get(key) for key in keys)


LEAD = "before"  # key of the messages before the first turn, in what a format keeps in a conversation's metadata


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """A format of message lists."""

    key: str  # of metadata, under which it keeps what turns can't say
    read: Callable[[object], MessageEntry]
    write: Callable[[Role, str], Any]

    def entries(self, raws: object) -> list[MessageEntry]:
        """Read a list of messages; errors name the place of a message, from 1."""
        if not isinstance(raws, list | tuple):
            raise ConversationError(f"expected a list of message objects, not {type(raws).__name__}")
        if not raws:
            raise ConversationError("the conversation is empty: it needs at least one message")
        entries = []
        for place, raw in enumerate(raws, start=1):
            try:
                entries.append(self.read(raw))
            except ConversationError as error:
                raise ConversationError(f"message {place}: {error}") from None
        return entries

    def turns(self, entries: Iterable[MessageEntry]) -> tuple[list[Any], list[Turn]]:
        """The messages before the first turn as they came, and the turns, without time stamps."""
        lead, slices = cut(entries)
        return [entry.raw for entry in lead], [
            self._turn(number, entries) for number, entries in enumerate(slices, start=1)
        ]

    def messages(self, metadata: Mapping[str, Any], turns: Iterable[Turn], *, blocked: bool = True) -> list[Any]:
        """A conversation as messages of this format; unless `blocked`, without what a guard blocked or checks."""
        messages = self._lead(metadata)
        gone: set[str] = set()
        for turn in turns:
            if turn.silent:
                continue
            if blocked:
                messages.extend(self.slice(turn))
            elif not turn.withheld(Side.PROMPT):
                messages.extend(self._sendable(turn, gone))
        return messages

    def slice(self, turn: Turn, *, whole: bool = True) -> list[Any]:
        """The messages of a turn; unless `whole`, without a response that does not stand among them."""
        response = turn.response
        for source in self._sources:
            lead, slices = cut(source.kept(turn.own_metadata.get(source.key)))
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

    def kept(self, raws: object) -> list[MessageEntry]:
        """What metadata holds under this format's key; nothing where it is not ours."""
        if raws is None:
            return []
        try:
            return self.entries(raws)
        except ConversationError:
            return []

    @property
    def _sources(self) -> tuple[MessageFormat, MessageFormat]:
        """The formats that metadata may be kept in, this one first."""
        return (OPENAI, SHAREGPT) if self is OPENAI else (SHAREGPT, OPENAI)

    def _sendable(self, turn: Turn, gone: set[str]) -> list[Any]:
        """The messages of a turn whose prompt is not withheld, without the parts that are."""
        mute = turn.withheld(Side.RESPONSE)
        if not any(key in turn.own_metadata for key in MESSAGE_KEYS):
            return self._plain(turn.prompt, None if mute else turn.response)
        withheld = turn.withheld_tools()
        messages = self.slice(turn)
        if not (withheld or mute or gone):
            return messages
        entries = self.kept(messages)
        last = last_step(entries)
        if mute and last < 0:
            return self._plain(turn.prompt, None)
        # What an import has for a response is all that the assistant said in the turn.
        muted = (-1 if _texts(entries)[1] == turn.response else last) if mute else len(entries)
        texts = {identity for section, identity in withheld if section == TEXTS}
        beside = ToolLog(messages).first_calls
        silent = [
            at
            for at, entry in enumerate(entries)
            if entry.role is Role.ASSISTANT and (at > muted or beside.get(at) in texts)
        ]
        return sendable(messages, withheld=withheld, silent=silent, gone=gone)

    def _turn(self, number: int, entries: Items[MessageEntry]) -> Turn:
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

    def _lead(self, metadata: Mapping[str, Any]) -> list[Any]:
        for source in self._sources:
            kept = metadata.get(source.key)
            lead, slices = cut(source.kept(kept.get(LEAD) if isinstance(kept, Mapping) else None))
            if lead and not slices:
                return self._from(lead, source)
        return []

    def _from(self, entries: Iterable[MessageEntry], source: MessageFormat) -> list[Any]:
        """Entries as messages of this format: its own as they came, of others the texts, for OpenAI calls too."""
        if source is self:
            return [entry.raw for entry in entries]
        log = ToolLog([])
        for entry in entries:
            if self is OPENAI:
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


OPENAI: Final = MessageFormat(key=OPENAI_KEY, read=read_openai, write=write_openai)  # OpenAI chat messages
SHAREGPT: Final = MessageFormat(
    key=SHAREGPT_KEY, read=read_sharegpt, write=write_sharegpt
)  # entries of ShareGPT items


def messages_of_turn(turn: Turn, *, whole: bool = True) -> list[dict[str, Any]]:
    """The messages of a turn in OpenAI's form, none of an empty prompt; `whole` as for `MessageFormat.slice`."""
    messages = OPENAI.slice(turn, whole=whole)
    return [] if messages == [write_openai(Role.USER, "")] else messages


def has_response(messages: list[Any], response: str) -> bool:
    """Whether a turn's messages hold a response: what was said after the last tool, or all that was said."""
    entries = OPENAI.kept(messages or None)
    return bool(entries) and response in (_texts(entries)[1], _texts(entries, after_tools=True)[1])


def only_beside_calls(messages: list[Any], response: str) -> bool:
    """Whether the response is all that was said in the turn, and none of it came after the last tool."""
    entries = OPENAI.kept(messages or None)
    return bool(entries) and _texts(entries)[1] == response and _texts(entries, after_tools=True)[1] is None


def with_text(turn: Turn, side: Side, text: str) -> list[dict[str, Any]] | None:
    """The messages of a turn with another text on one side; None for a turn without tools."""
    messages = messages_of_turn(turn)
    if not ToolLog(messages):
        return None
    if side is Side.PROMPT:
        rest = [_without_words(one) if one.get("role") == Role.USER else one for one in messages]
        kept = [one for one in rest if one.get("role") != Role.USER or says_anything(one)]
        first = next((at for at, one in enumerate(kept) if one.get("role") == Role.ASSISTANT), len(kept))
        return [*kept[:first], write_openai(Role.USER, text), *kept[first:]]
    entries = OPENAI.kept(messages)
    # All that the assistant said is replaced where that was the response, else what came after the last tool.
    first = 0 if _texts(entries)[1] == turn.response else last_step(entries) + 1
    spoken = [
        without_text(one) if at >= first and one.get("role") == Role.ASSISTANT else one
        for at, one in enumerate(messages)
    ]
    rest = [one for one in spoken if one.get("role") != Role.ASSISTANT or says_anything(one)]
    return [*rest, write_openai(Role.ASSISTANT, text)]


def _without_words(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    parts = [part for part in content if part["type"] not in TEXT_PARTS] if isinstance(content, list) else None
    return {**message, "content": parts}


def cut(entries: Iterable[MessageEntry]) -> tuple[list[MessageEntry], list[list[MessageEntry]]]:
    """Split messages into those before the first turn and one list for each turn."""
    lead: list[MessageEntry] = []
    slices: list[list[MessageEntry]] = []
    for entry in entries:
        # What a tool gave back is no prompt, though some formats have it in the user's name.
        only_results = entry.text is None and has_results(entry.raw)
        opens = (entry.role is Role.USER and not only_results) or (entry.role is Role.ASSISTANT and not slices)
        if opens:
            slices.append([entry])
        else:
            (slices[-1] if slices else lead).append(entry)
    return lead, slices


def _texts(entries: Items[MessageEntry], *, after_tools: bool = False) -> tuple[str, str | None]:
    """Prompt and response in a turn's messages; with `after_tools`, only what was said after the last tool."""
    first = entries[0]
    prompt = first.text if first.role is Role.USER and first.text is not None else ""
    spoken = entries[last_step(entries) + 1 :] if after_tools else entries
    said = [entry.text for entry in spoken if entry.role is Role.ASSISTANT and entry.text is not None]
    return prompt, "\n".join(said) if said else None


def last_step(entries: Items[MessageEntry]) -> int:
    """Index of the last message with a call or a result; -1 without one."""
    for at in reversed(range(len(entries))):
        if has_calls(entries[at].raw) or has_results(entries[at].raw):
            return at
    return -1
