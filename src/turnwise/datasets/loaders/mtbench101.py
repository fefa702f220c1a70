"""MT-Bench-101: multi-turn tasks in thirteen abilities."""

from __future__ import annotations

from typing import Any

from turnwise.conversation import Label, Sequence
from turnwise.datasets.fields import as_object, field, optional_text
from turnwise.datasets.protocol import DatasetInfo, RecordError
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder
from turnwise.datasets.records import Head


class MTBench101(RecordLoader):
    """1,388 conversations with reference replies."""

    info = DatasetInfo(
        name="mtbench101",
        title="MT-Bench-101",
        source="Bai et al. 2024, MT-Bench-101, arXiv:2402.14762; written by a model, checked by people",
        url="https://github.com/mtbench101/mt-bench-101",
        licence="Apache-2.0",
        label_meaning="benign: tasks that measure ability; several correct or doubt the model on purpose",
        shape='JSONL of {"task", "id", "history": [{"user", "bot"}]}',
    )

    def sniff(self, head: Head) -> bool:
        """Return whether records are tasks with a history of user and bot."""
        history = head.records[0]["history"] if {"task", "history"} <= head.fields else None
        return isinstance(history, list) and bool(history) and isinstance(history[0], dict) and "bot" in history[0]

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        """Return the sequence of a task."""
        line = as_object(record)
        history = field(line, "history", list)
        if not history:
            raise RecordError("field 'history' is empty: a conversation without turns")
        task = field(line, "task", str)
        return builder.turns(
            [_exchange(number, turn) for number, turn in enumerate(history, start=1)],
            name=f"{builder.source}-{task}-{field(line, 'id', int)}",
            default=Label.BENIGN,
            metadata={"task": task},
        )


def _exchange(number: int, turn: object) -> tuple[str, str | None]:
    try:
        exchange = as_object(turn)
        return field(exchange, "user", str), optional_text(exchange, "bot")
    except RecordError as error:
        raise RecordError(f"turn {number}: {error}") from None
