"""Sequences as lines of plain turnwise JSONL."""

from __future__ import annotations

from typing import Any

from turnwise.conversation import Sequence


def to_line(sequence: Sequence) -> dict[str, Any]:
    """Return a sequence as the JSON object of one line, from which the ``turnwise`` loader makes an equal one.

    The line holds what data sets say: texts, tool calls and system messages. Time stamps, and metadata that
    someone hung on single turns, have no place in it.

    Args:
        sequence: the sequence.

    >>> from turnwise.conversation import Conversation, Label
    >>> chat = Conversation.from_turns([("How do tides work?", None)], conversation_id="a")
    >>> to_line(Sequence("a", Label.BENIGN, "demo", chat))["turns"]
    [{'role': 'user', 'content': 'How do tides work?'}]
    """
    return {
        "id": sequence.sequence_id,
        "label": str(sequence.label),
        "source": sequence.source,
        "turns": sequence.conversation.to_messages(blocked=True),
        "metadata": dict(sequence.metadata),
    }
