"""Trying a guardrail on a text, without a pipeline."""

from __future__ import annotations

from turnwise.conversation import Conversation, Side
from turnwise.guard.guardrail import Check, Finding, Guardrail


def finding_of(guardrail: Guardrail, text: str, side: Side = Side.PROMPT) -> Finding:
    """Return what a guardrail finds in a text that opens a conversation.

    Args:
        guardrail: the guardrail.
        text: the text.
        side: whether it is a prompt or a response.
    """
    return guardrail.check(opening_check(text, side))


def opening_check(text: str, side: Side = Side.PROMPT) -> Check:
    """Return the check of a text that opens a conversation.

    Args:
        text: the text.
        side: whether it is a prompt or a response.
    """
    conversation = Conversation()
    turn = conversation.add_prompt(text if side is Side.PROMPT else "")
    if side is Side.RESPONSE:
        conversation.add_response(text)
    return Check(text, side, turn, conversation, session_id="")
