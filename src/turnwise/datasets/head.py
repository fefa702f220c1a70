"""The beginning of a file: how it is laid out, and its first records, for telling formats apart."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from io import BufferedReader, BytesIO, RawIOBase, StringIO
from itertools import islice
from pathlib import Path, PurePath
from typing import Any

from turnwise.bounded import is_too_deep
from turnwise.datasets.files import DAMAGED, MAX_LINE, is_stream, open_binary, open_stream
from turnwise.datasets.parquet import MAGIC, read_parquet
from turnwise.datasets.protocol import RecordError
from turnwise.datasets.values import json_items, parse_json
from turnwise.errors import DatasetError

SIZE = 1 << 20
"""Bytes that are looked at, and the rest of the first line where that is longer."""
RECORDS = 3
_TABLES = {".csv": ",", ".tsv": "\t"}


_ENDINGS = frozenset({*_TABLES, ".json", ".jsonl", ".ndjson", ".parquet", ".txt"})


class Layout(StrEnum):
    """How records follow each other in a file."""

    LINES = "lines"
    """A JSON value a line (JSONL)."""
    ARRAY = "array"
    """One JSON array with a record an item."""
    DOCUMENT = "document"
    """One JSON value that is a record itself, or several of them over many lines each."""
    TABLE = "table"
    """CSV or TSV with a line of names."""
    PARQUET = "parquet"
    FOLDER = "folder"


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a file.

    Args:
        path: the file or folder.
        name: its name in lower case, without ``.gz`` or ``.bz2``.
        layout: how records follow each other.
        records: the first records that could be parsed, three at most; of a folder, the first of its files.
        stream: all of its content, where it can be read once only; None where the path can be opened again.
    """

    path: str
    name: str
    layout: Layout
    records: tuple[Any, ...]
    stream: BufferedReader | None = field(default=None, compare=False, repr=False)

    @property
    def fields(self) -> frozenset[str]:
        """Names of the fields of the first record; empty where it is no object."""
        first = self.records[0] if self.records else None
        return frozenset(first) if isinstance(first, dict) else frozenset()


def read_head(path: str) -> Head:
    """Look at the beginning of a file.

    Args:
        path: a file, or a folder.

    Raises:
        DatasetError: there is no such file, it is empty, or it holds no text.
    """
    name = data_name(path)
    if Path(path).is_dir():
        return _folder(path, name)
    if is_stream(path):
        stream = open_stream(path)
        data = _start(stream)
        if data.startswith(MAGIC):
            raise DatasetError(f"{path} is a pipe, and Parquet is read from a file alone: save it to one first")
        return _head(path, name, data, BufferedReader(_Replayed(data, stream)))
    with open_binary(path) as stream:
        data = _start(stream)
    if data.startswith(MAGIC):
        return Head(path, name, Layout.PARQUET, tuple(read_parquet(path, limit=RECORDS)))
    return _head(path, name, data)


def _head(path: str, name: str, data: bytes, stream: BufferedReader | None = None) -> Head:
    """Return the head of a file that begins with these bytes."""
    if not data.strip():
        raise DatasetError(f"{path} is empty: there is nothing to read")
    if b"\x00" in data:
        raise DatasetError(f"{path} is no text file: data sets are read as UTF-8 text or Parquet")
    delimiter = _TABLES.get(PurePath(name).suffix)
    if delimiter:
        return Head(path, name, Layout.TABLE, _table(data, delimiter), stream)
    layout = _layout(data)
    return Head(path, name, layout, _records(data, layout), stream)


class _Replayed(RawIOBase):
    """What was read of a stream, and then the rest of it."""

    def __init__(self, start: bytes, stream: BufferedReader) -> None:
        self._start = BytesIO(start)
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._start.readinto(buffer) or self._stream.readinto1(buffer)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _start(stream: BufferedReader) -> bytes:
    """Return the first `SIZE` bytes; where they are the beginning of one object, the rest of its line as well."""
    parts: list[bytes] = []
    left = SIZE
    try:
        while left and (part := stream.read1(left)):
            parts.append(part)
            left -= len(part)
        start = b"".join(parts)
        if not left and start.lstrip().startswith(b"{") and b"\n" not in start.strip():
            parts.append(stream.readline(MAX_LINE))
    except DAMAGED:
        # What was unpacked before the damage is good; where it breaks off is reported when reading gets there.
        pass
    return b"".join(parts)


