"""Conversations: turns between participants, rate limits, and adapters to the usual message formats."""

from turnwise.conversation.any_format import from_any
from turnwise.conversation.conversation import Conversation, ParticipantType
from turnwise.conversation.messages import Role, from_messages, to_messages
from turnwise.conversation.sequence import Label, Sequence, group_of
from turnwise.conversation.sharegpt import from_sharegpt, sharegpt_messages, to_sharegpt
from turnwise.conversation.tools import WITHHELD_RESULT, ToolCall, ToolResult
from turnwise.conversation.turn import Seen, SeenDigest, Side, Turn

__all__ = [
    "WITHHELD_RESULT",
    "Conversation",
    "Label",
    "ParticipantType",
    "Role",
    "Seen",
    "SeenDigest",
    "Sequence",
    "Side",
    "ToolCall",
    "ToolResult",
    "Turn",
    "from_any",
    "from_messages",
    "from_sharegpt",
    "group_of",
    "sharegpt_messages",
    "to_messages",
    "to_sharegpt",
]
