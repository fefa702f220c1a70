"""XGuard-Train: multi-turn attacks by X-Teaming, with replies."""

from __future__ import annotations

from typing import Any

from turnwise.conversation import Label, Sequence, sharegpt_messages
from turnwise.datasets.fields import as_object, field, pick
from turnwise.datasets.protocol import SEE_SOURCE, DatasetInfo
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder
from turnwise.datasets.records import Head


class XGuardTrain(RecordLoader):
    """30,695 conversations in one JSON array of 0.67 GB, which is read item by item."""

    info = DatasetInfo(
        name="xguard",
        title="XGuard-Train",
        source="Rahman et al. 2025, X-Teaming, arXiv:2504.13203; written by models",
        url="https://huggingface.co/datasets/marslabucla/XGuard-Train",
        licence=SEE_SOURCE,
        label_meaning="attack: user turns of successful multi-turn attacks; harmful replies were replaced by "
        "refusals",
        shape='JSON array of {"conversations": [{"from": "human" or "gpt", "value"}]}',
        gated=True,
    )

    def sniff(self, head: Head) -> bool:
        """Return whether the file is named after the data set: its shape is that of any ShareGPT file."""
        return "xguard" in head.name and "conversations" in head.fields

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        """Return the sequence of one item."""
        item = as_object(record)
        return builder.chat(
            sharegpt_messages(field(item, "conversations", list)),
            key=item.get("id"),
            default=Label.ATTACK,
            metadata=pick(item, "goal", "category"),
        )
