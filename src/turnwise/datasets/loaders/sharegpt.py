"""ShareGPT items from any source, one conversation in each record."""

from __future__ import annotations

from typing import Any

from turnwise.conversation import Sequence, sharegpt_messages
from turnwise.conversation.sharegpt import SPEAKERS
from turnwise.datasets.fields import as_object, message_list
from turnwise.datasets.protocol import DatasetInfo
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder
from turnwise.datasets.records import Head, is_message
from turnwise.datasets.roles import with_roles


class ShareGPT(RecordLoader):
    """Objects with a list of entries under a column of any name, or the bare lists."""

    info = DatasetInfo(
        name="sharegpt",
        title="ShareGPT, ChatAlpaca, LIMA",
        source="users who shared their chats (ShareGPT); Alpaca instructions continued by a model (ChatAlpaca); "
        "question and answer sites and authors (LIMA, Zhou et al. 2023, arXiv:2305.11206)",
        url="https://huggingface.co/datasets/GAIR/lima",
        licence="ChatAlpaca Apache-2.0; LIMA CC BY-NC-SA, or stricter where its sources are, and gated; "
        "ShareGPT dumps: see the source",
        label_meaning="unlabelled, unless a label column or --label says otherwise",
        shape='JSON array, JSONL or Parquet of {"conversations": [{"from", "value"}]}, or of plain texts that '
        "alternate",
        columns=("conversations", "id", "label"),
        generic=True,
        roles=True,
    )

    def sniff(self, head: Head) -> bool:
        """Return whether records have conversations of entries or of plain texts."""
        entries = head.records[0].get("conversations") if "conversations" in head.fields else None
        if not isinstance(entries, list) or not entries:
            return False
        return isinstance(entries[0], str) or is_message(entries[0])

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        """Return the sequence of a record."""
        if isinstance(record, list):
            return builder.chat(_read(record, builder), **builder.free_fields({}))
        column = builder.column("conversations")
        row = as_object(record)
        return builder.chat(_read(message_list(row, column), builder), **builder.free_fields(row, column))


def _read(entries: list[Any], builder: SequenceBuilder) -> list[dict[str, Any]]:
    return sharegpt_messages(with_roles(entries, builder.options.role_map, SPEAKERS))
