"""What came last in a list of messages: the texts to check, and what nobody can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from turnwise.conversation import Conversation, Role, from_messages
from turnwise.conversation.message_entries import Entry, has_results, read_calls, read_results, unread
from turnwise.conversation.message_formats import OPENAI
from turnwise.errors import GuardError
from turnwise.guard.finding import TextKind
from turnwise.guard.tool_texts import encodable

if TYPE_CHECKING:
    pass


_KINDS = {Role.USER: TextKind.INPUT, Role.ASSISTANT: TextKind.OUTPUT}
"""As what the text of a message is checked, by its role."""

_ROLES = (*_KINDS, Role.TOOL, Role.FUNCTION)
"""Roles of messages that are checked."""

_NAMED = 5
"""Parts that are named at most where several could not be read."""


class LastText(NamedTuple):
    """A text that came last in a list of messages; of a call its arguments.

    It is empty where nothing can be read. `unread` says what else the messages hold, and where. `names` are of
    those who speak in the messages, and of tools that they call.
    """

    kind: TextKind
    text: str
    unread: str = ""
    name: str = ""
    call_id: str | None = None
    names: tuple[str, ...] = ()


class LastTexts(NamedTuple):
    """What came last in a list: all messages, the index of the first that came last, the texts of these."""

    entries: list[Entry]
    first: int
    texts: list[LastText]


def last_texts(messages: Sequence[Mapping[str, Any]]) -> LastTexts:
    """What came last in a list of messages; at least one text.

    >>> last = last_texts([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}])
    >>> last.first, last.texts[0].kind.value, last.texts[0].text
    (1, 'output', 'Ho')
    """
    entries = OPENAI.entries(messages)
    last = entries[-1]
    if last.role not in _ROLES:
        raise GuardError(f"the last message has role {last.role}; use one of {', '.join(_ROLES)}")
    first = len(entries) - 1
    while first and has_results(entries[first].raw) and _only_results(entries[first - 1]):
        first -= 1
    texts: list[LastText] = []
    for entry in entries[first:]:
        texts += [
            LastText(TextKind.TOOL_RESULT, encodable(one.text), name=one.name, call_id=one.call_id)
            for one in read_results(entry.raw)
        ]
    calls = [
        LastText(TextKind.TOOL_CALL, one.text, name=one.name, call_id=one.call_id) for one in read_calls(last.raw)
    ]
    told = _left_out(messages, first)
    if last.text is not None and last.role in _KINDS:
        texts.append(LastText(_KINDS[last.role], last.text))
    texts += calls
    if not texts and not told:
        raise GuardError(f"the last message, of role {last.role}, has no text to check")
    if not texts:
        texts.append(LastText(_KINDS.get(last.role, TextKind.INPUT), ""))
    texts[0] = texts[0]._replace(unread=told, names=tuple(_names_in(entries)))
    return LastTexts(entries, first, texts)


def before_last(messages: Sequence[Mapping[str, Any]], last: LastTexts) -> Conversation:
    """The conversation before what came last in a list of messages, as the list has it."""
    before = messages[: last.first]
    conversation = from_messages(before) if before else Conversation()
    if last.texts[0].kind is not TextKind.INPUT:
        # It belongs to the message right before it, or to nothing; never to an older one that was left unanswered.
        for turn in conversation.get_incomplete_turns():
            if turn is not conversation.history.last:
                conversation.history.withdraw(turn.number)
    return conversation


def _only_results(entry: Entry) -> bool:
    return has_results(entry.raw) and (entry.role is not Role.USER or entry.text is None)


def _names_in(entries: Sequence[Entry]) -> set[str]:
    """All names in a list of messages; those before the last ones may have been seen by no check."""
    plain = {"role", "content"}
    named = [
        entry.raw
        for entry in entries
        if not plain.issuperset(entry.raw) or isinstance(entry.raw.get("content"), list)
    ]
    names = {raw["name"] for raw in named if isinstance(raw.get("name"), str)}
    return names | {call.name for raw in named for call in read_calls(raw)}


def _left_out(messages: Sequence[Mapping[str, Any]], first: int) -> str:
    """What the last messages hold that nobody reads; empty where there is nothing."""
    told = []
    for place in range(first, len(messages)):
        parts = unread(messages[place])
        if parts:
            rest = f" and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
            told.append(f"message {place + 1}: {', '.join(parts[:_NAMED])}{rest}")
    more = f"; and of {len(told) - _NAMED} more messages" if len(told) > _NAMED else ""
    return f"{'; '.join(told[:_NAMED])}{more} not read" if told else ""
