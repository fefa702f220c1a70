"""Work for engines that reads nothing: its workers note what they did in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from turnwise.errors import ObserverError


class Item(NamedTuple):
    """Something to do, which carries some bytes."""

    number: int
    content: bytes


class Result(NamedTuple):
    """What came of an item: its number, and how many bytes it carried."""

    number: int
    size: int


def items(count: int, size: int = 1_000) -> Iterator[Item]:
    """Yield items that carry so many bytes each."""
    for number in range(count):
        yield Item(number, bytes(size))


@dataclass(frozen=True)
class NotedWork:
    """What workers do: they leave a file in `folder` for each item that they begin.

    Item `dies_at` kills the process the first `deaths` times; at item `fails_at` nothing more can be done.
    """

    folder: Path
    dies_at: int = -1
    deaths: int = 1
    fails_at: int = -1

    def open(self) -> Callable[[Item], Result]:
        """Load something, once in a process, which shows in a file."""
        (self.folder / f"opened-{os.getpid()}").touch(exist_ok=False)
        return self.do

    def do(self, item: Item, /) -> Result:
        begun = len(list(self.folder.glob(f"begun-{item.number}-*")))
        (self.folder / f"begun-{item.number}-{begun}").touch()
        if item.number == self.dies_at and begun < self.deaths:
            os._exit(1)
        if item.number == self.fails_at:
            raise ObserverError("the observer can't go on")
        return Result(item.number, len(item.content))
