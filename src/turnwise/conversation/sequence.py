"""A sequence: a conversation in a data set, with its ground truth."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from turnwise._support.notebook import html_table
from turnwise.conversation.conversation import Conversation
from turnwise.conversation.json_values import json_object
from turnwise.errors import ConversationError

GROUP_KEYS = ("group", "pair", "goal", "intent")
"""Keys of the metadata that say what a sequence shares with others, the first that is there."""


class Label(StrEnum):
    """Ground truth of a sequence. ``UNLABELLED`` is neither attack nor benign: it is not known."""

    ATTACK = "attack"
    BENIGN = "benign"
    UNLABELLED = "unlabelled"


@dataclass(frozen=True, slots=True)
class Sequence:
    """A conversation in a data set.

    Args:
        sequence_id: unique in a store (the specification's attack_id).
        label: ground truth.
        source: the data set that it comes from.
        conversation: the turns.
        metadata: what else the data set says of it, such as goal or tactic; JSON values only.
        line: its line, from 1, in the file that it was read from; not compared.

    Raises:
        ConversationError: an empty id, or a conversation without turns.
    """

    sequence_id: str
    label: Label
    source: str
    conversation: Conversation
    metadata: Mapping[str, Any] = field(default_factory=dict)
    line: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.sequence_id:
            raise ConversationError("a sequence needs an id that is not empty")
        if self.conversation.get_turn_count() == 0:
            raise ConversationError(f"sequence {self.sequence_id!r} has no turns: it needs at least one")

    def to_dict(self) -> dict[str, Any]:
        """Return the sequence as JSON values."""
        return {
            "sequence_id": self.sequence_id,
            "label": str(self.label),
            "source": self.source,
            "conversation": self.conversation.to_dict(),
            "metadata": json_object(self.metadata, "metadata"),
        }

    def _repr_html_(self) -> str:
        title = f"Sequence {self.sequence_id!r} ({self.label}, {self.source})"
        rows = ((turn.number, turn.prompt, turn.response) for turn in self.conversation)
        return html_table(title, ("turn", "prompt", "response"), rows, self.conversation.get_turn_count())

    def content_hash(self) -> str:
        """Return the SHA-256 of label, source, metadata and turns, and of the conversation's metadata.

        That metadata counts because system messages are kept there.
        """
        turns = ((turn.prompt, turn.response, turn.metadata) for turn in self.conversation)
        return content_hash(self.label, self.source, self.metadata, self.conversation.metadata, turns)


def content_hash(
    label: str,
    source: str,
    metadata: Mapping[str, Any],
    said: Mapping[str, Any],
    turns: Iterable[tuple[str, str | None, Mapping[str, Any]]],
) -> str:
    """`Sequence.content_hash` of its parts; `said` is the metadata of the conversation."""
    content = [label, source, dict(metadata), said, *map(list, turns)]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def group_of(metadata: Mapping[str, Any], sequence_id: str) -> str:
    """Return the group of a sequence: what its metadata say it shares with others, else its id.

    Sequences of one group are never on two sides of a split.

    >>> group_of({"goal": "open the lock", "kind": "test"}, "a-1"), group_of({}, "a-1")
    ('open the lock', 'a-1')
    """
    for key in GROUP_KEYS:
        value = metadata.get(key)
        if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
            return str(value)
    return sequence_id
