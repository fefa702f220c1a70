"""Bytes of a data file, URL or pipe: unpacked, in UTF-8 without a byte order mark, within bounds."""

from __future__ import annotations

import bz2
import codecs
import gzip
import os
import select
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BufferedIOBase, BufferedReader, FileIO, RawIOBase
from pathlib import Path
from typing import Any

from turnwise._support.locations import Location, is_url, to_path
from turnwise.errors import DatasetError, LocationError, UsageError

DAMAGED = (EOFError, OSError, zlib.error)
"""What reading raises half-way through a file that was cut off or damaged."""

MAX_LINE = 64 << 20
"""Bytes that a line may have: it is held in memory, and parsed to several times its size."""

MOST_BLANK = 100_000
"""Blank lines that may follow each other: a few packed kilobytes can stand for billions of them."""

MOST_TIMES = 500
"""How many times its packed bytes content may have; logs that repeat a long text have some dozens."""

FREE = 256 << 20
"""Bytes that content may have however small it is packed."""

WAIT_SECONDS = 10.0
"""How long the first byte of a pipe that nobody writes to is waited for."""

PARQUET_MAGIC = b"PAR1"
ZIP_MAGIC = b"PK\x03\x04"

NOT_UTF8 = "not UTF-8 text; name the encoding of the file with --encoding, such as cp1252"
"""What is said of bytes that can't be read as they are."""

_POLL_SECONDS = 0.05
_PART = 1 << 16

_ZSTD_PART = 1 << 11
"""Bytes of zstd that are unpacked at once: four of them may stand for 128 KiB."""

_BOM = b"\xef\xbb\xbf"


@contextmanager
def open_binary(path: str, encoding: str | None = None) -> Iterator[BufferedReader]:
    """Open a file or URL, unpacked whatever its name, in UTF-8 without byte order mark; Parquet stays as it is."""
    with _open(path) as raw:
        yield _content(raw, path, encoding)


@contextmanager
def open_counted(path: str, encoding: str | None = None) -> Iterator[tuple[BufferedReader, Callable[[], int]]]:
    """Open a file as `open_binary` does; the second value tells how many of its packed bytes were read so far."""
    with _open(path) as raw:
        yield _content(raw, path, encoding), raw.tell


def open_stream(path: str, encoding: str | None = None) -> BufferedReader:
    """Open a pipe or device as `open_binary` does a file; a DatasetError tells that no writer came in time."""

    def without_waiting(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))

    try:
        pipe = FileIO(path, opener=without_waiting)
    except OSError as error:
        raise DatasetError(f"can't read {path}: {error.strerror}") from error
    parts = _filled(_from_pipe(pipe, path))
    try:
        return _content(BufferedReader(PartsReader(parts, pipe)), path, encoding)
    except BaseException:
        pipe.close()
        raise


