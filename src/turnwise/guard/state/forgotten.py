"""What was forgotten, by hash and without any text, so that whoever still holds it is refused."""

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
    """The key under which a forgotten conversation is noted."""
    return f"conversation:{digest_of(conversation_id)}"


def person_key(name: str) -> str:
    """The key under which a forgotten person is noted, the same for all spellings of the name."""
    return f"person:{digest_of(short_id(canonical_name(name)))}"


def note_forgotten(store: StateStore, keys: Iterable[str], now: datetime) -> None:
    """Note that something is forgotten; call it before removing that."""
    for key in keys:
        store.change(FORGOTTEN, key, lambda before: (max(now, before or now), None))


def forgotten_at(store: StateStore, conversation: Conversation) -> datetime | None:
    """When a conversation, or one of its participants, was last forgotten; None for never."""
    keys = [conversation_key(conversation.conversation_id)]
    names = dict.fromkeys(map(canonical_name, (conversation.initiator, conversation.responder)))
    keys += [person_key(name) for name in names if name not in UNNAMED]
    return max((time for key in keys if (time := store.get(FORGOTTEN, key)) is not None), default=None)


def refuse_forgotten(store: StateStore, conversation: Conversation) -> None:
    """Raise ForgottenError for a conversation that has turns from before it was forgotten."""
    earliest = conversation.history.outline.earliest
    if conversation.get_turn_count():
        time = forgotten_at(store, conversation)
        if time is not None and (earliest is None or earliest <= time):
            raise forgotten(conversation)


def forgotten(conversation: Conversation) -> ForgottenError:
    """The error for a conversation that was forgotten."""
    return ForgottenError(
        f"conversation {conversation.conversation_id!r} was forgotten, and this object still has its texts: "
        "let go of it, and begin a new Conversation"
    )
