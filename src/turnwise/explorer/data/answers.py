"""What every view asks: one record, and what is kept about it between questions."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from turnwise.explorer.data.flags import Flagging
from turnwise.explorer.data.record import Record
from turnwise.explorer.data.run_pairs import RunPairs
from turnwise.explorer.data.sequences import Sequences
from turnwise.explorer.data.word_index import WordIndex


class Answers:
    """The record with what answers questions about it; closing stops the work in the background, nothing else."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.flagging = Flagging(record)
        self.words = WordIndex(record)
        self.run_pairs = RunPairs(record)
        self.sequences = Sequences(record, self.flagging, self.words)

    def close(self) -> None:
        """Stop what works in the background."""
        self.words.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
