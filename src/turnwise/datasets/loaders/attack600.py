"""SafeMTData Attack_600: multi-turn attacks by ActorAttack, user turns only."""

from __future__ import annotations

from typing import Any

from turnwise.conversation import Label, Sequence
from turnwise.datasets.fields import as_object, field, pick, text_list
from turnwise.datasets.protocol import DatasetInfo
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder
from turnwise.datasets.records import Head


class SafeMTAttack600(RecordLoader):
    """200 goals of HarmBench, each approached through three actors in four or five user turns."""

    info = DatasetInfo(
        name="attack600",
        title="SafeMTData Attack_600",
        source="Ren et al. 2024, ActorAttack, arXiv:2410.10700; written by a model",
        url="https://huggingface.co/datasets/SafeMTData/SafeMTData",
        licence="MIT",
        label_meaning="attack: every conversation leads to a harmful goal, though its first turn is harmless by "
        "design and many never ask the closing question",
        shape='JSON array of {"id", "query_id", "category", "actor_name", "relationship", "plain_query", '
        '"multi_turn_queries": [text]}',
    )

    def sniff(self, head: Head) -> bool:
        """Return whether records have a plain query and multi-turn queries."""
        return {"plain_query", "multi_turn_queries"} <= head.fields

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        """Return the sequence of one path to a goal."""
        item = as_object(record)
        return builder.prompts(
            text_list(item, "multi_turn_queries"),
            key=item.get("id"),
            default=Label.ATTACK,
            metadata={
                "goal": field(item, "plain_query", str),
                **pick(item, "category", "query_id", "relationship", actor="actor_name"),
            },
        )
