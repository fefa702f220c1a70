"""The beginning of a file, from which formats are told apart, and all of its records in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from io import BufferedReader, BytesIO
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import Any

from turnwise._support.bounded import is_too_deep
from turnwise.datasets.files import (
    DAMAGED,
    MAX_LINE,
    NOT_UTF8,
    PARQUET_MAGIC,
    PartsReader,
    is_stream,
    is_zip,
    open_binary,
    open_stream,
    parts_of,
)
from turnwise.datasets.protocol import BadRecord, RecordError
from turnwise.datasets.records import (
    ParsedRecord,
    broken_off,
    first_rows,
    json_items,
    parquet_lines,
    parse_json,
    read_items,
    read_lines,
    read_table,
)
from turnwise.errors import DatasetError

SIZE = 1 << 20
"""Bytes that are looked at, and the rest of the first line where that is longer."""

RECORDS = 3
"""Records that are looked at."""

_TABLES = {".csv": (",", ";", "\t"), ".tsv": ("\t",)}
"""What may separate columns by the ending of the name, the most likely first."""

_ENDINGS = frozenset({*_TABLES, ".json", ".jsonl", ".ndjson", ".parquet", ".txt"})
_ARCHIVES = (".eval",)
"""Endings of formats that are zip archives."""

_LOOKED_AT = 4096
"""Bytes of a file in which protobuf has some that no text has."""

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


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
    PROTOBUF = "protobuf"
    """Requests of OTLP in protobuf."""
    ARCHIVE = "archive"
    """A zip file; what is in it, the loader of its format knows."""


@dataclass(frozen=True, slots=True)
class FileHead:
    """The beginning of a file.

    Args:
        path: the file or folder.
        name: its name in lower case, without ``.gz``, ``.bz2`` or ``.zst``.
        layout: how records follow each other.
        records: the first records that could be parsed, three at most; of a folder, the first of its files.
        delimiter: what separates the columns of a table.
        stream: all of its content, where it can be read once only; None where the path can be opened again.
        encoding: how a text file is encoded; None for UTF-8. What is in `stream` is UTF-8.
    """

    path: str
    name: str
    layout: Layout
    records: tuple[Any, ...]
    delimiter: str = ","
    stream: BufferedReader | None = field(default=None, compare=False, repr=False)
    encoding: str | None = None

    @property
    def fields(self) -> frozenset[str]:
        """Names of the fields of the first record; empty where it is no object."""
        first = self.records[0] if self.records else None
        return frozenset(first) if isinstance(first, dict) else frozenset()


def read_head(path: str, encoding: str | None = None) -> FileHead:
    """Look at the beginning of a file or folder; DatasetError where there is none, or it is empty or no text."""
    name = data_name(path)
    if Path(path).is_dir():
        return _folder(path, name, encoding)
    if is_stream(path):
        stream = open_stream(path, encoding=encoding)
        data = _start(stream)
        if data.startswith(PARQUET_MAGIC):
            raise DatasetError(f"{path} is a pipe, and Parquet is read from a file alone: save it to one first")
        return _head(path, name, data, BufferedReader(PartsReader(chain([data], parts_of(stream)), stream)))
    if name.endswith(_ARCHIVES) and is_zip(path):
        return FileHead(path, name, Layout.ARCHIVE, ())
    with open_binary(path, encoding) as stream:
        data = _start(stream)
    if data.startswith(PARQUET_MAGIC):
        return FileHead(path, name, Layout.PARQUET, tuple(map(parse_json, parquet_lines(path, (0, RECORDS)))))
    if _is_protobuf(data):
        return FileHead(path, name, Layout.PROTOBUF, ())
    return replace(_head(path, name, data), encoding=encoding)


def _head(path: str, name: str, data: bytes, stream: BufferedReader | None = None) -> FileHead:
    if not data.strip():
        raise DatasetError(f"{path} is empty: there is nothing to read")
    if data.startswith(_UTF16):
        raise DatasetError(f"{path} is UTF-16 text: read it with --encoding utf-16, or save it as UTF-8")
    if b"\x00" in data:
        raise DatasetError(f"{path} is no text: give UTF-8, another encoding with --encoding, or Parquet")
    delimiters = _TABLES.get(PurePath(name).suffix)
    if delimiters:
        try:
            line = data.lstrip().split(b"\n", 1)[0].decode()
        except UnicodeDecodeError:
            raise DatasetError(f"{path}, line 1: the names of the columns are {NOT_UTF8}") from None
        delimiter = next((one for one in delimiters if one in line), delimiters[0])
        return FileHead(path, name, Layout.TABLE, first_rows(data, delimiter, RECORDS), delimiter, stream)
    layout = _layout(data)
    return FileHead(path, name, layout, _records(data, layout), stream=stream)


def _is_protobuf(data: bytes) -> bool:
    """Whether a file holds requests of OTLP: each with its length before it, or field 1 of one at the start."""
    if len(data) > 5 and data[0] * 2**24 <= MAX_LINE and data[0] < ord("\t"):
        size = int.from_bytes(data[:4], "big")
        return 0 < size <= MAX_LINE and data[4:5] in (b"\n", b"{", b"\x28")
    behind = next((at for at in range(1, 6) if data[at : at + 1] < b"\x80"), 5) + 1
    return (
        data[:1] == b"\n"
        and data[behind : behind + 1] in (b"\n", b"\x12")
        and bool({*data[:_LOOKED_AT]} & {0x08, 0x10, 0x12})
    )


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
    """The name of a data file in lower case, without what compression added."""
    return PurePath(path).name.lower().removesuffix(".gz").removesuffix(".bz2").removesuffix(".zst")


def data_stem(path: str) -> str:
    """The name of a data file in lower case, without its endings.

    >>> data_stem("Attacks.jsonl.bz2"), data_stem("org/chats-llama3.1")
    ('attacks', 'chats-llama3.1')
    """
    name = PurePath(data_name(path))
    return name.stem if name.suffix in _ENDINGS else name.name


def is_message(value: object) -> bool:
    """Whether a value is one message of a chat, and not a conversation."""
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
    """Whether a line is a whole record; no line within a value over many lines is."""
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


def _folder(path: str, name: str, encoding: str | None) -> FileHead:
    def files(names: Iterable[Path]) -> list[Path]:
        return sorted(file for file in names if file.is_file() and not file.name.startswith("."))

    there = files(Path(path).iterdir()) or files(Path(path).rglob("*.jsonl"))
    if not there:
        raise DatasetError(f"{path} is a folder without files: check the path")
    return FileHead(path, name, Layout.FOLDER, read_head(str(there[0]), encoding).records, encoding=encoding)


def read_records(head: FileHead) -> Iterator[ParsedRecord | BadRecord]:
    """Yield the records of a file in order, holding one at a time; not those of a folder or archive."""
    if head.layout is Layout.ARCHIVE:
        raise DatasetError(f"{head.path} is a zip archive, which this format can't read: unpack it first")
    if head.layout is Layout.FOLDER:
        raise DatasetError(f"{head.path} is a folder: name a file in it")
    if head.layout is Layout.PROTOBUF:
        raise DatasetError(f"{head.path} is protobuf: read it with --format otel")
    if head.layout is Layout.PARQUET:
        number = 0
        try:
            for number, row in enumerate(map(parse_json, parquet_lines(head.path)), start=1):
                yield ParsedRecord(number, row)
        except DatasetError as error:
            yield broken_off(number + 1, error)
    elif head.layout is Layout.TABLE:
        with _opened(head) as stream:
            yield from read_table(stream, head.delimiter)
    elif head.layout is Layout.LINES:
        with _opened(head) as stream:
            yield from read_lines(stream)
    else:
        with _opened(head) as stream:
            yield from read_items(stream, "item" if head.layout is Layout.ARRAY else "")


def _opened(head: FileHead) -> AbstractContextManager[BufferedReader]:
    return open_binary(head.path, head.encoding) if head.stream is None else head.stream
