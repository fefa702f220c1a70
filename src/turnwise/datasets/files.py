"""Data files and pipes: byte order mark, encoding, lines within bounds, JSON and Parquet, errors in words."""

from __future__ import annotations

import codecs
import json
import os
import select
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase, BufferedReader, RawIOBase
from pathlib import Path
from typing import Any

from turnwise._support.bounded import ShallowStream, read_json
from turnwise._support.locations import Location, filesystem, is_url
from turnwise._support.paths import to_path
from turnwise._support.sql_text import file_name
from turnwise.datasets.packed import ZIP_MAGIC, unpacked
from turnwise.datasets.protocol import RecordError
from turnwise.errors import DatasetError, LocationError, UsageError

DAMAGED = (EOFError, OSError, zlib.error)
"""What reading raises half-way through a file that was cut off or damaged."""

MAX_LINE = 64 << 20
"""Bytes that a line may have: it is held in memory, and parsed to several times its size."""

MOST_BLANK = 100_000
"""Blank lines that may follow each other."""

WAIT_SECONDS = 10.0
"""How long the first byte of a pipe that nobody writes to is waited for."""

PARQUET_MAGIC = b"PAR1"

NOT_UTF8 = "not UTF-8 text; name the encoding of the file with --encoding, such as cp1252"
"""What is said of bytes that can't be read as they are."""

_POLL_SECONDS = 0.05
_PART = 1 << 16

_PARQUET_ROWS = 128
"""Rows that are held at a time; one conversation can be long, so few of them."""

_BOM = b"\xef\xbb\xbf"


def is_zip(path: str) -> bool:
    """Whether a file exists and begins as a zip archive does."""
    try:
        with to_path(path).open("rb") as file:
            return file.read(len(ZIP_MAGIC)) == ZIP_MAGIC
    except (OSError, ValueError):
        return False


@contextmanager
def open_binary(path: str, encoding: str | None = None) -> Iterator[BufferedReader]:
    """Open a file or URL for reading, unpacked and in UTF-8, without its byte order mark.

    gzip, bzip2 and zstd are told by the content, whatever the name of the file. ``encoding`` is what
    `parse_encoding` gave, None for UTF-8; Parquet stays as it is.
    """
    with _open(path) as raw:
        yield _content(raw, path, encoding)


@contextmanager
def open_counted(path: str, encoding: str | None = None) -> Iterator[tuple[BufferedReader, Callable[[], int]]]:
    """Open a file as `open_binary` does; the second value tells how many of its packed bytes were read so far."""
    with _open(path) as raw:
        yield _content(raw, path, encoding), raw.tell


def is_stream(path: str) -> bool:
    """Whether a path can be read only once, such as a pipe or ``/dev/fd/63``."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def open_stream(path: str, wait_seconds: float = WAIT_SECONDS, encoding: str | None = None) -> BufferedReader:
    """Open a pipe or device as `open_binary` does a file; it is closed with what is returned.

    Waits up to ``wait_seconds`` for a writer, then raises DatasetError.
    """
    return _content(BufferedReader(_Pipe(path, wait_seconds)), path, encoding)


class Blanks:
    """Counts blank lines that follow each other: a few packed kilobytes can stand for billions of them."""

    def __init__(self) -> None:
        self._count = 0

    def pass_by(self, line: str | bytes) -> None:
        """Count a line; OSError after more than `MOST_BLANK` blank ones in a row."""
        self._count = self._count + 1 if line.isspace() else 0
        if self._count > MOST_BLANK:
            raise OSError(f"more than {MOST_BLANK:,} blank lines follow each other")


def bounded_lines(stream: BufferedIOBase) -> Iterator[bytes | None]:
    """Yield the lines of a stream; None for one of more than `MAX_LINE` bytes, which is skipped."""
    blanks = Blanks()
    while line := stream.readline(MAX_LINE + 1):
        if len(line) <= MAX_LINE:
            blanks.pass_by(line)
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(_PART)
        yield None


class _Pipe(RawIOBase):
    """A pipe or device, opened without waiting for a writer; the first read waits for one for a while.

    Every read but the last fills its buffer, so that the first bytes tell how the content is packed.
    """

    def __init__(self, path: str, wait_seconds: float) -> None:
        self._path = path
        self._wait_seconds = wait_seconds
        self._written = False
        self._passed = 0
        try:
            self._file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise DatasetError(f"can't read {path}: {error.strerror}") from error
        self._is_pipe = stat.S_ISFIFO(os.fstat(self._file).st_mode)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view, filled = memoryview(buffer), 0
        while filled < len(view) and (part := self._part(len(view) - filled)):
            view[filled : filled + len(part)] = part
            filled += len(part)
        self._passed += filled
        return filled

    def tell(self) -> int:
        return self._passed

    def _part(self, size: int) -> bytes:
        deadline = time.monotonic() + self._wait_seconds
        poll = select.poll()
        poll.register(self._file, select.POLLIN)
        while True:
            try:
                part = os.read(self._file, size)
            except BlockingIOError:  # somebody has it open for writing
                self._written = True
                poll.poll()
                continue
            if part or self._written or not self._is_pipe:
                self._written = True
                return part
            if poll.poll(1e3 * _POLL_SECONDS):
                self._written = True
            elif time.monotonic() > deadline:
                raise DatasetError(
                    f"nothing writes to the pipe {self._path}: gave up after {self._wait_seconds:g} s"
                )

    def close(self) -> None:
        if not self.closed:
            os.close(self._file)
        super().close()


def parse_encoding(name: str | None) -> str | None:
    """Return Python's name of a text encoding; None for UTF-8, which needs none.

    >>> parse_encoding("Windows-1252"), parse_encoding("UTF8")
    ('cp1252', None)
    """
    if name is None:
        return None
    try:
        "".encode(name)  # refuses those that are of no text, such as base64
        known = codecs.lookup(name).name
    except (LookupError, ValueError):
        raise UsageError(f"unknown encoding {name!r}; such as cp1252, latin-1, utf-16 or shift_jis") from None
    return None if known in ("utf-8", "utf-8-sig") else known


def parse_json(text: str | bytes) -> Any:
    """Parse one JSON text, with NaN and Infinity as null: pandas writes them where a value is missing.

    A RecordError says where it isn't UTF-8 or JSON, or which bound of `turnwise._support.bounded` it breaks.

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