def data_name(path: str) -> str:
    """Return the name of a data file in lower case, without what compression added.

    >>> data_name("data/Attacks.jsonl.bz2")
    'attacks.jsonl'
    """
    return PurePath(path).name.lower().removesuffix(".gz").removesuffix(".bz2")


def data_stem(path: str) -> str:
    """Return the name of a data file in lower case without its endings.

    >>> data_stem("Attacks.jsonl.bz2"), data_stem("org/chats-llama3.1")
    ('attacks', 'chats-llama3.1')
    """
    name = PurePath(data_name(path))
    return name.stem if name.suffix in _ENDINGS else name.name


def delimiter_of(path: str) -> str:
    """Return what separates the columns of a table: a comma, or a tab where the name says so."""
    return _TABLES.get(PurePath(data_name(path)).suffix, ",")


def is_message(value: object) -> bool:
    """Return whether a value is one message of a chat, and not a conversation.

    >>> is_message({"role": "user", "content": "hi"}), is_message({"messages": []})
    (True, False)
    """
    return isinstance(value, dict) and ({"role", "content"} <= value.keys() or {"from", "value"} <= value.keys())


def _layout(data: bytes) -> Layout:
    lines = [line for line in islice(BytesIO(data.lstrip()), 200) if line.strip()]
    # A bad line says nothing of the others.
    lines = [line for line in lines if not is_too_deep(line)] or lines
    first = _parsed(lines[0])
    second = lines[1].lstrip() if len(lines) > 1 else b""
    if lines[0].startswith(b"["):
        if isinstance(first, list):
            if second:
                return Layout.LINES
            return Layout.DOCUMENT if _of_messages(first) else Layout.ARRAY
        if lines[0].strip() != b"[" and isinstance(_parsed(second), list):
            return Layout.LINES
        return Layout.DOCUMENT if _of_messages(_items(data, "item")) else Layout.ARRAY
    if lines[0].startswith(b"{") and first is None and second and not any(map(_is_object, lines[1:])):
        return Layout.DOCUMENT
    return Layout.LINES


def _is_object(line: bytes) -> bool:
    """Return whether a line is a whole record, which none within a value over many lines is."""
    return line.startswith(b"{") and isinstance(_parsed(line), dict)


def _of_messages(items: Iterable[object]) -> bool:
    return any(is_message(item) for item in islice(items, 1))


def _records(data: bytes, layout: Layout) -> tuple[Any, ...]:
    if layout is Layout.LINES:
        parsed = (_parsed(line) for line in islice(BytesIO(data), 200))
        return tuple(islice((record for record in parsed if record is not None), RECORDS))
    return tuple(islice(_items(data, "item" if layout is Layout.ARRAY else ""), RECORDS))


def _parsed(line: bytes) -> Any:
    try:
        return parse_json(line)
    except RecordError:
        return None


def _items(data: bytes, prefix: str) -> Iterator[Any]:
    # The head ends anywhere, so the last item is usually cut off.
    try:
        yield from json_items(BytesIO(data), prefix)
    except RecordError:
        return


def _table(data: bytes, delimiter: str) -> tuple[Any, ...]:
    try:
        rows = csv.DictReader(StringIO(data.decode(errors="replace"), newline=""), delimiter=delimiter)
        return tuple(islice(rows, RECORDS))
    except csv.Error:
        return ()


def _folder(path: str, name: str) -> Head:
    files = sorted(file for file in Path(path).iterdir() if file.is_file() and not file.name.startswith("."))
    if not files:
        raise DatasetError(f"{path} is a folder without files")
    return Head(path, name, Layout.FOLDER, read_head(str(files[0])).records)
