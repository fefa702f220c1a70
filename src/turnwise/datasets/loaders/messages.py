"""OpenAI chat messages from any source, one conversation in each record."""

from __future__ import annotations

from typing import Any

from turnwise.conversation import Sequence
from turnwise.datasets.fields import as_object, checked_messages, message_list
from turnwise.datasets.protocol import DatasetInfo, RecordError
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder, find_column
from turnwise.datasets.records import Head, is_message
from turnwise.datasets.roles import with_roles
from turnwise.errors import ConversationError


class Messages(RecordLoader):
    """Objects with a list of messages under a column of any name, rows with the JSON of one, or the bare lists."""

    info = DatasetInfo(
        name="messages",
        title="OpenAI chat messages",
        source="whoever wrote the file; ProMISe, Safe-Multi, ChatAlpaca and fine-tuning files have this form",
        url="https://platform.openai.com/docs/api-reference/chat",
        licence="that of the conversations in it",
        label_meaning="unlabelled, unless a label column or --label says otherwise",
        shape='JSONL, JSON array or Parquet of {"messages": [{"role", "content"}]}, or of the bare lists; CSV or '
        "Parquet with such a list as JSON in a column",
        columns=("messages", "id", "label"),
        generic=True,
        roles=True,
    )

    def sniff(self, head: Head) -> bool:
        """Return whether records are lists of messages, or have such a list, or the JSON of one in a table."""
        first = head.records[0] if head.records else None
        if not isinstance(first, dict):
            return _are_messages(first)
        column = find_column(first, "messages")
        found = None if column is None else first[column]
        if isinstance(found, str):
            return found.lstrip().startswith("[") and '"role"' in found and '"content"' in found
        return column == "messages" and _are_messages(found)

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        """Return the sequence of a record."""
        if isinstance(record, list):
            return builder.chat(_read(record, builder), **builder.free_fields({}))
        row = as_object(record)
        # Rows of a table name their columns as they like; objects with a list have had fixed names all along.
        column = builder.column("messages")
        if "messages" not in builder.options.columns and column not in row:
            column = find_column(row, "messages") or column
        is_cell = isinstance(row.get(column), str)
        key = find_column(row, "id") if is_cell else None
        fields = builder.free_fields(row, column, id_column=key or "id")
        messages = message_list(row, column)
        try:
            return builder.chat(_read(messages, builder), **fields)
        except (RecordError, ConversationError) as error:
            raise RecordError(f"column {column!r}: {error}" if is_cell else str(error)) from None


def _read(messages: list[Any], builder: SequenceBuilder) -> list[Any]:
    return checked_messages(with_roles(messages, builder.options.role_map))


def _are_messages(value: object) -> bool:
    return isinstance(value, list) and bool(value) and is_message(value[0]) and "role" in value[0]
