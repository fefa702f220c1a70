"""What a caller passes to a check: content, metadata, turn, session, or a list of messages, ready to check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from turnwise.conversation import Conversation, Role, Side, Turn
from turnwise.conversation.json_values import json_object
from turnwise.conversation.messages import OPENAI, unread
from turnwise.conversation.turn import CHECKING_KEYS, GUARD_KEY
from turnwise.errors import GuardError
from turnwise.sessions.state import ID_BYTES

RESERVED: Final = (GUARD_KEY, *CHECKING_KEYS.values())
"""Keys of a turn's metadata that belong to the guard."""

_SIDES = {
    Role.USER: Side.PROMPT,
    Role.TOOL: Side.PROMPT,
    Role.FUNCTION: Side.PROMPT,
    Role.ASSISTANT: Side.RESPONSE,
}

_NAMED = 5
"""Parts that are named at most where several could not be read."""


def encodable(text: str) -> str:
    """Return a text as it is; halves of surrogate pairs, which UTF-8 does not have, become U+FFFD.

    >>> encodable("a\\ud800b")
    'a\ufffdb'
    """
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def short_id(text: str) -> str:
    """Return an id as it is, or its SHA-256 where it is longer than a session memory takes.

    >>> short_id("user-1"), len(short_id("x" * 100))
    ('user-1', 64)
    """
    raw = text.encode("utf-8", "surrogatepass")
    return text if len(raw) <= ID_BYTES else sha256(raw).hexdigest()


def digest_of(name: str) -> str:
    """Return what stands for a name in a state store, so that names are not in it: 32 digits of its SHA-256.

    >>> digest_of("ann")
    '8e81a09fe70ff44ce7f5da2f28b5f75a'
    """
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def checkable(content: object) -> str:
    """Return content as text that every guardrail can read; see `encodable`.

    Raises:
        GuardError: content that is None, or not text.
    """
    if content is None:
        raise GuardError("Content cannot be None")
    if not isinstance(content, str):
        raise GuardError(f"content is {type(content).__name__}, not text")
    return content if content.isascii() else encodable(content)


def turn_metadata(metadata: Mapping[str, Any] | None, side: Side) -> dict[str, Any]:
    """Return what joins the metadata of a turn: the caller's, and the mark that one side is being checked.

    Args:
        metadata: the caller's; JSON values.
        side: the side that is checked.

    Raises:
        ConversationError: metadata that is not an object, or holds a value that JSON does not have.
        GuardError: a key that is the guard's own.
    """
    if metadata is None:
        return {CHECKING_KEYS[side]: True}
    extra = json_object(metadata, "metadata")
    for key in RESERVED:
        if key in extra:
            raise GuardError(f"metadata has the key {key!r}, which is the guard's own; rename yours")
    return {**extra, CHECKING_KEYS[side]: True}


def answered_turn(number: int | None, turn: Turn | None, conversation: Conversation) -> int | None:
    """Return the number of the turn that a response answers, given as a number, as a turn, or not at all.

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


class LastMessage(NamedTuple):
    """The last of a list of messages.

    Args:
        side: whether it is checked as a prompt or as a response.
        text: its text; empty where it has none that can be read.
        before: the conversation before it.
        unread: what else it holds, and where; empty where there is nothing else.
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
        ConversationError: an empty list, or an item that is not a message.
        GuardError: the last message has a role that is not checked, or nothing to check.

    >>> messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    >>> last = last_message(messages)
    >>> last.side.value, last.text, last.before.turn(1).prompt
    ('response', 'Ho', 'Hi')
    """
    entry = OPENAI.entries(messages)[-1]
    if entry.role not in _SIDES:
        raise GuardError(f"the last message has role {entry.role}; use one of {', '.join(_SIDES)}")
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
    told = ""
    if parts:
        rest = f" and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
        told = f"message {len(messages)}: {', '.join(parts[:_NAMED])}{rest} not read"
    return LastMessage(side, entry.text or "", conversation, told)
