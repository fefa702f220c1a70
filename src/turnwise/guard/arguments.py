"""What callers pass to a check, made sure of."""

from __future__ import annotations

from turnwise.conversation import Conversation, Turn
from turnwise.errors import GuardError
from turnwise.guard.encodable import encodable


def checkable(content: object) -> str:
    """Return a text that can be checked; see `encodable`.

    Raises:
        GuardError: content that is None, or no text.
    """
    if content is None:
        raise GuardError("Content cannot be None")
    if not isinstance(content, str):
        raise GuardError(f"content is {type(content).__name__}, not text")
    return encodable(content)


def one_number(number: int | None, turn: Turn | None, conversation: Conversation) -> int | None:
    """Return the number of the turn that a response answers, given as number, as turn, or not at all.

    Raises:
        GuardError: both are given and differ, or the turn is of another conversation.
        ConversationError: the conversation has no such turn.
    """
    if turn is None:
        return number
    if number is not None and number != turn.number:
        raise GuardError(f"turn_number is {number}, but turn is number {turn.number}; give one of them")
    if conversation.turn(turn.number) is not turn:
        raise GuardError(f"turn {turn.number} is of another conversation; give a turn of this one")
    return turn.number
