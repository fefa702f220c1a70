"""Tables: one message in each row with the id of its conversation, and MHJ, one message in each column."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from turnwise.conversation import Label, Sequence
from turnwise.datasets.fields import as_object, kind, parse_json, pick
from turnwise.datasets.labels_and_roles import UnknownLabelError, read_label, unknown_role, usual_role
from turnwise.datasets.layout import Head
from turnwise.datasets.protocol import BadRecord, DatasetInfo, LoadOptions, RecordError
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder, UniqueIds, find_column
from turnwise.datasets.records import ParsedRecord

_NEEDED: Final = ("id", "role", "text")
_COLUMNS: Final = (*_NEEDED, "turn", "label")


@dataclass(slots=True)
class _Rows:
    """What was read of one conversation.

    ``shared`` is what else all of its rows say alike, ``messages`` place in the conversation, role and text of
    each row. ``labels`` has each value of the label column once; ``bad`` is the row because of which it is left
    out.
    """

    first: int
    shared: dict[str, Any]
    messages: list[tuple[float, dict[str, str]]] = field(default_factory=list)
    labels: list[Any] = field(default_factory=list)
    bad: BadRecord | None = None


class Turns(RecordLoader):
    """Rows in any order, so all of them are held; a column ``turn`` puts those of a conversation in order.

    A conversation with a bad row is left out: without that row it would be another conversation. It is an attack
    where one of its rows is labelled as one.
    """

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

    def sniff(self, head: Head) -> bool:
        """Return whether rows have a conversation, a known role and a text."""
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
        """Yield the conversations in the order of their first rows, once all rows are read."""
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
        """Return the sequence of the rows of a conversation."""
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


def read_mhj(record: Any, builder: SequenceBuilder) -> Sequence:
    """Return the sequence of a row of MHJ; a question has several, which are one group."""
    row = as_object(record)
    facts = pick(row, "tactic", "question_id", "time_spent", "submission_message", origin="Source")
    metadata = {name: value for name, value in facts.items() if value != ""}
    if "question_id" in metadata:
        metadata["group"] = ":".join(str(metadata[name]) for name in ("origin", "question_id") if name in metadata)
    return builder.chat(_mhj_messages(row), default=Label.ATTACK, metadata=metadata)


def _mhj_messages(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    if "message_0" not in row:
        raise RecordError("column 'message_0' is missing: messages stand in message_0, message_1 ...")
    numbers = [name.removeprefix("message_") for name in row if name.startswith("message_")]
    columns = [f"message_{number}" for number in sorted(filter(str.isdecimal, numbers), key=int)]
    messages = [_mhj_message(column, row[column]) for column in columns if row[column]]
    if not messages:
        raise RecordError("the conversation is empty: every message column is")
    return messages


def _mhj_message(column: str, cell: object) -> dict[str, Any]:
    try:
        message = parse_json(cell) if isinstance(cell, str) else cell
    except RecordError as error:
        raise RecordError(f"column {column!r}: {error}") from None
    if not isinstance(message, dict):
        raise RecordError(f"column {column!r} is {kind(message)}, not an object with body and role")
    body = message.get("body")
    if not isinstance(body, str):
        raise RecordError(f"column {column!r}: body is {kind(body)}, not text")
    return {"role": message.get("role"), "content": body}
