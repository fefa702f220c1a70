"""Paths, and folders and files on this machine or behind a URL (``s3://bucket/chats``), by one small set of verbs.

URLs go through fsspec, which is imported for them alone: ``pip install 'turnwise[scan]'``, and ``[s3]``, ``[gs]``
or ``[az]`` for the clients of those clouds.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from os import PathLike, fspath
from pathlib import Path, PurePosixPath
from typing import IO, Any

from turnwise.errors import LocationError, TurnwiseError


def to_path(name: str | PathLike[str], *, home: bool = False) -> Path:
    r"""The path of a file; an `OSError` for a name that none can have, where Python has other errors.

    >>> to_path("a\0b")
    Traceback (most recent call last):
        ...
    OSError: [Errno 22] a file name can't have a NUL character: 'a\x00b'
    """
    text = fspath(name)
    if "\0" in text:
        raise OSError(errno.EINVAL, "a file name can't have a NUL character", text)
    try:
        return Path(text).expanduser() if home else Path(text)
    except RuntimeError as error:
        raise OSError(errno.ENOENT, "there is no home folder of that user", text) from error


_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "az": "az", "abfs": "az", "abfss": "az", "adl": "az"}
"""The extra of turnwise that brings the client of a protocol."""


def is_url(name: str | os.PathLike[str]) -> bool:
    """Whether a name is a URL for fsspec and not the path of a file.

    >>> is_url("s3://bucket/chats.parquet"), is_url("memory://a"), is_url("logs/a.jsonl"), is_url("C:/logs")
    (True, True, False, False)
    """
    scheme, separator, _ = os.fspath(name).partition("://")
    return bool(separator) and len(scheme) > 1 and scheme.replace("+", "").replace("-", "").isalnum()


@dataclass(frozen=True, slots=True)
class Location:
    """A file or folder, local or behind a URL, opened when it is asked; what fails raises `LocationError`.

    >>> Location("s3://bucket/findings/") / "manifest.json"
    Location(name='s3://bucket/findings/manifest.json')
    """

    name: str

    def __post_init__(self) -> None:
        if len(self.name) > 1 and not self.name.endswith("://"):
            object.__setattr__(self, "name", self.name.rstrip("/"))

    def __str__(self) -> str:
        return self.name

    def __truediv__(self, other: str) -> Location:
        return Location(f"{self.name}/{other}" if self.is_url else str(Path(self.name) / other))

    @property
    def is_url(self) -> bool:
        """Whether fsspec reads and writes it."""
        return is_url(self.name)

    @property
    def filesystem(self) -> Any:
        """fsspec's filesystem of its protocol; `LocationError` where that can't be had."""
        return filesystem(self.name.partition("://")[0])

    @property
    def path(self) -> Path:
        """The local path; an `OSError` where the name can't be that of a file."""
        return to_path(self.name)

    @property
    def base(self) -> str:
        return PurePosixPath(self.name).name if self.is_url else Path(self.name).name

    @property
    def parent(self) -> Location:
        return Location(self.name.rpartition("/")[0] if self.is_url else str(Path(self.name).parent))

    def exists(self) -> bool:
        with _errors(self, "look at"):
            return self.filesystem.exists(self.name) if self.is_url else self.path.exists()

    def is_folder(self) -> bool:
        with _errors(self, "look at"):
            return self.filesystem.isdir(self.name) if self.is_url else self.path.is_dir()

    def size(self) -> int:
        with _errors(self, "look at"):
            return int(self.filesystem.size(self.name)) if self.is_url else self.path.stat().st_size

    def names(self) -> list[str]:
        """The names in a folder, sorted; none where there is no such folder."""
        with _errors(self, "list"):
            if not self.is_url:
                return sorted(one.name for one in self.path.iterdir()) if self.path.is_dir() else []
            files = self.filesystem
            if not files.exists(self.name):
                return []
            return sorted(str(one).rstrip("/").rpartition("/")[2] for one in files.ls(self.name, detail=False))

    def sizes(self) -> dict[str, int]:
        """The bytes of each file in a folder by name, from one listing."""
        with _errors(self, "list"):
            if not self.is_url:
                files = list(self.path.iterdir()) if self.path.is_dir() else []
                return {one.name: one.stat().st_size for one in files if one.is_file()}
            remote = self.filesystem
            if not remote.exists(self.name):
                return {}
            return {
                str(one["name"]).rpartition("/")[2]: int(one["size"])
                for one in remote.ls(self.name, detail=True)
                if one["type"] == "file"
            }

    def matches(self) -> list[Location]:
        """The files that a pattern such as ``logs/*.parquet`` names, sorted."""
        with _errors(self, "list"):
            if self.is_url:
                files = self.filesystem
                found = sorted(str(files.unstrip_protocol(one)) for one in files.glob(self.name))
                return [Location(one) for one in found]
            found = sorted(glob.glob(self.name, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
            return [Location(one) for one in found if Path(one).is_file()]

    def stream(self) -> Any:
        """A file that is open for reading bytes, which the caller closes."""
        with _errors(self, "read"):
            return self.filesystem.open(self.name, "rb") if self.is_url else self.path.open("rb")

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        with self.stream() as file:
            yield file

    def read(self) -> bytes:
        with self.open() as file, _errors(self, "read"):
            return file.read()

    def sha256(self) -> str:
        """The digest of a local file, as hexadecimal digits."""
        with self.open() as file:
            return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]

    def write(self, content: bytes) -> None:
        """Write a file whole: a reader sees the old content or the new, never a part."""
        with _errors(self, "write"):
            if self.is_url:
                files = self.filesystem
                files.makedirs(self.parent.name, exist_ok=True)
                files.pipe_file(self.name, content)
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            partial = self.partial()
            try:
                partial.write_bytes(content)
                partial.replace(self.path)
            finally:
                partial.unlink(missing_ok=True)

    def partial(self) -> Path:
        """The path beside a local file under which this process writes what is to replace it."""
        return self.path.with_name(f".{self.path.name}.{os.getpid()}{PARTIAL}")

    def remove(self) -> None:
        """Remove a file, if it is there."""
        with _errors(self, "remove"):
            if not self.is_url:
                self.path.unlink(missing_ok=True)
            elif self.filesystem.exists(self.name):
                self.filesystem.rm_file(self.name)


PARTIAL = ".partial"
"""How the names of local files end that are not written to their end; a process that is killed leaves them."""


@contextmanager
def _errors(location: Location, verb: str) -> Iterator[None]:
    try:
        yield
    except TurnwiseError:
        raise
    except FileNotFoundError:
        raise LocationError(f"there is no {location}: check the path") from None
    except Exception as error:
        # Each filesystem of fsspec raises what its client does.
        raise LocationError(f"can't {verb} {location}: {_line(error)}") from error


def _line(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


@cache
def filesystem(protocol: str) -> Any:
    """fsspec's filesystem of a protocol, such as ``"s3"``; `LocationError` where its client is not installed."""
    extra = _EXTRAS.get(protocol, "scan")
    try:
        import fsspec
    except ImportError:
        raise LocationError(f"{protocol}:// needs another package: pip install 'turnwise[{extra}]'") from None
    try:
        return fsspec.filesystem(protocol)
    except ImportError as error:
        raise LocationError(
            f"{protocol}:// needs another package: pip install 'turnwise[{extra}]' ({_line(error)})"
        ) from None
    except ValueError as error:
        raise LocationError(f"fsspec knows no {protocol}:// ({_line(error)}): use s3:// or another one") from None