def is_stream(path: str) -> bool:
    """Whether a path can be read only once, such as a pipe or ``/dev/fd/63``."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def is_zip(path: str) -> bool:
    try:
        with to_path(path).open("rb") as file:
            return file.read(len(ZIP_MAGIC)) == ZIP_MAGIC
    except (OSError, ValueError):
        return False


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
        raise UsageError(
            f"unknown encoding {name!r}; use one such as cp1252, latin-1, utf-16 or shift_jis"
        ) from None
    return None if known in ("utf-8", "utf-8-sig") else known


class Blanks:
    """Counts blank lines that follow each other."""

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


class PartsReader(RawIOBase):
    """What an iterator yields part by part, as a stream; an error stays one. `source` is closed with it."""

    def __init__(self, parts: Iterator[bytes], source: BufferedReader | FileIO) -> None:
        self._parts = filter(None, parts)
        self._source = source
        self._error: Exception | None = None
        self._part = memoryview(b"")
        self._passed = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._error is not None:
            raise self._error
        try:
            part = self._part or memoryview(next(self._parts, b""))
        except Exception as error:
            self._error = error
            raise
        size = min(len(buffer), len(part))
        buffer[:size] = part[:size]
        self._part = part[size:]
        self._passed += size
        return size

    def tell(self) -> int:
        return self._passed

    def close(self) -> None:
        self._source.close()
        super().close()


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
    stream = _unpacked(raw, path)
    if encoding is not None and not _starts(stream, path, PARQUET_MAGIC):
        stream = BufferedReader(PartsReader(_recoded(stream, encoding), stream))
    if _starts(stream, path, _BOM):
        stream.read(len(_BOM))
    return stream


def _starts(stream: BufferedReader, path: str, mark: bytes) -> bool:
    try:
        return stream.peek(len(mark)).startswith(mark)
    except _WrongEncodingError as error:
        raise DatasetError(f"{path} can't be read: {error}") from error
    except DAMAGED as error:
        raise DatasetError(f"{path} is damaged from its first byte on: {error}") from error


def parts_of(stream: BufferedIOBase) -> Iterator[bytes]:
    """Yield the rest of a stream as it comes, in parts of at most 64 KiB."""
    return iter(partial(stream.read1, _PART), b"")


def _unpacked(raw: BufferedReader, path: str) -> BufferedReader:
    start = raw.peek(8)
    for magic, words in _NOT_UNPACKED.items():
        if start.startswith(magic):
            raise DatasetError(f"{path} is {words}: unpack it first; gzip, bzip2 and zstd are read as they are")
    if start.startswith(b"\x1f\x8b"):
        parts = parts_of(gzip.GzipFile(fileobj=raw))
    elif start.startswith(b"BZh"):
        parts = parts_of(bz2.BZ2File(raw))
    elif start.startswith(b"\x28\xb5\x2f\xfd"):
        parts = _from_zstd(raw, path)
    else:
        return raw
    return BufferedReader(PartsReader(_in_proportion(parts, raw), raw))


_NOT_UNPACKED = {
    ZIP_MAGIC: "a zip archive",
    b"\xfd7zXZ\x00": "packed with xz",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
}


def _in_proportion(parts: Iterator[bytes], packed: BufferedReader) -> Iterator[bytes]:
    """Yield unpacked content, up to where it is far more than its packed bytes can be meant to stand for."""
    passed = 0
    for part in parts:
        passed += len(part)
        if passed > FREE and passed > MOST_TIMES * packed.tell():
            raise OSError(
                f"{packed.tell():,} packed bytes stand for more than {passed:,}: unpack it first if that is meant"
            )
        yield part


def _from_zstd(raw: BufferedReader, path: str) -> Iterator[bytes]:
    """Yield what frames of zstd hold; the package's own reader takes one that was cut off for a whole one."""
    try:
        import zstandard
    except ImportError:
        raise DatasetError(
            f"{path} is packed with zstd, which needs another package: pip install 'turnwise[scan]'"
        ) from None
    unpacker, frame = zstandard.ZstdDecompressor(), None
    for packed in iter(partial(raw.read1, _ZSTD_PART), b""):
        rest = packed
        while rest:
            frame = frame or unpacker.decompressobj()
            try:
                content = frame.decompress(rest)
            except zstandard.ZstdError as error:
                raise OSError(str(error)) from error
            yield from (content[at : at + _PART] for at in range(0, len(content), _PART))
            rest = frame.unused_data
            if frame.eof:
                frame = None
    if frame is not None:
        raise EOFError("the zstd stream ends within a frame")


class _WrongEncodingError(OSError):
    """A text isn't of the encoding that was named; the reader says where it breaks off."""


def _recoded(stream: BufferedReader, encoding: str) -> Iterator[bytes]:
    """Yield a text of another encoding in UTF-8; after an error it would be other characters than were meant."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for part in parts_of(stream):
            yield decoder.decode(part).encode("utf-8", "surrogatepass")
        yield decoder.decode(b"", final=True).encode("utf-8", "surrogatepass")
    except UnicodeError as error:  # a missing mark of the order of bytes is of this kind alone
        reason = error.reason if isinstance(error, UnicodeDecodeError) else error
        raise _WrongEncodingError(f"it is not {encoding} text ({reason}); see --encoding") from error


def _from_pipe(pipe: FileIO, path: str) -> Iterator[bytes]:
    deadline = time.monotonic() + WAIT_SECONDS
    no_writer_yet = stat.S_ISFIFO(os.fstat(pipe.fileno()).st_mode)
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while True:
        part = pipe.read(_PART)
        if part is None:  # somebody has it open for writing
            no_writer_yet = False
            poll.poll()
        elif part:
            no_writer_yet = False
            yield part
        elif not no_writer_yet:
            return
        elif poll.poll(1e3 * _POLL_SECONDS):
            no_writer_yet = False
        elif time.monotonic() > deadline:
            raise DatasetError(f"nothing came from the pipe {path} for {WAIT_SECONDS:g} s: start its writer")


def _filled(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the same parts, the first long enough to tell how the content is packed."""
    start = b""
    for part in parts:
        start += part
        if len(start) >= 8:
            break
    yield start
    yield from parts
