"""Parts: what a worker of a scan takes at once, how it is read, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase, BufferedReader, BytesIO, RawIOBase
from pathlib import Path
from traceback import walk_tb
from typing import Any

from turnwise._support.locations import Location
from turnwise.conversation import Sequence
from turnwise.datasets import BadRecord, LoadOptions, RecordError, RecordLoader, get_loader
from turnwise.datasets.records import ParsedRecord, parquet_lines, parse_json, read_lines
from turnwise.errors import DatasetError, TurnwiseError
from turnwise.findings import PartEntry
from turnwise.runs.inputs import Reading
from turnwise.store.where import Where

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


def read_part(part: Part, reading: Reading) -> Iterator[tuple[int, int, Sequence | BadRecord]]:
    """Yield place in the part, row, and conversation of each record that is wanted, in order."""
    path = reading.files[part.input]
    if isinstance(part.content, Records) and not any(isinstance(one, ParsedRecord) for one in part.content.items):
        for place, item in enumerate(part.content.items):
            if part.chosen is None or place in part.chosen:
                yield place, _row(item, part.first_row + place), _made(item)
        return
    loader = get_loader(part.format)
    for place, record in _records(part, path):
        if part.chosen is not None and place not in part.chosen:
            continue
        if isinstance(record, BadRecord):
            yield place, record.line, record
        else:
            yield place, record.number, _build(loader, record, path, reading.options)


def _made(item: ParsedRecord | BadRecord | Sequence) -> Sequence | BadRecord:
    assert not isinstance(item, ParsedRecord)
    return item


def _row(item: object, otherwise: int) -> int:
    line = getattr(item, "line", None)
    return otherwise if line is None else line


def _build(loader: Any, record: ParsedRecord, path: str, options: LoadOptions) -> Sequence | BadRecord:
    """The sequence of a record; what a loader raises concerns that record alone."""
    assert isinstance(loader, RecordLoader)
    try:
        return next(loader.numbered((record,), path, options))[1]
    except Exception as error:  # noqa: BLE001 - a loader may be foreign code, and the record may be anything
        reason = str(error)
        if not isinstance(error, TurnwiseError):  # its words may be those of the record
            *_, (frame, line) = walk_tb(error.__traceback__)
            reason = f"{type(error).__name__} at {Path(frame.f_code.co_filename).name}:{line}"
        return BadRecord(record.number, f"the loader {loader.info.name} can't read it: {reason}")


def _records(part: Part, path: str) -> Iterator[tuple[int, ParsedRecord | BadRecord]]:
    content = part.content
    if isinstance(content, Records):
        for place, item in enumerate(content.items):
            assert not isinstance(item, Sequence)
            yield place, item
        return
    if isinstance(content, LineBytes):
        records = read_lines(BytesIO(content.lines), part.first_row)
    elif isinstance(content, ByteRange):
        records = _range(Location(path), content, part.first_row)
    else:
        records = _parquet(path, part.first_row, part.rows)
    for record in records:
        number = record.line if isinstance(record, BadRecord) else record.number
        yield number - part.first_row, record


def _range(location: Location, content: ByteRange, first: int) -> Iterator[ParsedRecord | BadRecord]:
    with location.open() as file:
        file.seek(content.start)
        yield from read_lines(BufferedReader(_Limited(file, content.end - content.start)), first)


class _Limited(RawIOBase):
    """The next bytes of a file, so many and no more."""

    def __init__(self, file: Any, size: int) -> None:
        self._file: BufferedIOBase = file
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._file.read(min(len(buffer), self._left))
        buffer[: len(part)] = part
        self._left -= len(part)
        return len(part)


def _parquet(path: str, first: int, rows: int) -> Iterator[ParsedRecord | BadRecord]:
    number = first
    try:
        for line in parquet_lines(path, (first - 1, first - 1 + rows)):
            try:
                yield ParsedRecord(number, parse_json(line))
            except RecordError as error:
                yield BadRecord(number, str(error))
            number += 1
    except DatasetError as error:
        yield unreadable(number, first + rows - 1, error)


def unreadable(first: int, last: int, error: Exception) -> BadRecord:
    """What is said of rows that can't be read, while those after them may be."""
    return BadRecord(first, f"rows {first} to {last} can't be read: {error}")


def meets(where: Where | None, sequence: Sequence) -> bool:
    """Whether a conversation that was just read meets a condition; without one, each does."""
    if where is None:
        return True
    turns = list(sequence.conversation)
    return where.holds(
        {
            "id": sequence.sequence_id,
            "label": str(sequence.label),
            "source": sequence.source,
            "turns": len(turns),
            "chars": sum(len(turn.prompt) for turn in turns),
            "response_chars": sum(len(turn.response or "") for turn in turns),
            "metadata": sequence.metadata,
        }
    )
