"""Opening data files: compression, byte order mark, and errors in words."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader

from turnwise.errors import DatasetError
from turnwise.paths import to_path

DAMAGED = (EOFError, OSError, zlib.error)
"""What reading raises half-way through a file that was cut off or damaged."""

_BOM = b"\xef\xbb\xbf"
_PACKED = {
    b"PK\x03\x04": "a zip archive",
    b"\xfd7zXZ\x00": "packed with xz",
    b"\x28\xb5\x2f\xfd": "packed with zstd",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
}


@contextmanager
def open_binary(path: str) -> Iterator[BufferedReader]:
    """Open a file for reading from its first byte of content.

    What is packed with gzip or bzip2 is unpacked on the way, whatever the name of the file; a UTF-8 byte order
    mark is skipped.

    Args:
        path: the file.

    Raises:
        DatasetError: there is no such file, it is a folder, may not be read, is damaged, or packed in another way.
    """
    with _open(path) as raw:
        stream = _unpacked(raw, path)
        _skip_bom(stream, path)
        yield stream


def _open(path: str) -> BufferedReader:
    try:
        return to_path(path).open("rb")
    except FileNotFoundError:
        raise DatasetError(f"there is no file {path}: check the path") from None
    except IsADirectoryError:
        raise DatasetError(f"{path} is a folder: name a file in it") from None
    except OSError as error:
        raise DatasetError(f"can't read {path}: {error.strerror}") from error


def _unpacked(raw: BufferedReader, path: str) -> BufferedReader:
    start = raw.peek(8)
    if start.startswith(b"\x1f\x8b"):
        return BufferedReader(gzip.GzipFile(fileobj=raw))
    if start.startswith(b"BZh"):
        return BufferedReader(bz2.BZ2File(raw))
    for magic, words in _PACKED.items():
        if start.startswith(magic):
            raise DatasetError(f"{path} is {words}: unpack it first; gzip and bzip2 are read as they are")
    return raw


def _skip_bom(stream: BufferedReader, path: str) -> None:
    try:
        marked = stream.peek(3).startswith(_BOM)
    except DAMAGED as error:
        raise DatasetError(f"{path} is damaged from its first byte on: {error}") from error
    if marked:
        stream.read(len(_BOM))
