"""Formats that anybody writes: turnwise's own, messages, ShareGPT, prompts, and tables of a message a row."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, Final

from turnwise.conversation import Label, Sequence
from turnwise.datasets.format_row import Format
from turnwise.datasets.labels_and_roles import UnknownLabelError, read_label, unknown_role, usual_role, with_roles
from turnwise.datasets.layout import FileHead, is_message
from turnwise.datasets.protocol import SEE_SOURCE, BadRecord, DatasetInfo, LoadOptions, RecordError
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder, UniqueIds, find_column
from turnwise.datasets.records import (
    ParsedRecord,
    as_object,
    checked_messages,
    field,
    kind,
    optional_object,
    optional_text,
)

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


def _is_turnwise(head: FileHead) -> bool:
    turns = head.records[0]["turns"]
    return isinstance(turns, list) and bool(turns) and is_message(turns[0])


def _has_messages(head: FileHead) -> bool:
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


def _has_entries(head: FileHead) -> bool:
    entries = head.records[0]["conversations"]
    return isinstance(entries, list) and bool(entries) and (isinstance(entries[0], str) or is_message(entries[0]))


def _benign_by_name(_: Mapping[str, Any], builder: SequenceBuilder) -> Mapping[str, Any]:
    names = (part.lower().replace("_", "-") for part in (*PurePath(builder.path).parts, builder.stem))
    return {"default": Label.BENIGN} if _BENIGN_SET in names else {}


def _is_exchange(head: FileHead) -> bool:
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


# A message in each row

_NEEDED: Final = ("id", "role", "text")
_COLUMNS: Final = (*_NEEDED, "turn", "label")


@dataclass(slots=True)
class _Rows:
    """What was read of one conversation: what its rows say alike, place and message of each, each label once."""

    first: int
    shared: dict[str, Any]
    messages: list[tuple[float, dict[str, str]]] = dataclasses.field(default_factory=list)
    labels: list[Any] = dataclasses.field(default_factory=list)
    bad: BadRecord | None = None  # the row because of which it is left out


class TurnRows(RecordLoader):
    """Rows in any order, so all are held. A conversation with a bad row is left out: without it, it is another."""

    info = DatasetInfo(
        name="turns",
        title="one row a message",
        source="whoever wrote the file",
        url="",
        licence="that of the conversations in it",
        label_meaning="attack where a row says attack, else what the rows say; else unlabelled",
        shape="CSV, Parquet or JSONL with the columns conversation_id, role and text, and perhaps turn and label",
        columns=_COLUMNS,
        generic=True,
        roles=True,
    )

    def sniff(self, head: FileHead) -> bool:
        rows = [row for row in head.records if isinstance(row, dict)]
        if not rows or len(rows) < len(head.records):
            return False
        key, role, text = (find_column(rows[0], what) for what in _NEEDED)
        if key is None or role is None or text is None or len({key, role, text}) < len(_NEEDED):
            return False
        known = all(usual_role(row.get(role), {}) is not None and isinstance(row.get(text), str) for row in rows)
        # A column "id" may be that of the row: then no two rows share it.
        return known and (key.strip().lower() != "id" or len({str(row.get(key)) for row in rows}) < len(rows))

    def load_records(
        self, records: Iterable[ParsedRecord | BadRecord], path: str, options: LoadOptions
    ) -> Iterator[Sequence | BadRecord]:
        source, ids = self.source(path, options), UniqueIds()
        chats: dict[object, _Rows] = {}
        last: _Rows | None = None
        lost: int | None = None  # the row before this one could not be read, and may be of this conversation
        for record in records:
            if isinstance(record, BadRecord):
                yield record
                lost = record.line
                _leave_out(last, lost)
                continue
            builder = SequenceBuilder(source, record.number, path, options)
            try:
                row = as_object(record.value)
                columns = {what: builder.find_column(row, what) for what in _COLUMNS}
                key = _key(row, columns)
            except RecordError as error:
                yield BadRecord(record.number, str(error))
                lost = record.number
                _leave_out(last, lost)
                continue
            last = chats.setdefault(key, _Rows(record.number, _others(row, columns)))
            if lost is not None:
                _leave_out(last, lost)
                lost = None
            try:
                _add(last, row, columns, options.role_map)
            except RecordError as error:
                last.bad = last.bad or BadRecord(record.number, f"{error}; the conversation {key!r} is left out")
        for name, rows in chats.items():
            builder = SequenceBuilder(source, rows.first, path, options)
            yield rows.bad or ids.check(rows.first, self.try_build((name, rows), builder))

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        key, rows = record
        messages = [message for _, message in sorted(rows.messages, key=lambda one: one[0])]
        given = _label(rows.labels, builder.options)
        return builder.chat(messages, key=key, default=Label.UNLABELLED, given=given, metadata=rows.shared)


def _key(row: Mapping[str, Any], columns: Mapping[str, str | None]) -> str | int:
    missing = [what for what in _NEEDED if columns[what] is None]
    if missing:
        raise RecordError(
            f"the column for {missing[0]!r} is missing; the file has: {', '.join(row)}. Name it with "
            f"--columns {missing[0]}=COLUMN"
        )
    column = columns["id"]
    key = row[column] if column is not None else None
    if not isinstance(key, str | int) or isinstance(key, bool) or key == "":
        raise RecordError(
            f"column {column!r} is {'empty' if key == '' else kind(key)}, not the id of a conversation"
        )
    return key


def _others(row: Mapping[str, Any], columns: Mapping[str, str | None]) -> dict[str, Any]:
    taken = set(columns.values())
    return {name: value for name, value in row.items() if name not in taken and value not in (None, "")}


def _add(
    rows: _Rows, row: Mapping[str, Any], columns: Mapping[str, str | None], role_map: Mapping[str, str]
) -> None:
    """Add a row to its conversation; RecordError where it is no message."""
    role, text, turn, label = (columns[what] for what in ("role", "text", "turn", "label"))
    speaker = usual_role(row[role], role_map) if role is not None else None
    if speaker is None:
        raise RecordError(f"column {role!r}: {unknown_role(row.get(role or ''))}")
    said = row[text] if text is not None else None
    if not isinstance(said, str):
        raise RecordError(f"column {text!r} is {kind(said)}, not text")
    rows.messages.append((_turn_number(row, turn), {"role": speaker, "content": said}))
    if label is not None and row[label] not in rows.labels:
        rows.labels.append(row[label])
    rows.shared = {name: value for name, value in rows.shared.items() if row.get(name) == value}


def _turn_number(row: Mapping[str, Any], column: str | None) -> float:
    """The number of a row in its conversation; rows of the same number keep their order."""
    if column is None:
        return 0.0
    try:
        number = float(row[column])
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise RecordError(f"column {column!r} is {row[column]!r}, not the number of a turn")
    return number


def _label(labels: list[Any], options: LoadOptions) -> object:
    """What the rows of a conversation say: attack, else a label that is not known, else the first."""
    read: list[object] = []
    unknown: list[object] = []
    for label in labels:
        try:
            read.append(read_label(label, options.label_map))
        except UnknownLabelError:
            unknown.append(label)
    if Label.ATTACK in read:
        return Label.ATTACK
    return next((label for label in (*unknown, *read) if label is not None), None)


def _leave_out(rows: _Rows | None, line: int) -> None:
    """Leave out a conversation to which an unreadable row beside it may belong."""
    if rows is not None:
        rows.bad = rows.bad or BadRecord(
            rows.first, f"left out: row {line} beside it could not be read, and may be one of its turns"
        )
