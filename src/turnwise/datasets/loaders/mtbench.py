"""MT-Bench: 80 questions with one follow-up each."""

from __future__ import annotations

from typing import Any

from turnwise.conversation import Label, Sequence
from turnwise.datasets.fields import as_object, pick, text_list
from turnwise.datasets.protocol import DatasetInfo
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder
from turnwise.datasets.records import Head


class MTBench(RecordLoader):
    """Questions of eight categories, user turns only."""

    info = DatasetInfo(
        name="mtbench",
        title="MT-Bench",
        source="Zheng et al. 2023, Judging LLM-as-a-Judge, arXiv:2306.05685; written by its authors",
        url="https://github.com/lm-sys/FastChat/tree/main/fastchat/llm_judge",
        licence="Apache-2.0",
        label_meaning="benign: questions that measure ability",
        shape='JSONL (question.jsonl) of {"question_id", "category", "turns": [text]}',
    )

    def sniff(self, head: Head) -> bool:
        """Return whether records are questions with turns that are text."""
        turns = head.records[0]["turns"] if {"question_id", "turns"} <= head.fields else None
        return isinstance(turns, list) and bool(turns) and isinstance(turns[0], str)

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        """Return the sequence of a question."""
        line = as_object(record)
        return builder.prompts(
            text_list(line, "turns"),
            key=line.get("question_id"),
            default=Label.BENIGN,
            metadata=pick(line, "category"),
        )
