"""Single prompts: one user text in each record, read as a conversation of one turn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from turnwise.conversation import Label, Sequence
from turnwise.datasets.fields import as_object, field, optional_object, optional_text
from turnwise.datasets.protocol import DatasetInfo
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder
from turnwise.datasets.records import Head


class Prompts(RecordLoader):
    """Labelled single prompts; the label in the file's own words stays in ``metadata.label``."""

    info = DatasetInfo(
        name="prompts",
        title="single prompts",
        source="whoever wrote the file",
        url="",
        licence="that of the prompts in it",
        label_meaning="as the file says: attack, benign or unlabelled",
        shape='JSONL, CSV or Parquet of {"text", "label"}, and "id", "source", "metadata" where there are such',
        columns=("text", "id", "label"),
        generic=True,
    )

    def sniff(self, head: Head) -> bool:
        """Return whether records have a text and a label, and nothing that could be a conversation."""
        return {"text", "label"} <= head.fields <= {"id", "text", "label", "source", "metadata"}

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        """Return the sequence of one turn."""
        line = as_object(record)
        metadata = {**optional_object(line, "metadata")}
        label = builder.find_column(line, "label")
        if label is not None and line[label] not in (None, ""):
            metadata["label"] = line[label]
        source, key = optional_text(line, "source"), line.get(builder.column("id"))
        return (replace(builder, source=source) if source else builder).prompts(
            [field(line, builder.column("text"), str)],
            key=key,
            name=key if isinstance(key, str) else None,
            default=Label.UNLABELLED,
            given=None if label is None else line[label],
            metadata=metadata,
        )
