"""Work for engines that reads nothing: its workers note what they did in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from turnwise.errors import ObserverError
from turnwise.findings import Counts, PartEntry
from turnwise.runs.parts import Done, LineBytes, Part


def parts(count: int, size: int = 1_000) -> Iterator[Part]:
    """Yield parts that carry so many bytes each."""
    for number in range(count):
        yield Part(number, 0, 1 + number, 1, LineBytes(bytes(size)), size)


@dataclass(frozen=True)
class NotedWork:
    """What workers do.

    Args:
        folder: where each leaves a file for each part that it begins.
        dies_at: part that kills the process the first `deaths` times.
        deaths: how often.
        fails_at: part at which nothing more can be done.
    """

    folder: Path
    dies_at: int = -1
    deaths: int = 1
    fails_at: int = -1

    def open(self) -> Callable[[Part], Done]:
        """Load something, once in a process, which shows in a file."""
        (self.folder / f"opened-{os.getpid()}").touch(exist_ok=False)
        return self.do

    def do(self, part: Part, /) -> Done:
        begun = len(list(self.folder.glob(f"begun-{part.number}-*")))
        (self.folder / f"begun-{part.number}-{begun}").touch()
        if part.number == self.dies_at and begun < self.deaths:
            os._exit(1)
        if part.number == self.fails_at:
            raise ObserverError("the observer can't go on")
        assert isinstance(part.content, LineBytes)
        return Done(PartEntry(part.number, part.input, part.first_row, Counts(), {}), len(part.content.lines))
