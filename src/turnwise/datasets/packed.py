"""Packed data: gzip, bzip2 and zstd are unpacked on the way, within a bound; other packed files are refused."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable, Mapping
from io import BufferedIOBase, BufferedReader, RawIOBase
from typing import Any

from turnwise.errors import DatasetError

MOST_TIMES = 500
"""How many times its packed bytes content may have; logs that repeat a long text have some dozens."""

FREE = 256 << 20
"""Bytes that content may have however small it is packed."""

_PACKED_PART = 1 << 11
"""Bytes of zstd that are unpacked at once: four of them may stand for 128 KiB."""

ZIP_MAGIC = b"PK\x03\x04"
_PACKED = {
    ZIP_MAGIC: "a zip archive",
    b"\xfd7zXZ\x00": "packed with xz",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
}


def unpacked(raw: BufferedReader, path: str) -> BufferedReader:
    """Return what a stream at its beginning holds, unpacked where it is packed; ``path`` is for messages."""
    start = raw.peek(8)
    for magic, unpacker in _UNPACKERS.items():
        if start.startswith(magic):
            return BufferedReader(_Bounded(unpacker(raw, path), raw))
    for magic, words in _PACKED.items():
        if start.startswith(magic):
            raise DatasetError(f"{path} is {words}: unpack it first; gzip, bzip2 and zstd are read as they are")
    return raw


class _Bounded(RawIOBase):
    """Unpacked content, up to where it is so much more than its packed bytes that nobody can have meant it."""

    def __init__(self, content: BufferedIOBase | RawIOBase, packed: BufferedReader) -> None:
        self._content = content
        self._packed = packed
        self._passed = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self._content.readinto(buffer) or 0
        self._passed += size
        if self._passed > FREE and self._passed > MOST_TIMES * (packed := self._packed.tell()):
            raise OSError(
                f"{packed:,} packed bytes stand for more than {self._passed:,}: unpack it first if that is meant"
            )
        return size

    def close(self) -> None:
        if not self.closed:
            self._content.close()
            self._packed.close()
        super().close()


class _Zstd(RawIOBase):
    """What a stream packed with zstd holds, frame after frame."""

    def __init__(self, raw: BufferedReader, path: str) -> None:
        try:
            import zstandard
        except ImportError:
            raise DatasetError(
                f"{path} is packed with zstd, which needs another package: pip install 'turnwise[scan]'"
            ) from None
        self._raw = raw
        self._unpacker = zstandard.ZstdDecompressor()
        self._damage = zstandard.ZstdError
        self._frame: Any = None
        self._rest = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            packed = self._rest or self._raw.read1(_PACKED_PART)
            if not packed:
                if self._frame is not None:
                    raise EOFError("the zstd stream ends within a frame")
                return 0
            self._unpack(packed)
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def _unpack(self, packed: bytes) -> None:
        if self._frame is None:
            self._frame = self._unpacker.decompressobj()
        try:
            self._ready = memoryview(self._frame.decompress(packed))
        except self._damage as error:
            raise OSError(str(error)) from error
        self._rest = self._frame.unused_data
        if self._frame.eof:
            self._frame = None

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


_UNPACKERS: Mapping[bytes, Callable[[BufferedReader, str], BufferedIOBase | RawIOBase]] = {
    b"\x1f\x8b": lambda raw, _: gzip.GzipFile(fileobj=raw),
    b"BZh": lambda raw, _: bz2.BZ2File(raw),
    b"\x28\xb5\x2f\xfd": _Zstd,
}
"""What unpacks content that begins with these bytes."""
