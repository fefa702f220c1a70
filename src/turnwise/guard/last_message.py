"""The last of an OpenAI list of messages as what is to be checked, and those before it as a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from turnwise.conversation import Conversation, Side
from turnwise.conversation.entries import Role
from turnwise.conversation.messages import OPENAI
from turnwise.errors import GuardError

_SIDES = {
    Role.USER: Side.PROMPT,
    Role.TOOL: Side.PROMPT,
    Role.FUNCTION: Side.PROMPT,
    Role.ASSISTANT: Side.RESPONSE,
}


def last_message(messages: Sequence[Mapping[str, Any]]) -> tuple[Side, str, Conversation]:
    """Return the side and text of the last message, and the conversation before it.

    Args:
        messages: objects with ``role`` and ``content``.

    Raises:
        ConversationError: an empty list, or a message that is none.
        GuardError: the last message is of a role that is not checked, or has no text.

    >>> messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    >>> side, text, before = last_message(messages)
    >>> side.value, text, before.turn(1).prompt
    ('response', 'Ho', 'Hi')
    """
    entry = OPENAI.entries(messages)[-1]
    if entry.role not in _SIDES:
        raise GuardError(f"the last message is of role {entry.role}; give one of {', '.join(_SIDES)}")
    if entry.text is None:
        raise GuardError(f"the last message, of role {entry.role}, has no text to check")
    before = messages[:-1]
    conversation = Conversation.from_messages(before) if before else Conversation()
    side = _SIDES[entry.role]
    if side is Side.RESPONSE:
        # It answers the message right before it, or nothing; never an older one that was left unanswered.
        for turn in conversation.get_incomplete_turns():
            if turn is not conversation.last_turn:
                conversation.withdraw(turn.number)
    return side, entry.text, conversation
