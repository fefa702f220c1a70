"""Reads a part: from its content to conversations, each with its row, and what can't be read."""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedIOBase, BufferedReader, BytesIO, RawIOBase
from pathlib import Path
from traceback import walk_tb
from typing import Any

from turnwise._support.locations import Location
from turnwise.conversation import Sequence
from turnwise.datasets import BadRecord, LoadOptions, RecordError, RecordLoader, get_loader
from turnwise.datasets.fields import parse_json
from turnwise.datasets.parquet import parquet_lines
from turnwise.datasets.records import ParsedRecord, read_lines
from turnwise.errors import DatasetError, TurnwiseError
from turnwise.scan.inputs import Reading
from turnwise.scan.parts import ByteRange, LineBytes, Part, Records


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
