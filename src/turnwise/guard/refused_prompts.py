"""Prompts that a rate limit refused, as the metadata of their conversation keep them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from turnwise.conversation import Conversation

CONVERSATION: Final = "conversation"
"""Scope of a refusal by the conversation's own limit."""

EVENTS: Final = "rate_limit_events"
"""Key of a conversation's metadata: ``{"count": n, "latest": [...]}``, oldest first."""

MOST_EVENTS: Final = 1_000
"""Events that are kept; of older ones only the count."""


def note_refusal(
    conversation: Conversation, *, scope: str, reason: str, text_sha256: str, now: datetime, retry_after: float
) -> None:
    """Note a refused prompt in the metadata of its conversation, as a hash; the text itself is not kept."""
    event = {
        "scope": scope,
        "reason": reason,
        "text_sha256": text_sha256,
        "after_turn": conversation.get_turn_count(),
        "timestamp": now.isoformat(),
        "retry_after": retry_after,
    }

    def add(before: Any) -> dict[str, Any]:
        # A list that only this grows; dropping the front in bulk keeps it cheap under a flood.
        known = before if isinstance(before, dict) else {}
        latest, count = known.get("latest"), known.get("count")
        latest = latest if isinstance(latest, list) else []
        count = count if isinstance(count, int) and not isinstance(count, bool) else len(latest)
        latest.append(event)
        if len(latest) >= 2 * MOST_EVENTS:
            del latest[:-MOST_EVENTS]
        return {"count": count + 1, "latest": latest}

    with conversation.history.lock:
        conversation.metadata[EVENTS] = add(conversation.metadata.get(EVENTS))


def refusals_of(conversation: Conversation) -> tuple[int, list[dict[str, Any]]]:
    """How many prompts a rate limit refused, and the latest of them, oldest first."""
    kept = conversation.metadata.get(EVENTS)
    if kept is None:
        return 0, []
    from turnwise.guard.stored import refusals

    return refusals(kept, f"metadata.{EVENTS}")
