"""What was forgotten, by hash and without a text: who still holds it is refused."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from turnwise.conversation import Conversation
from turnwise.errors import ForgottenError
from turnwise.guard.identity.names import UNNAMED, canonical_name
from turnwise.guard.request import digest_of, short_id
from turnwise.sessions.state_store import StateKind, StateStore

FORGOTTEN: Final[StateKind[datetime]] = StateKind(
    "forgotten",
    1,
    lambda time: time.isoformat().encode("ascii"),
    lambda data, key, version: datetime.fromisoformat(data.decode("ascii")),
    remnant=lambda time: time,  # it outlives want of room, and age
)
"""When a conversation or a person was forgotten."""


def conversation_key(conversation_id: str) -> str:
    """Return what a conversation that was forgotten is known by."""
    return f"conversation:{digest_of(conversation_id)}"


def person_key(name: str) -> str:
    """Return what a person who was forgotten is known by, whatever the spelling of the name."""
    return f"person:{digest_of(short_id(canonical_name(name)))}"


def note_forgotten(store: StateStore, keys: Iterable[str], now: datetime) -> None:
    """Write down that something is forgotten, before it is removed."""
    for key in keys:
        store.change(FORGOTTEN, key, lambda before: (max(now, before or now), None))


def forgotten_at(store: StateStore, conversation: Conversation) -> datetime | None:
    """Return when a conversation, or one of its participants, was forgotten; None for never."""
    keys = [conversation_key(conversation.conversation_id)]
    names = dict.fromkeys(map(canonical_name, (conversation.initiator, conversation.responder)))
    keys += [person_key(name) for name in names if name not in UNNAMED]
    return max((time for key in keys if (time := store.get(FORGOTTEN, key)) is not None), default=None)


def refuse_forgotten(store: StateStore, conversation: Conversation) -> None:
    """Refuse a conversation with turns of before it was forgotten.

    Raises:
        ForgottenError: it is one.
        StateError: the store can't be read.
    """
    earliest = conversation.outline.earliest
    if conversation.get_turn_count():
        time = forgotten_at(store, conversation)
        if time is not None and (earliest is None or earliest <= time):
            raise forgotten(conversation)


def forgotten(conversation: Conversation) -> ForgottenError:
    """Return the error of a conversation that was forgotten."""
    return ForgottenError(
        f"conversation {conversation.conversation_id!r} was forgotten, and this object still has its texts: "
        "let go of it, and begin a new Conversation"
    )
