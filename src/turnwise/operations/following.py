"""An audit followed as it grows, in a file that may be rotated or in a store, from its beginning on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from turnwise.errors import GuardError
from turnwise.guard.audit.reader import audit_at, events_in
from turnwise.guard.audit.sinks import JsonLinesSink, StoreSink, files_of


class FollowedAudit:
    """Yields the events of an audit, oldest first, and takes events that tell what became of them.

    Several processes may write to it meanwhile. Lines that are no event are passed over.

    Args:
        location: the file or store; the file may be missing still.

    Raises:
        GuardError: it can't be written to.
        StoreError: the store can't be opened.
    """

    def __init__(self, location: str | Path) -> None:
        try:
            place = audit_at(location)
        except GuardError:
            place = Path(location)  # a guard that has not started yet
        self._path = place if isinstance(place, Path) else None
        self.sink = JsonLinesSink(place) if isinstance(place, Path) else StoreSink(place, create=False)
        self._file: IO[bytes] | None = None
        self._row = 0
        self._last = 0
        self._begun = False

    def more(self) -> Iterator[dict[str, Any]]:
        """Yield the events that came since the last call."""
        for event in self._of_store() if self._path is None else self._of_file(self._path):
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

    def _of_file(self, path: Path) -> Iterator[dict[str, Any]]:
        if not self._begun:
            self._begun = True
            for older in files_of(path)[0]:
                with older.open("rb") as file:
                    yield from _whole(file)
        while True:
            if self._file is None:
                try:
                    self._file = path.open("rb")
                except FileNotFoundError:
                    return
            yield from _whole(self._file)
            if _same(self._file, path):
                return
            yield from _whole(self._file)  # what came between the last look and the rotation
            self._file.close()
            self._file = None


def _whole(file: IO[bytes]) -> Iterator[dict[str, Any]]:
    """The events of the whole lines from here on; a line that is still being written is left for later."""
    while True:
        at = file.tell()
        line = file.readline()
        if not line.endswith(b"\n"):
            file.seek(at)
            return
        for _, event in events_in([line]):
            if isinstance(event, dict):
                yield event


def _same(file: IO[bytes], path: Path) -> bool:
    """Whether an open file is what its name stands for, and has not become shorter."""
    import os

    try:
        there, ours = path.stat(), os.fstat(file.fileno())
    except FileNotFoundError:
        return True
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino) and file.tell() <= ours.st_size
