"""Whose texts drift judges in a conversation, and which session each speaker has."""

from __future__ import annotations

from typing import Literal

from turnwise.conversation import Conversation, ParticipantType
from turnwise.conversation.participants import UNKNOWN_NAME
from turnwise.guard.request import short_id
from turnwise.guard.scorer_state import Trajectory

Judge = Literal["auto", "initiator", "responder", "both", "replies"]
"""Whose texts are judged."""

_HUMAN = ParticipantType.HUMAN
_MACHINES = (ParticipantType.BOT, ParticipantType.AGENT)

_RESPONDER_MARK = "/responder"
"""Follows a session id in the id of the responder's session."""


def are_peers(conversation: Conversation) -> bool:
    """Tell whether either side may lead the other: two people, or bots and agents among themselves.

    >>> are_peers(Conversation.bot_to_bot("a", "b")), are_peers(Conversation.human_ai("ann", "model"))
    (True, False)
    """
    first, second = conversation.initiator_type, conversation.responder_type
    return first is second is _HUMAN or (first in _MACHINES and second in _MACHINES)


def of_outputs(judge: Judge, conversation: Conversation) -> Trajectory | None:
    """Return the trajectory that a text of the responder is part of; None where nobody asked for one.

    Args:
        judge: the setting.
        conversation: the conversation; ``auto`` goes by its kind.
    """
    if judge == "replies":
        return Trajectory.REPLIES
    if judge in ("responder", "both") or (judge == "auto" and are_peers(conversation)):
        return Trajectory.RESPONDER
    return None


def sessions_of(session_id: str) -> tuple[str, str]:
    """Return a session and that of the responder beside it, which are forgotten together.

    >>> sessions_of("c1")
    ('c1', 'c1/responder')
    """
    return session_id, f"{session_id}{_RESPONDER_MARK}"


def responder_session(session_id: str, conversation: Conversation) -> str:
    """Return the id of the responder's session, which is never the initiator's.

    A session that is the named initiator's own has its like in the named responder's. Any other is of one
    conversation or was named by the caller; then the responder has one beside it.

    Args:
        session_id: the session that the initiator's texts belong to.
        conversation: the conversation.

    >>> responder_session("ann", Conversation.human_to_human("ann", "ben"))
    'ben'
    >>> responder_session("c1", Conversation.human_to_human("ann", "ben", conversation_id="c1"))
    'c1/responder'
    """
    initiator, responder = conversation.initiator, conversation.responder
    if initiator != UNKNOWN_NAME and session_id == short_id(initiator):
        if responder == UNKNOWN_NAME:
            # Nobody's name is not one person's: the session ends with the conversation.
            return short_id(f"{conversation.conversation_id}{_RESPONDER_MARK}")
        if responder != initiator:
            return short_id(responder)
    return short_id(f"{session_id}{_RESPONDER_MARK}")