def read_parquet(path: str, limit: int | None = None) -> Iterator[Any]:
    """Yield the rows of a Parquet file as parsed JSON objects, in order."""
    for row in parquet_lines(path, (0, limit) if limit else None):
        yield parse_json(row)


def parquet_lines(path: str, rows: tuple[int, int] | None = None) -> Iterator[str]:
    """Yield the rows of a Parquet file as JSON texts, in order.

    As JSON, dates, decimals and nested structures need no further package to convert them. The file is streamed:
    memory depends on the size of its row groups, not on its length. ``rows`` is the first row, from 0, and the
    first no longer wanted; only row groups with wanted rows are read.
    """
    wanted = ("", ()) if rows is None else (" WHERE file_row_number >= ? AND file_row_number < ?", rows)
    query = (
        "SELECT to_json(t)::VARCHAR FROM "
        f"(SELECT * EXCLUDE (file_row_number) FROM read_parquet(?, file_row_number = true){wanted[0]}) t"
        if rows is not None
        else "SELECT to_json(t)::VARCHAR FROM read_parquet(?) t"
    )
    for (row,) in _ask_parquet(path, query, *wanted[1]):
        yield row


def parquet_groups(path: str) -> list[tuple[int, int]]:
    """Return rows and unpacked bytes of each row group of a Parquet file, in order."""
    query = (
        "SELECT any_value(row_group_num_rows), any_value(row_group_bytes) FROM parquet_metadata(?) "
        "GROUP BY row_group_id ORDER BY row_group_id"
    )
    return [(int(rows), int(size)) for rows, size in _ask_parquet(path, query)]


def _ask_parquet(path: str, query: str, *values: int) -> Iterator[tuple[Any, ...]]:
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
            while batch := rows.fetchmany(_PARQUET_ROWS):
                yield from batch
        except (duckdb.Error, OSError) as error:
            raise DatasetError(f"{path} can't be read as Parquet: {str(error).splitlines()[0]}") from error


def _open(path: str) -> BufferedReader:
    try:
        if is_url(path):
            return BufferedReader(Location(path).stream())
        return to_path(path).open("rb")
    except LocationError as error:
        raise DatasetError(str(error)) from error
    except FileNotFoundError:
        raise DatasetError(f"there is no file {path}: check the path") from None
    except IsADirectoryError:
        raise DatasetError(f"{path} is a folder: name a file in it") from None
    except OSError as error:
        raise DatasetError(f"can't read {path}: {error.strerror}") from error


def _content(raw: BufferedReader, path: str, encoding: str | None) -> BufferedReader:
    stream = unpacked(raw, path)
    if encoding is not None and not _starts(stream, path, PARQUET_MAGIC):
        stream = BufferedReader(_Recoded(stream, encoding))
    if _starts(stream, path, _BOM):
        stream.read(len(_BOM))
    return stream


class _WrongEncodingError(OSError):
    """A text isn't of the encoding that was named; the reader says where it breaks off."""


class _Recoded(RawIOBase):
    """A text of another encoding, read as UTF-8."""

    def __init__(self, raw: BufferedReader, encoding: str) -> None:
        self._raw = raw
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._ready = memoryview(b"")
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not (self._ready or self._ended):
            part = self._raw.read1(_PART)
            self._ended = not part
            try:
                text = self._decoder.decode(part, final=self._ended)
            except UnicodeError as error:  # a missing mark of the order of bytes is of this kind alone
                self._ended = True  # whatever follows would be read as other characters than were meant
                reason = error.reason if isinstance(error, UnicodeDecodeError) else error
                raise _WrongEncodingError(f"it is not {self._encoding} text ({reason}); see --encoding") from error
            self._ready = memoryview(text.encode("utf-8", "surrogatepass"))
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


def _starts(stream: BufferedReader, path: str, mark: bytes) -> bool:
    try:
        return stream.peek(len(mark)).startswith(mark)
    except _WrongEncodingError as error:
        raise DatasetError(f"{path} can't be read: {error}") from error
    except DAMAGED as error:
        raise DatasetError(f"{path} is damaged from its first byte on: {error}") from error
