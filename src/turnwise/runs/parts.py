"""Parts of files: what a worker of a scan takes at once. They depend on the files and the size of parts alone."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Ordered
from dataclasses import dataclass
from io import BufferedIOBase, BufferedReader, BytesIO, FileIO, RawIOBase
from pathlib import Path
from traceback import walk_tb
from typing import Any, NamedTuple

from turnwise._support.locations import Location
from turnwise.conversation import Sequence
from turnwise.datasets import BadRecord, Loader, LoadOptions, RecordError, RecordLoader, get_loader
from turnwise.datasets.files import DAMAGED, MAX_LINE, bounded_lines, is_stream, open_counted
from turnwise.datasets.layout import FileHead, Layout, read_records
from turnwise.datasets.records import (
    TOO_LONG,
    ParsedRecord,
    broken_off,
    parquet_groups,
    parquet_lines,
    parse_json,
    read_lines,
)
from turnwise.errors import DatasetError, TurnwiseError
from turnwise.findings import PartEntry
from turnwise.runs.inputs import InputSettings
from turnwise.store.where import Where

PART_ROWS = 2_000
"""Records of a part where nothing else is said."""

PART_BYTES = 32 << 20
"""Bytes of text that a part has at most, unless one record has more: workers hold a part in memory."""


_LARGE_GROUP = 4
"""Parts that a row group of Parquet may hold for workers to read them: each unpacks the group up to its rows."""

Item = ParsedRecord | BadRecord | Sequence


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

    items: tuple[Item, ...]


Content = ParquetRows | ByteRange | LineBytes | Records


@dataclass(frozen=True, slots=True)
class Part:
    """A run of records of one input file: small, picklable, the same whatever the engine."""

    number: int  # from 0, over all inputs in their order
    input: int  # index of the file
    first_row: int  # from 1: line, row or item, as in `BadRecord`
    rows: int  # with blank lines
    content: Content
    size: int  # bytes of the file that it stands for, for progress alone
    format: str = ""  # empty where the file could not be opened
    chosen: frozenset[int] | None = None  # places in the part, from 0, that a sample wants; None for all


@dataclass(frozen=True, slots=True)
class FinishedPart:
    """What came of a part. Its files are written: the entry may go into the manifest."""

    entry: PartEntry  # depends on the part and the settings alone
    size: int  # as in `Part`
    cost_usd: float = 0.0


def read_part(part: Part, reading: InputSettings) -> Iterator[tuple[int, int, Sequence | BadRecord]]:
    """Yield place in the part, row, and conversation of each record that is wanted, in order."""
    path = reading.files[part.input]
    loader = get_loader(part.format) if part.format else None
    for place, item in _items(part, path):
        if part.chosen is not None and place not in part.chosen:
            continue
        if isinstance(item, ParsedRecord):
            yield place, item.number, _build(loader, item, path, reading.options)
        else:
            yield place, part.first_row + place if item.line is None else item.line, item


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


def _items(part: Part, path: str) -> Iterator[tuple[int, Item]]:
    content = part.content
    if isinstance(content, Records):
        yield from enumerate(content.items)
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
        yield from read_lines(BufferedReader(_BoundedFile(file, content.end - content.start)), first)


class _BoundedFile(RawIOBase):
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


class _Piece(NamedTuple):
    """A part before it has a number: its first record, its records, and the bytes of content that they have."""

    first_row: int
    rows: int
    content: Content
    size: int


def plan_parts(reading: InputSettings, part_rows: int) -> Iterator[Part]:
    """Yield the parts of all inputs, in order; a file is read only when its turn comes."""
    number = 0
    for place in range(len(reading.files)):
        try:
            head, loader = reading.open(place)
            for piece in _to_scale(_pieces(head, loader, reading.options, part_rows), Location(head.path)):
                yield Part(number, place, *piece, format=loader.info.name)
                number += 1
        except (DatasetError, *DAMAGED) as error:
            yield Part(number, place, 0, 1, Records((BadRecord(0, str(error)),)), 0)
            number += 1


def _to_scale(pieces: Iterator[_Piece], file: Location) -> Iterator[_Piece]:
    """Yield pieces whose sizes add up to that of their file: content that was unpacked has other bytes."""
    left = 0 if is_stream(file.name) or file.is_folder() else file.size()
    held: _Piece | None = None
    for piece in pieces:
        if held is not None:
            size = min(held.size, left)
            left -= size
            yield held._replace(size=size)
        held = piece
    if held is not None:
        yield held._replace(size=left)


def _pieces(head: FileHead, loader: Loader, options: LoadOptions, part_rows: int) -> Iterator[_Piece]:
    if not _is_record_wise(loader):
        if isinstance(loader, RecordLoader) and head.stream is not None:
            items: Iterable[Item] = loader.load_records(read_records(head), head.path, options)
        else:
            items = loader.load(head.path, options)
        return _of_items(items, part_rows)
    if head.layout is Layout.PARQUET:
        return _of_parquet(head.path, part_rows)
    if head.layout is Layout.LINES:
        return _of_lines(head, part_rows)
    return _of_items(read_records(head), part_rows)


def _is_record_wise(loader: Loader) -> bool:
    """Whether each record of a format is a conversation of its own, so that a file can be cut anywhere."""
    return isinstance(loader, RecordLoader) and type(loader).load_records is RecordLoader.load_records


def _of_parquet(path: str, part_rows: int) -> Iterator[_Piece]:
    groups = parquet_groups(path)
    total, size = sum(rows for rows, _ in groups), sum(size for _, size in groups)
    if not total:
        return  # no rows are no fault
    packed = Location(path).size()
    most = max(1, min(part_rows, PART_BYTES * total // max(size, 1)))
    if max(rows for rows, _ in groups) > _LARGE_GROUP * most:
        start = 0
        for rows, _ in groups:
            lines = (line.encode() + b"\n" for line in parquet_lines(path, (start, start + rows)))
            for piece in _of_line_bytes(lines, part_rows, first=start + 1, last=start + rows):
                yield piece._replace(size=packed * piece.rows // total)
            start += rows
        return
    for first in range(0, total, most):
        rows = min(most, total - first)
        yield _Piece(first + 1, rows, ParquetRows(), packed * rows // total)


def _of_lines(head: FileHead, part_rows: int) -> Iterator[_Piece]:
    if head.stream is not None:
        with head.stream:
            yield from _of_line_bytes(bounded_lines(head.stream), part_rows)
        return
    with open_counted(head.path, head.encoding) as (stream, packed):
        if head.encoding is None and isinstance(stream.raw, FileIO) and not is_stream(head.path):
            yield from _of_ranges(stream, part_rows)
        else:
            yield from _of_line_bytes(bounded_lines(stream), part_rows, packed)


def _of_ranges(stream: BufferedReader, part_rows: int) -> Iterator[_Piece]:
    start = end = stream.tell()  # behind a byte order mark
    first, rows = 1, 0
    while line := stream.readline(MAX_LINE + 1):
        end += len(line)
        if len(line) > MAX_LINE and not line.endswith(b"\n"):
            continue
        rows += 1
        if rows == part_rows or end - start >= PART_BYTES:
            yield _Piece(first, rows, ByteRange(start, end), end - start)
            start, first, rows = end, first + rows, 0
    if end > start:
        yield _Piece(first, max(rows, 1), ByteRange(start, end), end - start)


def _of_line_bytes(
    lines: Iterable[bytes | None],
    part_rows: int,
    packed: Callable[[], int] | None = None,
    first: int = 1,
    last: int | None = None,
) -> Iterator[_Piece]:
    """Yield the pieces of lines that a worker can't read itself; None stands for a line that is too long, and
    `packed` gives the bytes of the file that were read so far, where these are not those of the lines."""
    size = told = 0
    held: list[bytes] = []

    def piece() -> _Piece:
        nonlocal told
        before, told = told, told + size if packed is None else packed()
        return _Piece(first, len(held), LineBytes(b"".join(held)), told - before)

    def bad(record: BadRecord) -> _Piece:
        return _Piece(record.line, 1, Records((record,)), 0)

    try:
        for line in lines:
            if line is None:
                if held:
                    yield piece()
                first, held, size = first + len(held) + 1, [], 0
                yield bad(BadRecord(first - 1, TOO_LONG))
                continue
            held.append(line)
            size += len(line)
            if len(held) == part_rows or size >= PART_BYTES:
                yield piece()
                first, held, size = first + len(held), [], 0
    except (DatasetError, *DAMAGED) as error:
        if held:
            yield piece()
        row = first + len(held)
        yield bad(broken_off(row, error) if last is None else unreadable(row, last, error))
        return
    if held:
        yield piece()


def _of_items(items: Iterable[Item], part_rows: int) -> Iterator[_Piece]:
    first, size = 1, 0
    held: list[Item] = []
    for item in items:
        held.append(item)
        size += _weight(item)
        if len(held) == part_rows or size >= PART_BYTES:
            yield _Piece(first, len(held), Records(tuple(held)), size)
            first, held, size = first + len(held), [], 0
    if held:
        yield _Piece(first, len(held), Records(tuple(held)), size)


def _weight(item: Item) -> int:
    if isinstance(item, Sequence):
        return sum(len(turn.prompt) + len(turn.response or "") for turn in item.conversation)
    if isinstance(item, BadRecord):
        return len(item.reason)
    size, stack = 0, [item.value]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)
        size += len(value) if isinstance(value, str) else 8
    return size


def chosen_places(places: Ordered[Ordered[int]], drawn: Ordered[int]) -> dict[int, frozenset[int]]:
    """The places that a sample has of each part, by its number; `drawn` are sorted and count over all parts.

    >>> chosen_places([range(3), [5, 7]], [2, 3])
    {0: frozenset({2}), 1: frozenset({5})}
    """
    found: dict[int, frozenset[int]] = {}
    before = 0
    for number, there in enumerate(places):
        low, high = bisect_left(drawn, before), bisect_left(drawn, before + len(there))
        if high > low:
            found[number] = frozenset(there[one - before] for one in drawn[low:high])
        before += len(there)
    return found


def draw(total: int, sample: int, seed: int) -> list[int]:
    """Which records a sample has, sorted; all where there are no more.

    >>> draw(10, 3, seed=1) == draw(10, 3, seed=1), len(draw(2, 3, seed=1))
    (True, 2)
    """
    return sorted(random.Random(seed).sample(range(total), min(sample, total)))
