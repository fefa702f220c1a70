"""A loader: the export of a help desk, a ticket a line."""

from __future__ import annotations

from typing import Any

from turnwise.conversation import Label, Sequence
from turnwise.datasets import DatasetInfo, FileHead, RecordError, RecordLoader, SequenceBuilder


class HelpDesk(RecordLoader):
    """Reads ``{"ticket": "t1", "exchanges": [["question", "answer"]], "escalated": false}``."""

    info = DatasetInfo(
        name="helpdesk",
        title="Export of a help desk",
        source="your own",
        url="",
        licence="your own",
        label_meaning="attack: somebody escalated the ticket as manipulation",
        shape='JSONL of {"ticket", "exchanges", "escalated"}',
    )

    def sniff(self, head: FileHead) -> bool:
        """Return whether the file is certainly such an export."""
        return {"ticket", "exchanges", "escalated"} <= set(head.fields)

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        """Return the conversation of a line; what is wrong with it becomes a line that is left out and named."""
        exchanges = record.get("exchanges") if isinstance(record, dict) else None
        if not isinstance(exchanges, list) or not exchanges or not all(map(_is_exchange, exchanges)):
            raise RecordError("exchanges is not a list of [question, answer]")
        label = Label.ATTACK if record.get("escalated") is True else Label.BENIGN
        return builder.turns(map(tuple, exchanges), key=record.get("ticket"), default=label)


def _is_exchange(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(text, str) for text in value)
