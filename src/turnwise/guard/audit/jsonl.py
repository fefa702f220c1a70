"""A file of JSON lines that only grows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from turnwise.errors import GuardError
from turnwise.paths import to_path

_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class JsonLinesSink:
    """Appends records to a file, a line each. Several processes may append to the same file.

    A batch is one write, which the system appends as a whole. Where the file is moved away, as log rotation does,
    the next batch goes to a new file of the old name.

    Args:
        path: the file; made where it is not there, readable by its owner alone.
        fsync: whether to wait for the disk after each batch.

    Raises:
        GuardError: it can't be written.
    """

    def __init__(self, path: str | os.PathLike[str], *, fsync: bool = False) -> None:
        self._fsync = fsync
        self._file: int | None = None
        self._torn = False
        try:
            self._path = to_path(path, home=True)
            self._open()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise GuardError(f"the audit can't be written to {path}: {why}") from error

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Append records.

        Raises:
            OSError: the system does not take them, or not all of them.
            ValueError: a record that JSON can't hold.
        """
        lines = "".join(json.dumps(record, allow_nan=False, separators=(",", ":")) + "\n" for record in records)
        file = self._current()
        data = (b"\n" if self._torn else b"") + lines.encode("ascii")
        # Until the last byte is there, the file may end within a line.
        self._torn = True
        while data:
            data = data[os.write(file, data) :]
        self._torn = False
        if self._fsync:
            os.fsync(file)

    def close(self) -> None:
        """Let go of the file; closing twice is harmless."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _current(self) -> int:
        """Return the file, opened again where another stands under its name, or none."""
        if self._file is not None:
            try:
                there, ours = self._path.stat(), os.fstat(self._file)
            except FileNotFoundError:
                self.close()
            else:
                if (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino):
                    return self._file
                self.close()
        return self._open()

    def _open(self) -> int:
        self._file = os.open(self._path, _FLAGS, 0o600)
        self._torn = not _ends_whole(self._path)
        return self._file


def _ends_whole(path: Path) -> bool:
    """Return whether a file is empty, or its last line is whole; a crash may have torn it."""
    try:
        with path.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return True
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except OSError:  # a pipe, or a file that may be written and not read
        return True
