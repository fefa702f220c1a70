"""One exchange in each record: a prompt and its response."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from turnwise.conversation import Label, Sequence
from turnwise.datasets.fields import as_object, field, optional_text
from turnwise.datasets.protocol import SEE_SOURCE, DatasetInfo
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder
from turnwise.datasets.records import Head

BENIGN_SET = "benign-dataset"
"""Name of LLM-LAT's set on the hub, and of the folder that it is downloaded to."""


class PromptResponse(RecordLoader):
    """Conversations of one turn; those of LLM-LAT/benign-dataset are benign by their name."""

    info = DatasetInfo(
        name="promptresponse",
        title="LLM-LAT/benign-dataset, and any prompt with its response",
        source="Sheshadri et al. 2024, Latent Adversarial Training, arXiv:2407.15549; or whoever wrote the file",
        url="https://huggingface.co/datasets/LLM-LAT/benign-dataset",
        licence=SEE_SOURCE,
        label_meaning="benign where file or folder is named benign-dataset, by what the set is for; else "
        "unlabelled, unless a label column or --label says otherwise",
        shape='Parquet, CSV, JSONL or JSON array of {"prompt", "response"}',
        columns=("prompt", "response", "id", "label"),
        generic=True,
    )

    def sniff(self, head: Head) -> bool:
        """Return whether records have one prompt and one response, both text."""
        first = head.records[0] if head.records else None
        return isinstance(first, dict) and all(isinstance(first.get(name), str) for name in ("prompt", "response"))

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        """Return the sequence of one turn."""
        row = as_object(record)
        prompt, response = builder.column("prompt"), builder.column("response")
        fields = builder.free_fields(row, prompt, response)
        names = (part.lower().replace("_", "-") for part in (*PurePath(builder.path).parts, builder.stem))
        if BENIGN_SET in names:
            fields["default"] = Label.BENIGN
        return builder.turns([(field(row, prompt, str), optional_text(row, response))], **fields)
