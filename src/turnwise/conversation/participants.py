"""Who takes part in a conversation: names and types of the two sides, and what else can be said of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypedDict

from turnwise._support.visible import shown
from turnwise.clock import Clock
from turnwise.conversation.json_values import json_object
from turnwise.errors import ConversationError, nearest


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


UNKNOWN_NAME = "unknown"


class ParticipantType(StrEnum):
    """What a participant is."""

    HUMAN = "human"
    BOT = "bot"
    AGENT = "agent"
    AI_MODEL = "ai_model"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Participants:
    """The two sides of a conversation; `further` is what else is known of them, as JSON values."""

    initiator: str
    responder: str
    initiator_type: ParticipantType
    responder_type: ParticipantType
    further: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, given: Mapping[str, object | None], mapping: Mapping[str, object] | None) -> Participants:
        """Join fields given one by one (None: not given) with a ``participants`` mapping and its further keys.

        >>> Participants.read({"initiator": "user_123"}, {"initiator_type": "human"}).initiator_type
        <ParticipantType.HUMAN: 'human'>
        """
        values = {name: value for name, value in given.items() if value is not None}
        known, further = _checked(mapping)
        for name, value in known.items():
            if value is None:
                continue
            if values.setdefault(name, value) != value:
                both = f"{shown(values[name])}, and {shown(value)} in participants"
                raise ConversationError(f"{name} is given twice: {both}; give it once")
        return cls(
            initiator=_name("initiator", values),
            responder=_name("responder", values),
            initiator_type=_type("initiator_type", values),
            responder_type=_type("responder_type", values),
            further=further,
        )

    def to_dict(self) -> dict[str, Any]:
        """The four fields as text, and what else is known, as a ``participants`` mapping has them."""
        return {
            **json_object(self.further, "participants"),
            "initiator": self.initiator,
            "responder": self.responder,
            "initiator_type": self.initiator_type.value,
            "responder_type": self.responder_type.value,
        }


FIELDS = ("initiator", "responder", "initiator_type", "responder_type")


_NEAR = 0.85  # likeness to a field from which another key is taken for a slip of the pen; see `nearest`


def _checked(mapping: Mapping[str, object] | None) -> tuple[dict[str, object], dict[str, Any]]:
    """The fields of a mapping, and what else it has; a key that looks like a misspelt field is refused."""
    if mapping is None:
        return {}, {}
    if not isinstance(mapping, Mapping):
        raise ConversationError(f"participants is {type(mapping).__name__}, not an object with keys")
    further = json_object({key: value for key, value in mapping.items() if key not in FIELDS}, "participants")
    for key in further:
        near = nearest(key, FIELDS, likeness=_NEAR)
        if near is not None:
            raise ConversationError(f"participants has the key {shown(key)}; did you mean {near!r}?")
    return {key: value for key, value in mapping.items() if key in FIELDS}, further


def _name(field: str, values: Mapping[str, object]) -> str:
    value = values.get(field, UNKNOWN_NAME)
    if not isinstance(value, str):
        raise ConversationError(f"{field} is {type(value).__name__}, not text")
    if not value:
        raise ConversationError(f"{field} is empty; leave it out where it is not known")
    return value


def _type(field: str, values: Mapping[str, object]) -> ParticipantType:
    value = values.get(field, ParticipantType.UNKNOWN)
    try:
        return ParticipantType(value)  # type: ignore[arg-type]  # anything that is no type is refused below
    except ValueError:
        known = ", ".join(ParticipantType)
        raise ConversationError(f"{field} {shown(value)} is not a participant type; known: {known}") from None
