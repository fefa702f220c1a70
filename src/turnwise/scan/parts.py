"""Parts: what a worker of a scan takes at once, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass

from turnwise.conversation import Sequence
from turnwise.datasets import BadRecord
from turnwise.datasets.records import ParsedRecord
from turnwise.findings import PartEntry

PART_ROWS = 2_000
"""Records of a part where nothing else is said."""

PART_BYTES = 32 << 20
"""Bytes of text that a part has at most, unless one record has more: workers hold a part in memory."""


@dataclass(frozen=True, slots=True)
class ParquetRows:
    """Rows of a Parquet file, as many as the part has; the worker reads them from the file."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Whole lines of an uncompressed JSONL file; the worker reads them from the file."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class LineBytes:
    """Whole lines of JSONL that were read from a stream in which a worker can't seek."""

    lines: bytes


@dataclass(frozen=True, slots=True)
class Records:
    """Records that were read already, or conversations where a format makes one of several records."""

    items: tuple[ParsedRecord | BadRecord | Sequence, ...]


Content = ParquetRows | ByteRange | LineBytes | Records


@dataclass(frozen=True, slots=True)
class Part:
    """A run of records of one input file: small, picklable, the same whatever the engine.

    `number` counts from 0 over all inputs in their order; `input` is the index of the file. `first_row` counts
    from 1 (line, row or item, as in `BadRecord`), and `rows` include blank lines. `size` are the bytes of the file
    that it stands for, for progress alone. `format` is empty where the file could not be opened. `chosen` are the
    places in the part, from 0, of the records that a sample wants; None for all.
    """

    number: int
    input: int
    first_row: int
    rows: int
    content: Content
    size: int
    format: str = ""
    chosen: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a part. Its files are written: the entry may go into the manifest.

    The entry depends on the part and the settings alone; `size` is as in `Part`.
    """

    entry: PartEntry
    size: int
    cost_usd: float = 0.0
