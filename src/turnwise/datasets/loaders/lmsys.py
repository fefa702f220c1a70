"""LMSYS-Chat-1M: what real users asked models in the Vicuna demo and the Chatbot Arena."""

from __future__ import annotations

from typing import Any

from turnwise.conversation import Label, Sequence
from turnwise.datasets.fields import as_object, field, pick, roles_and_texts
from turnwise.datasets.loaders.wildchat import flagged
from turnwise.datasets.protocol import DatasetInfo
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder
from turnwise.datasets.records import Head


class LmsysChat(RecordLoader):
    """Conversations with 25 models, with moderation flags."""

    info = DatasetInfo(
        name="lmsys",
        title="LMSYS-Chat-1M",
        source="Zheng et al. 2023, LMSYS-Chat-1M, arXiv:2309.11998; real users",
        url="https://huggingface.co/datasets/lmsys/lmsys-chat-1m",
        licence="LMSYS-Chat-1M Dataset License Agreement (its own)",
        label_meaning="unlabelled: real traffic with jailbreak tries in it; openai_moderation says what "
        "moderation flagged, not what the user was after",
        shape='Parquet: column conversation, a list of {"role", "content"}, with conversation_id, model, '
        "language, openai_moderation",
        gated=True,
    )

    def sniff(self, head: Head) -> bool:
        """Return whether there is a conversation with its id, its model and moderation, and no flag ``toxic``."""
        wanted = {"conversation", "conversation_id", "model", "openai_moderation"}
        return wanted <= head.fields and "toxic" not in head.fields

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        """Return the sequence of a row."""
        row = as_object(record)
        return builder.chat(
            roles_and_texts(field(row, "conversation", list)),
            key=row.get("conversation_id"),
            default=Label.UNLABELLED,
            metadata={**pick(row, "model", "language", "redacted"), **flagged(row)},
        )
