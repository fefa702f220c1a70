"""The records of a stream, one at a time: lines of JSON, items of an array, rows of a table."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase, BufferedReader, StringIO, TextIOWrapper
from itertools import islice
from threading import Lock
from typing import Any

from turnwise._support.bounded import ShallowStream
from turnwise.datasets.fields import parse_json
from turnwise.datasets.files import DAMAGED, MAX_LINE, NOT_UTF8, Blanks, bounded_lines
from turnwise.datasets.protocol import BadRecord, RecordError

TOO_LONG = f"the line has more than {MAX_LINE >> 20} MiB, which is the most"
"""What is said of a line that is not read."""


@dataclass(frozen=True, slots=True)
class ParsedRecord:
    """A parsed JSON value, or a row of a table by column; ``number`` counts from 1 as in `BadRecord`."""

    number: int
    value: Any


def broken_off(number: int, error: Exception) -> BadRecord:
    """What is said of the first record that could not be read, and of all after it."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return BadRecord(number, f"the file breaks off here: {reason}", ends=True)


def read_lines(stream: BufferedIOBase, first: int = 1) -> Iterator[ParsedRecord | BadRecord]:
    """Yield a JSON value for every line that isn't blank; ``first`` is the number of the first line."""
    number = first - 1
    try:
        for number, line in enumerate(bounded_lines(stream), start=first):
            if line is None:
                yield BadRecord(number, TOO_LONG)
                continue
            if not line.strip():
                continue
            try:
                yield ParsedRecord(number, parse_json(line))
            except RecordError as error:
                yield BadRecord(number, str(error))
    except DAMAGED as error:
        yield broken_off(number + 1, error)


def read_items(stream: BufferedIOBase, prefix: str) -> Iterator[ParsedRecord | BadRecord]:
    """Yield the values that `json_items` does; where the JSON breaks, a last one that is bad."""
    number = 0
    try:
        for number, value in enumerate(json_items(stream, prefix), start=1):
            yield ParsedRecord(number, value)
    except (RecordError, *DAMAGED) as error:
        yield broken_off(number + 1, error)


def json_items(stream: BufferedIOBase, prefix: str) -> Iterator[Any]:
    """Yield values of a JSON text as they are read, so that memory holds one at a time.

    ``prefix`` is ``"item"`` for the items of an array, ``""`` for whole values that follow each other. After a
    RecordError nothing more can be read.
    """
    import ijson  # type: ignore[import-untyped]

    try:
        yield from ijson.items(ShallowStream(stream), prefix, use_float=True, multiple_values=True)
    except (ijson.JSONError, ValueError) as error:
        raise RecordError(str(error).splitlines()[0]) from None


def read_table(stream: BufferedReader, delimiter: str) -> Iterator[ParsedRecord | BadRecord]:
    """Yield the rows of a CSV or TSV file by column, each numbered by the line where it begins."""
    # Bytes that are no UTF-8 become half surrogates here, so that one bad row does not end the file.
    with TextIOWrapper(stream, encoding="utf-8", errors="surrogateescape", newline="") as text:
        rows = csv.reader(_bounded_texts(text), delimiter=delimiter)
        columns: list[str] = []
        while True:
            line = rows.line_num + 1
            try:
                with _LONG_CELLS:
                    row = next(rows, None)
            except (csv.Error, *DAMAGED) as error:
                yield broken_off(line, error)
                return
            if row is None:
                return
            if not row:
                continue
            if columns:
                yield _row(line, columns, row)
                continue
            columns = [name.strip() for name in row]
            twice = [name for name, count in Counter(columns).items() if name and count > 1]
            if twice:
                yield BadRecord(line, f"two columns are named {twice[0]!r}: rename one of them")
                return


def first_rows(data: bytes, delimiter: str, most: int) -> tuple[Any, ...]:
    """The first rows of a table of which only the beginning is there, so that the last may be cut off."""
    text = StringIO(data.decode("utf-8-sig", errors="replace"), newline="")
    try:
        with _LONG_CELLS:
            return tuple(islice(csv.DictReader(text, delimiter=delimiter, restkey="", restval=""), most))
    except csv.Error:
        return ()


def _bounded_texts(text: TextIOWrapper) -> Iterator[str]:
    blanks = Blanks()
    while line := text.readline(MAX_LINE + 1):
        blanks.pass_by(line)
        if len(line) > MAX_LINE:
            raise csv.Error(f"the line has more than {MAX_LINE >> 20} MiB, which is the most")
        yield line


def _row(line: int, columns: list[str], row: list[str]) -> ParsedRecord | BadRecord:
    if len(row) != len(columns):
        return BadRecord(line, f"the row has {len(row)} columns, the first line names {len(columns)}")
    for name, cell in zip(columns, row, strict=True):
        try:
            cell.encode()
        except UnicodeEncodeError:
            return BadRecord(line, f"column {name!r} is {NOT_UTF8}")
    return ParsedRecord(line, dict(zip(columns, row, strict=True)))


class _LongCells:
    """Lets the csv module read cells as long as a line of JSON, and leaves its limit as it was.

    The limit is one of the whole process, so it is set only while a row is read.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._before = 0

    def __enter__(self) -> None:
        self._lock.acquire()
        self._before = csv.field_size_limit(MAX_LINE)

    def __exit__(self, *_: object) -> None:
        csv.field_size_limit(self._before)
        self._lock.release()


_LONG_CELLS = _LongCells()
