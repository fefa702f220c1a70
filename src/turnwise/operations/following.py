"""An audit followed as it grows, in a file that may be rotated or written anew, or in a store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from turnwise.errors import GuardError
from turnwise.guard.audit.reader import audit_at, events_in
from turnwise.guard.audit.sinks import JsonLinesSink, StoreSink, files_of

_MOST_LINE = 4_000_000
"""Bytes of a line; what is longer is no event, and is passed over."""


class FollowedAudit:
    """Yields the events of an audit, from its very first on, and takes events that tell what became of them."""

    def __init__(self, location: str | Path) -> None:
        try:
            place = audit_at(location)
        except GuardError:
            place = Path(location)  # a guard that has not started yet
        self._file = GrowingFile(place) if isinstance(place, Path) else None
        self.sink = JsonLinesSink(place) if isinstance(place, Path) else StoreSink(place, create=False)
        self._row = 0
        self._last = 0
        self._begun = False

    def more(self) -> Iterator[dict[str, Any]]:
        """Yield the events that came since the last call."""
        for event in self._of_store() if self._file is None else self._of_files(self._file):
            number = event.get("n")
            if isinstance(number, int):
                if number <= self._last:
                    continue  # a file that was written anew, with texts erased, is read once more
                self._last = number
            yield event

    def close(self) -> None:
        """Close what is open."""
        if self._file is not None:
            self._file.close()
        if isinstance(self.sink, StoreSink):
            self.sink.close()

    def _of_store(self) -> Iterator[dict[str, Any]]:
        assert isinstance(self.sink, StoreSink)
        for row, record in self.sink.rows_after(self._row):
            self._row = row
            if isinstance(record.get("kind"), str):
                yield record

    def _of_files(self, growing: GrowingFile) -> Iterator[dict[str, Any]]:
        if not self._begun:
            self._begun = True
            for older in files_of(growing.path)[0]:
                with older.open("rb") as file:
                    yield from _events(file)
        yield from growing.more()


class GrowingFile:
    """Yields the events of an audit's file, of one that is there already only the last `tail` bytes."""

    def __init__(self, path: Path, tail: int | None = None) -> None:
        self.path = path
        self._tail = tail
        self._file: IO[bytes] | None = None

    def more(self) -> Iterator[dict[str, Any]]:
        """Yield the events that came since the last call, oldest first; OSError where the file can't be read."""
        while True:
            if self._file is None:
                try:
                    self._file = self._opened()
                except FileNotFoundError:
                    return
            yield from _events(self._file)
            if _is_still(self._file, self.path):
                return
            yield from _events(self._file)  # what came between the last look and the rotation
            self.close()

    def close(self) -> None:
        """Close the file; it is read from its start, or its tail, where it is asked once more."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def _opened(self) -> IO[bytes]:
        file = self.path.open("rb")
        if self._tail is not None:
            begin = os.fstat(file.fileno()).st_size - self._tail
            if begin > 0:
                file.seek(begin)
                file.readline(_MOST_LINE)  # the rest of a line
        return file


def _events(file: IO[bytes]) -> Iterator[dict[str, Any]]:
    """The events of the whole lines from here on; a line that is still being written is left for later."""
    while True:
        at = file.tell()
        line = file.readline(_MOST_LINE)
        if not line.endswith(b"\n"):
            if len(line) == _MOST_LINE:
                continue
            file.seek(at)
            return
        for _, event in events_in([line]):
            if isinstance(event, dict):
                yield event


def _is_still(file: IO[bytes], path: Path) -> bool:
    """Whether an open file is what its name stands for, and has not become shorter."""
    try:
        there, ours = path.stat(), os.fstat(file.fileno())
    except FileNotFoundError:
        return True
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino) and file.tell() <= ours.st_size
