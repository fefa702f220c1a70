"""The arguments that the constructor of a conversation takes, for functions that pass them on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

from turnwise.clock import Clock
from turnwise.conversation.participants import ParticipantType


class ConversationOptions(TypedDict, total=False):
    """What can be said of a conversation beside who takes part; see `Conversation`."""

    conversation_id: str | None
    participants: Mapping[str, Any] | None
    model_info: Mapping[str, Any] | None
    metadata: Mapping[str, Any] | None
    rate_limit: Mapping[str, int] | None
    created_at: datetime | None
    clock: Clock


class ConversationArguments(ConversationOptions, total=False):
    """All that the constructor of `Conversation` takes."""

    initiator: str | None
    responder: str | None
    initiator_type: ParticipantType | str | None
    responder_type: ParticipantType | str | None
