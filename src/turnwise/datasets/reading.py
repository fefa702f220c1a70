"""Records of a file, one after the other, whatever its layout; what can't be parsed is named and left out."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from io import BufferedReader, TextIOWrapper
from typing import Any

from turnwise.datasets.files import DAMAGED, MAX_LINE, bounded_lines, open_binary
from turnwise.datasets.head import Head, Layout, delimiter_of
from turnwise.datasets.parquet import read_parquet
from turnwise.datasets.protocol import BadRecord, RecordError
from turnwise.datasets.values import json_items, parse_json
from turnwise.errors import DatasetError


@dataclass(frozen=True, slots=True)
class Record:
    """One parsed record.

    Args:
        number: where it stands, from 1: line, item or row, as in `BadRecord`.
        value: the parsed JSON value, or the row of a table by column.
    """

    number: int
    value: Any


def read_records(head: Head) -> Iterator[Record | BadRecord]:
    """Yield the records of a file in order, holding one at a time.

    Args:
        head: the beginning of the file, as `read_head` gives it.

    Raises:
        DatasetError: a folder, or a Parquet file that is damaged.
    """
    if head.layout is Layout.FOLDER:
        raise DatasetError(f"{head.path} is a folder: name a file in it")
    if head.layout is Layout.PARQUET:
        for number, row in enumerate(read_parquet(head.path), start=1):
            yield Record(number, row)
    elif head.layout is Layout.TABLE:
        with _opened(head) as stream:
            yield from read_table(stream, delimiter_of(head.path))
    elif head.layout is Layout.LINES:
        with _opened(head) as stream:
            yield from read_lines(stream)
    else:
        with _opened(head) as stream:
            yield from read_items(stream, "item" if head.layout is Layout.ARRAY else "")


def _opened(head: Head) -> AbstractContextManager[BufferedReader]:
    return open_binary(head.path) if head.stream is None else head.stream


def read_lines(stream: BufferedReader) -> Iterator[Record | BadRecord]:
    """Yield a JSON value for every line that is not blank.

    Args:
        stream: the content of a JSONL file. A line has `MAX_LINE` bytes at most; a longer one is a bad record.
    """
    number = 0
    try:
        for number, line in enumerate(bounded_lines(stream), start=1):
            if line is None:
                yield BadRecord(number, f"the line has more than {MAX_LINE >> 20} MiB, which is the most")
                continue
            if not line.strip():
                continue
            try:
                yield Record(number, parse_json(line))
            except RecordError as error:
                yield BadRecord(number, str(error))
    except DAMAGED as error:
        yield _broken_off(number + 1, error)


def read_items(stream: BufferedReader, prefix: str) -> Iterator[Record | BadRecord]:
    """Yield the items of a JSON array, or the JSON values that follow each other in a file.

    Where the JSON breaks, nothing after it can be read: that item is the last, and bad.

    Args:
        stream: the content of a JSON file.
        prefix: ``"item"`` for the items of an array, ``""`` for whole values.
    """
    number = 0
    try:
        for number, value in enumerate(json_items(stream, prefix), start=1):
            yield Record(number, value)
    except (RecordError, *DAMAGED) as error:
        yield _broken_off(number + 1, error)


def read_table(stream: BufferedReader, delimiter: str) -> Iterator[Record | BadRecord]:
    """Yield the rows of a CSV or TSV file as objects by column; the number is the line where a row begins.

    Args:
        stream: the content of the file; its first line names the columns.
        delimiter: what separates them.
    """
    # Bytes that are no UTF-8 become half surrogates here, so that one bad row does not end the file.
    with TextIOWrapper(stream, encoding="utf-8", errors="surrogateescape", newline="") as text:
        rows = csv.reader(text, delimiter=delimiter)
        columns: list[str] = []
        while True:
            line = rows.line_num + 1
            try:
                row = next(rows, None)
            except (csv.Error, *DAMAGED) as error:
                yield _broken_off(line, error)
                return
            if row is None:
                return
            if not columns:
                columns = row
            elif row:
                yield _row(line, columns, row)


def _row(line: int, columns: list[str], row: list[str]) -> Record | BadRecord:
    if len(row) != len(columns):
        return BadRecord(line, f"the row has {len(row)} columns, the first line names {len(columns)}")
    try:
        "".join(row).encode()
    except UnicodeEncodeError:
        return BadRecord(line, "the row is not UTF-8 text")
    return Record(line, dict(zip(columns, row, strict=True)))


def _broken_off(number: int, error: Exception) -> BadRecord:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return BadRecord(number, f"the file breaks off here: {reason}")
