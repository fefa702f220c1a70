"""Conversations: turns between participants, rate limits, and adapters to the usual message formats."""

from turnwise.conversation.conversation import Conversation, ParticipantType
from turnwise.conversation.detect import from_any
from turnwise.conversation.digest import Seen, SeenDigest
from turnwise.conversation.messages import from_messages, to_messages
from turnwise.conversation.sequence import Label, Sequence
from turnwise.conversation.sharegpt import from_sharegpt, to_sharegpt
from turnwise.conversation.turn import Side, Turn

__all__ = [
    "Conversation",
    "Label",
    "ParticipantType",
    "Seen",
    "SeenDigest",
    "Sequence",
    "Side",
    "Turn",
    "from_any",
    "from_messages",
    "from_sharegpt",
    "to_messages",
    "to_sharegpt",
]
