"""MHJ, Multi-Turn Human Jailbreaks: successful attacks by people, one in each row of a CSV file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnwise.conversation import Label, Sequence
from turnwise.datasets.fields import as_object, kind, pick
from turnwise.datasets.files import parse_json
from turnwise.datasets.protocol import DatasetInfo, RecordError
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder
from turnwise.datasets.records import Head

PREFIX = "message_"


class MultiTurnHumanJailbreaks(RecordLoader):
    """537 rows; each column ``message_0`` .. ``message_100`` is empty or a message as JSON."""

    info = DatasetInfo(
        name="mhj",
        title="MHJ (Multi-Turn Human Jailbreaks)",
        source="Li et al. 2024, LLM Defenses Are Not Robust to Multi-Turn Human Jailbreaks Yet, arXiv:2408.15221; "
        "red teamers",
        url="https://huggingface.co/datasets/ScaleAI/mhj",
        licence="CC-BY-NC-4.0",
        label_meaning="attack: people broke a defended model with it; some completions are redacted",
        shape='CSV (harmbench_behaviors.csv): columns message_0 .. message_100, each empty or {"body", "role"}, '
        "with tactic, question_id, time_spent, submission_message, Source",
        gated=True,
    )

    def sniff(self, head: Head) -> bool:
        """Return whether the columns are messages beside a tactic."""
        return {"message_0", "tactic"} <= head.fields

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        """Return the sequence of a row; a question has several, which are one group."""
        row = as_object(record)
        facts = pick(row, "tactic", "question_id", "time_spent", "submission_message", origin="Source")
        metadata = {name: value for name, value in facts.items() if value != ""}
        if "question_id" in metadata:
            metadata["group"] = ":".join(
                str(metadata[name]) for name in ("origin", "question_id") if name in metadata
            )
        return builder.chat(_messages(row), default=Label.ATTACK, metadata=metadata)


def _messages(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    if "message_0" not in row:
        raise RecordError("column 'message_0' is missing: messages stand in message_0, message_1 ...")
    columns = (name for name in row if name.startswith(PREFIX) and name.removeprefix(PREFIX).isdigit())
    ordered = sorted(columns, key=lambda name: int(name.removeprefix(PREFIX)))
    messages = [_message(name, row[name]) for name in ordered if row[name]]
    if not messages:
        raise RecordError("the conversation is empty: every message column is")
    return messages


def _message(column: str, cell: object) -> dict[str, Any]:
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
