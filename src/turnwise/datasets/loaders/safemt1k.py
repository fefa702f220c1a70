"""SafeMTData_1K: ActorAttack conversations that end in a refusal, made for safety training."""

from __future__ import annotations

from typing import Any

from turnwise.conversation import Label, Sequence, sharegpt_messages
from turnwise.datasets.fields import as_object, field, pick
from turnwise.datasets.protocol import DatasetInfo
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder
from turnwise.datasets.records import Head


class SafeMTData1K(RecordLoader):
    """Attacks on the goals of the circuit-breaker training set, with the replies of a model."""

    info = DatasetInfo(
        name="safemt1k",
        title="SafeMTData SafeMTData_1K",
        source="Ren et al. 2024, ActorAttack, arXiv:2410.10700; written by models",
        url="https://huggingface.co/datasets/SafeMTData/SafeMTData",
        licence="MIT",
        label_meaning="attack: the user turns lead to a harmful goal; the replies turn to refusals where it shows",
        shape='JSON array or JSONL of {"id", "plain_query", "category", "actor_name", "conversations": '
        '[{"from", "value"} or {"role", "content"}]}',
    )

    def sniff(self, head: Head) -> bool:
        """Return whether records have a plain query and a conversation."""
        return {"plain_query", "conversations"} <= head.fields and "multi_turn_queries" not in head.fields

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        """Return the sequence of one conversation."""
        item = as_object(record)
        return builder.chat(
            sharegpt_messages(field(item, "conversations", list)),
            key=item.get("id"),
            default=Label.ATTACK,
            metadata={
                "goal": field(item, "plain_query", str),
                **pick(item, "category", "query_id", "relationship", actor="actor_name"),
            },
        )
