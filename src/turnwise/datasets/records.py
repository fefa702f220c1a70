"""The records of a file, one at a time (lines of JSON, items of an array, rows of a table), and their fields."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BufferedIOBase, BufferedReader, StringIO, TextIOWrapper
from itertools import islice
from threading import Lock
from typing import Any, TypeVar

from turnwise._support.bounded import ShallowStream, read_json
from turnwise._support.locations import filesystem, is_url
from turnwise._support.table_files import file_name
from turnwise.datasets.files import DAMAGED, MAX_LINE, NOT_UTF8, Blanks, bounded_lines
from turnwise.datasets.protocol import BadRecord, RecordError
from turnwise.errors import DatasetError

Value = TypeVar("Value")


TOO_LONG = f"the line has more than {MAX_LINE >> 20} MiB, which is the most"
"""What is said of a line that is not read."""

_ROWS_AT_ONCE = 128
"""Rows that are held at a time; one conversation can be long, so few of them."""

_KINDS: dict[type, str] = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}


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
    """Yield values of a JSON text one at a time: with prefix ``item`` those of an array, without whole values."""
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
    """Lets the csv module read long cells: its limit, one of the process, is set only while a row is read."""

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


def parquet_lines(path: str, rows: tuple[int, int] | None = None) -> Iterator[str]:
    """Yield the rows of a Parquet file as JSON texts: all, or from the first of ``rows`` to before the second."""
    query = "SELECT to_json(t)::VARCHAR FROM read_parquet(?) t"
    if rows is not None:
        query = (
            "SELECT to_json(t)::VARCHAR FROM (SELECT * EXCLUDE (file_row_number) "
            "FROM read_parquet(?, file_row_number = true) WHERE file_row_number >= ? AND file_row_number < ?) t"
        )
    for (row,) in _ask(path, query, *(rows or ())):
        yield row


def parquet_groups(path: str) -> list[tuple[int, int]]:
    """Return rows and unpacked bytes of each row group of a Parquet file, in order."""
    query = (
        "SELECT any_value(row_group_num_rows), any_value(row_group_bytes) FROM parquet_metadata(?) "
        "GROUP BY row_group_id ORDER BY row_group_id"
    )
    return [(int(rows), int(size)) for rows, size in _ask(path, query)]


def _ask(path: str, query: str, *values: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query whose first parameter is the path of the Parquet file."""
    import duckdb

    # One thread: more of them read ahead, and hold a row group each.
    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1,
        "autoinstall_known_extensions": False,
    }
    with duckdb.connect(config=settings) as connection:
        if is_url(path):
            connection.register_filesystem(filesystem(path.partition("://")[0]))
        try:
            rows = connection.execute(query, [file_name(path), *values])
            while batch := rows.fetchmany(_ROWS_AT_ONCE):
                yield from batch
        except (duckdb.Error, OSError) as error:
            raise DatasetError(f"{path} can't be read as Parquet: {str(error).splitlines()[0]}") from error


# Fields of a record


def parse_json(text: str | bytes) -> Any:
    """Parse one JSON text, with NaN and Infinity as null: pandas writes them where a value is missing.

    >>> parse_json('{"score": NaN}')
    {'score': None}
    """
    try:
        return read_json(text, nan_is_null=True)
    except UnicodeDecodeError as error:
        raise RecordError(f"byte {error.start + 1} is {NOT_UTF8}") from None
    except json.JSONDecodeError as error:
        raise RecordError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except ValueError as error:
        raise RecordError(f"the JSON can't be read: {error}") from None


def kind(value: object) -> str:
    """The kind of a parsed value in words, such as ``a list``."""
    return _KINDS.get(type(value), type(value).__name__)


def as_object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RecordError(f"the record is {kind(value)}, not an object with fields")
    return value


def field(record: Mapping[str, Any], name: str, expected: type[Value]) -> Value:
    """Return a field that must be there and of a type; the RecordError says what is there instead."""
    if name not in record:
        there = ", ".join(list(record)[:8]) or "none"
        raise RecordError(f"field {name!r} is missing; the record has: {there}")
    value = record[name]
    if not isinstance(value, expected) or isinstance(value, bool):
        raise RecordError(f"field {name!r} is {kind(value)}, not {_KINDS[expected]}")
    return value


def optional_object(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a field that must be an object; an empty one where it is missing or null."""
    return {} if record.get(name) is None else field(record, name, dict)


def optional_text(record: Mapping[str, Any], name: str) -> str | None:
    """Return a field that must be text; None where it is missing or null."""
    return None if record.get(name) is None else field(record, name, str)


def filled_list(record: Mapping[str, Any], name: str) -> list[Any]:
    items: list[Any] = field(record, name, list)
    if not items:
        raise RecordError(f"field {name!r} is empty: a conversation without turns")
    return items


def text_list(record: Mapping[str, Any], name: str) -> list[str]:
    texts = filled_list(record, name)
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise RecordError(f"turn {number} is {kind(text)}, not text")
    return texts


def pick(record: Mapping[str, Any], *names: str, **renamed: str) -> dict[str, Any]:
    """Return those of the named fields that a record has and that aren't null; ``new="old"`` renames one.

    >>> pick({"task": "GR", "actor_name": "x"}, "task", "id", actor="actor_name")
    {'task': 'GR', 'actor': 'x'}
    """
    wanted = {**{name: name for name in names}, **renamed}
    return {new: record[old] for new, old in wanted.items() if record.get(old) is not None}


def checked_messages(messages: list[Any]) -> list[Any]:
    """Check that messages have text, save an assistant's; the rest is checked where a conversation is built."""
    if not messages:
        raise RecordError("the conversation is empty: it needs at least one message")
    for number, message in enumerate(messages, start=1):
        if not isinstance(message, dict):
            raise RecordError(f"message {number} is {kind(message)}, not an object with role and content")
        if message.get("content") is None and message.get("role") != "assistant":
            raise RecordError(f"message {number} needs text: its content is missing or null")
    return messages


def message_list(record: Mapping[str, Any], column: str) -> list[Any]:
    """Return the messages in a column: a list, or the JSON of one, as tables have it.

    >>> message_list({"chat": '["Hi", "Hello"]'}, "chat")
    ['Hi', 'Hello']
    """
    value = record.get(column)
    if not isinstance(value, str) or not value.lstrip().startswith("["):
        return field(record, column, list)
    try:
        return field({column: parse_json(value)}, column, list)
    except RecordError as error:
        raise RecordError(f"column {column!r}: {error}") from None
