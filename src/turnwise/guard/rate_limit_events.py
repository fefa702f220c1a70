"""Prompts that a rate limit refused, noted in the conversation: no turns, but evidence."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from turnwise.conversation import Conversation

EVENTS: Final = "rate_limit_events"
"""Key of a conversation's metadata: ``{"count": n, "latest": [...]}``, oldest first."""

CONVERSATION: Final = "conversation"
"""Scope of a limit of the conversation itself."""

MOST: Final = 1_000
"""Events that are kept; of older ones only the count."""


def note_refusal(conversation: Conversation, *, scope: str, reason: str, text_sha256: str, now: datetime) -> None:
    """Note a refused prompt in the metadata of its conversation.

    Args:
        conversation: the conversation.
        scope: whose limit it was: ``global``, ``key`` or ``conversation``.
        reason: which limit.
        text_sha256: hash of the prompt; the text itself is not kept.
        now: the present time, aware.
    """
    event = {
        "scope": scope,
        "reason": reason,
        "text_sha256": text_sha256,
        "after_turn": conversation.get_turn_count(),
        "timestamp": now.isoformat(),
    }

    def add(before: Any) -> dict[str, Any]:
        # A list that only this grows; dropping the front in bulk keeps it cheap under a flood.
        known = before if isinstance(before, dict) and isinstance(before.get("latest"), list) else None
        latest = known["latest"] if known else []
        latest.append(event)
        if len(latest) >= 2 * MOST:
            del latest[:-MOST]
        return {"count": (known["count"] if known else 0) + 1, "latest": latest}

    conversation.note(EVENTS, add)
