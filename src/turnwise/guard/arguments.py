"""What callers pass to a check, made sure of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnwise.conversation import Conversation, Side, Turn
from turnwise.conversation.json_values import json_object
from turnwise.conversation.turn import CHECKING_KEYS, GUARD_KEY
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


def joinable(metadata: Mapping[str, Any] | None, side: Side) -> dict[str, Any]:
    """Return what joins the metadata of a turn: the caller's, and that one side of it is under check.

    Args:
        metadata: the caller's; JSON values.
        side: the side that is checked.

    Raises:
        ConversationError: metadata that is no object, or holds what JSON does not have.
        GuardError: a key that is the guard's own.
    """
    extra = json_object(metadata, "metadata")
    for key in (GUARD_KEY, *CHECKING_KEYS.values()):
        if key in extra:
            raise GuardError(f"metadata has the key {key!r}, which is the guard's own; rename yours")
    return {**extra, CHECKING_KEYS[side]: True}


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
