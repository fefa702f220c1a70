"""Plain turnwise JSONL: read, written, and the conversations that ship in it."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from typing import Any

from turnwise.conversation import Label, Sequence
from turnwise.datasets.fields import as_object, checked_messages, field, optional_object
from turnwise.datasets.protocol import BadRecord, DatasetInfo, LoadOptions
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder
from turnwise.datasets.records import Head, is_message
from turnwise.datasets.roles import with_roles
from turnwise.errors import DatasetError

_EXAMPLES = "examples.jsonl"


class TurnwiseJsonl(RecordLoader):
    """The format of turnwise itself; ids, labels and sources are those of the file."""

    info = DatasetInfo(
        name="turnwise",
        title="turnwise JSONL",
        source="whoever wrote the file; turnwise's own exports and examples",
        url="",
        licence="that of the conversations in it",
        label_meaning="as the file says: attack, benign or unlabelled",
        shape='JSONL of {"id", "label", "source", "turns": [{"role", "content"}], "metadata"}',
        generic=True,
        roles=True,
    )

    def sniff(self, head: Head) -> bool:
        """Return whether the first record has an id and turns that are messages."""
        first = head.records[0] if head.records else None
        if not isinstance(first, dict) or not {"id", "turns"} <= first.keys():
            return False
        turns = first["turns"]
        return isinstance(turns, list) and bool(turns) and is_message(turns[0])

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        """Return the sequence of a line."""
        line = as_object(record)
        name = field(line, "id", str)
        messages = checked_messages(with_roles(field(line, "turns", list), builder.options.role_map))
        if line.get("source") is not None:
            builder = replace(builder, source=field(line, "source", str))
        return builder.chat(
            messages,
            name=name,
            default=Label.UNLABELLED,
            given=line.get("label"),
            metadata=optional_object(line, "metadata"),
        )


def to_line(sequence: Sequence) -> dict[str, Any]:
    """Return a sequence as the JSON object of one line, from which the ``turnwise`` loader makes an equal one.

    The line holds what data sets say: texts, tool calls and system messages. Time stamps and metadata of single
    turns have no place in it.

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


def examples() -> tuple[Sequence, ...]:
    """Return the example conversations, attacks and benign ones, in the order of their file.

    Raises:
        DatasetError: the installed file is damaged.

    >>> len(examples()) >= 24
    True
    """
    with resources.as_file(resources.files("turnwise.datasets") / _EXAMPLES) as path:
        found = list(TurnwiseJsonl().load(str(path), LoadOptions()))
    bad = next((item for item in found if isinstance(item, BadRecord)), None)
    if bad is not None:
        raise DatasetError(
            f"{_EXAMPLES} of this installation, line {bad.line}: {bad.reason}; install turnwise again"
        )
    return tuple(item for item in found if isinstance(item, Sequence))
