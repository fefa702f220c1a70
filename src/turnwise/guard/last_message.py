"""The last of an OpenAI list of messages as what is to be checked, and those before it as a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from turnwise.conversation import Conversation, Role, Side
from turnwise.conversation.messages import OPENAI, unread
from turnwise.errors import GuardError

_SIDES = {
    Role.USER: Side.PROMPT,
    Role.TOOL: Side.PROMPT,
    Role.FUNCTION: Side.PROMPT,
    Role.ASSISTANT: Side.RESPONSE,
}


_NAMED = 5
"""Parts that are named at most where several could not be read."""


class LastMessage(NamedTuple):
    """The last of a list of messages.

    Args:
        side: as what it is checked.
        text: what it says; empty where all of it is unread.
        before: the conversation before it.
        unread: what it holds beside its text, and where; empty where that is nothing.
    """

    side: Side
    text: str
    before: Conversation
    unread: str


def last_message(messages: Sequence[Mapping[str, Any]]) -> LastMessage:
    """Return the last message, with the conversation before it.

    Args:
        messages: objects with ``role`` and ``content``.

    Raises:
        ConversationError: an empty list, or a message that is none.
        GuardError: the last message is of a role that is not checked, or holds nothing.

    >>> messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    >>> last = last_message(messages)
    >>> last.side.value, last.text, last.before.turn(1).prompt
    ('response', 'Ho', 'Hi')
    """
    entry = OPENAI.entries(messages)[-1]
    if entry.role not in _SIDES:
        raise GuardError(f"the last message is of role {entry.role}; give one of {', '.join(_SIDES)}")
    parts = unread(messages[-1])
    if entry.text is None and not parts:
        raise GuardError(f"the last message, of role {entry.role}, has no text to check")
    before = messages[:-1]
    conversation = Conversation.from_messages(before) if before else Conversation()
    side = _SIDES[entry.role]
    if side is Side.RESPONSE:
        # It answers the message right before it, or nothing; never an older one that was left unanswered.
        for turn in conversation.get_incomplete_turns():
            if turn is not conversation.last_turn:
                conversation.withdraw(turn.number)
    return LastMessage(side, entry.text or "", conversation, _told(len(messages), parts))


def _told(place: int, parts: list[str]) -> str:
    if not parts:
        return ""
    rest = f" and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
    return f"message {place}: {', '.join(parts[:_NAMED])}{rest} not read"
