"""Formats that anybody writes, a row each: turnwise's own, messages, ShareGPT, and conversations of one turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Final

from turnwise.conversation import Label, Sequence
from turnwise.datasets.fields import (
    as_object,
    checked_messages,
    field,
    optional_object,
    optional_text,
)
from turnwise.datasets.format_row import Format
from turnwise.datasets.labels_and_roles import with_roles
from turnwise.datasets.layout import Head, is_message
from turnwise.datasets.protocol import SEE_SOURCE, DatasetInfo
from turnwise.datasets.record_loader import SequenceBuilder, find_column

_BENIGN_SET: Final = "benign-dataset"
"""Name of LLM-LAT's set on the hub, and of the folder that it is downloaded to."""


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


def _turnwise(record: Any, builder: SequenceBuilder) -> Sequence:
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


def _is_turnwise(head: Head) -> bool:
    turns = head.records[0]["turns"]
    return isinstance(turns, list) and bool(turns) and is_message(turns[0])


def _has_messages(head: Head) -> bool:
    """Whether records are lists of messages, or have such a list, or the JSON of one in a table."""
    first = head.records[0] if head.records else None
    if not isinstance(first, dict):
        return _are_messages(first)
    column = find_column(first, "messages")
    found = None if column is None else first[column]
    if isinstance(found, str):
        return found.lstrip().startswith("[") and '"role"' in found and '"content"' in found
    return column == "messages" and _are_messages(found)


def _are_messages(value: object) -> bool:
    return isinstance(value, list) and bool(value) and is_message(value[0]) and "role" in value[0]


def _has_entries(head: Head) -> bool:
    entries = head.records[0]["conversations"]
    return isinstance(entries, list) and bool(entries) and (isinstance(entries[0], str) or is_message(entries[0]))


def _benign_by_name(_: Mapping[str, Any], builder: SequenceBuilder) -> Mapping[str, Any]:
    names = (part.lower().replace("_", "-") for part in (*PurePath(builder.path).parts, builder.stem))
    return {"default": Label.BENIGN} if _BENIGN_SET in names else {}


def _is_exchange(head: Head) -> bool:
    return all(isinstance(head.records[0][name], str) for name in ("prompt", "response"))


def _prompts(record: Any, builder: SequenceBuilder) -> Sequence:
    """The label in the file's own words stays in ``metadata.label``."""
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


GENERIC: Final = (
    Format(
        info=DatasetInfo(
            name="turnwise",
            title="turnwise JSONL",
            source="whoever wrote the file; turnwise's own exports and examples",
            url="",
            licence="that of the conversations in it",
            label_meaning="as the file says: attack, benign or unlabelled",
            shape='JSONL of {"id", "label", "source", "turns": [{"role", "content"}], "metadata"}',
            generic=True,
            roles=True,
        ),
        fields=("id", "turns"),
        told_by=_is_turnwise,
        build=_turnwise,
    ),
    Format(
        info=DatasetInfo(
            name="messages",
            title="OpenAI chat messages",
            source="whoever wrote the file; ProMISe, Safe-Multi, ChatAlpaca and fine-tuning files have this form",
            url="https://platform.openai.com/docs/api-reference/chat",
            licence="that of the conversations in it",
            label_meaning="unlabelled, unless a label column or --label says otherwise",
            shape='JSONL, JSON array or Parquet of {"messages": [{"role", "content"}]}, or of the bare lists; '
            "CSV or Parquet with such a list as JSON in a column",
            columns=("messages", "id", "label"),
            generic=True,
            roles=True,
        ),
        told_by=_has_messages,
        texts="messages",
    ),
    Format(
        info=DatasetInfo(
            name="sharegpt",
            title="ShareGPT, ChatAlpaca, LIMA",
            source="users who shared their chats (ShareGPT); Alpaca instructions continued by a model "
            "(ChatAlpaca); question and answer sites and authors (LIMA, Zhou et al. 2023, arXiv:2305.11206)",
            url="https://huggingface.co/datasets/GAIR/lima",
            licence="ChatAlpaca Apache-2.0; LIMA CC BY-NC-SA, or stricter where its sources are, and gated; "
            "ShareGPT dumps: see the source",
            label_meaning="unlabelled, unless a label column or --label says otherwise",
            shape='JSON array, JSONL or Parquet of {"conversations": [{"from", "value"}]}, or of plain texts that '
            "alternate",
            columns=("conversations", "id", "label"),
            generic=True,
            roles=True,
        ),
        fields=("conversations",),
        told_by=_has_entries,
        shape="sharegpt",
        texts="conversations",
    ),
    Format(
        info=DatasetInfo(
            name="promptresponse",
            title="LLM-LAT/benign-dataset, and any prompt with its response",
            source="Sheshadri et al. 2024, Latent Adversarial Training, arXiv:2407.15549; or whoever wrote the "
            "file",
            url="https://huggingface.co/datasets/LLM-LAT/benign-dataset",
            licence=SEE_SOURCE,
            label_meaning="benign where file or folder is named benign-dataset, by what the set is for; else "
            "unlabelled, unless a label column or --label says otherwise",
            shape='Parquet, CSV, JSONL or JSON array of {"prompt", "response"}',
            columns=("prompt", "response", "id", "label"),
            generic=True,
        ),
        fields=("prompt", "response"),
        told_by=_is_exchange,
        shape="exchanges",
        more=_benign_by_name,
    ),
    Format(
        info=DatasetInfo(
            name="prompts",
            title="single prompts",
            source="whoever wrote the file",
            url="",
            licence="that of the prompts in it",
            label_meaning="as the file says: attack, benign or unlabelled",
            shape='JSONL, CSV or Parquet of {"text", "label"}, and "id", "source", "metadata" where there are '
            "such",
            columns=("text", "id", "label"),
            generic=True,
        ),
        fields=("text", "label"),
        told_by=lambda head: head.fields <= {"id", "text", "label", "source", "metadata"},
        build=_prompts,
    ),
)
