"""How a flat list of messages becomes turns and comes back unchanged, for every message format alike.

A turn takes its user message and all that follows up to the next one. Where that slice is just one user text
and one assistant text, the turn says it all. Any other slice (tool calls, parts, extra keys) is kept as it
came in the turn's metadata, under the key of its format, and is what the way back gives. What comes before
the first turn is kept in the metadata of the conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from turnwise.conversation.conversation import Conversation
from turnwise.conversation.turn import Side, Turn
from turnwise.errors import ConversationError

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
        item: what it calls a message, for errors.
        read: reads one message; raises ConversationError without saying which message it was.
        write: gives the message of a role and a text.
    """

    key: str
    item: str
    read: Callable[[object], Entry]
    write: Callable[[Role, str], Any]

    def entries(self, raws: object) -> list[Entry]:
        """Read a list of messages.

        Raises:
            ConversationError: no list, an empty one, or a message that can't be read, with its place from 1.
        """
        if not isinstance(raws, list | tuple):
            raise ConversationError(f"expected a list of {self.item} objects, not {type(raws).__name__}")
        if not raws:
            raise ConversationError(f"the list of {self.item} objects is empty; it needs at least one")
        entries = []
        for place, raw in enumerate(raws, start=1):
            try:
                entries.append(self.read(raw))
            except ConversationError as error:
                raise ConversationError(f"{self.item} {place}: {error}") from None
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
