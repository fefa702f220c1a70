"""Conversations: turns between participants, rate limits, and adapters to the usual message formats."""

from turnwise.conversation.adapters import (
    from_any,
    from_messages,
    from_sharegpt,
    sharegpt_messages,
    to_sharegpt,
)
from turnwise.conversation.conversation import Conversation
from turnwise.conversation.history import History
from turnwise.conversation.message_entries import Role
from turnwise.conversation.message_formats import WITHHELD_RESULT
from turnwise.conversation.participants import ParticipantType
from turnwise.conversation.rate_limit import Limits
from turnwise.conversation.sequence import Label, Sequence, group_of
from turnwise.conversation.tool_log import ToolCall, ToolResult
from turnwise.conversation.tools import Tools
from turnwise.conversation.turn import Seen, SeenDigest, Side, Turn

__all__ = [
    "WITHHELD_RESULT",
    "Conversation",
    "History",
    "Label",
    "Limits",
    "ParticipantType",
    "Role",
    "Seen",
    "SeenDigest",
    "Sequence",
    "Side",
    "ToolCall",
    "ToolResult",
    "Tools",
    "Turn",
    "from_any",
    "from_messages",
    "from_sharegpt",
    "group_of",
    "sharegpt_messages",
    "to_sharegpt",
]
