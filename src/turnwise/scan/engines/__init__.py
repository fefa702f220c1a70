"""Engines: how the parts of a scan get to workers. The protocol, and the engine that needs no other process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from turnwise.scan.parts import Done, Part


class Worker(Protocol):
    """Does parts, one after the other. Holds observer and detector; made once for each process or actor."""

    def do(self, part: Part) -> Done:
        """Read, score and write a part; what is wrong with the input becomes dead letters.

        TurnwiseError where nothing more can be done: the observer can't go on, or findings can't be written.
        """


class Work(Protocol):
    """All that a worker must know. Picklable, and light: nothing is loaded before `open`."""

    def open(self) -> Worker:
        """A worker of this process; TurnwiseError where observer or detector can't be built here."""


class Engine(Protocol):
    """Gives parts to workers."""

    def run(self, work: Work, parts: Iterable[Part]) -> Iterator[Done]:
        """Yield what comes of each part, as it comes, in any order; TurnwiseError where a worker can't go on.

        Parts are taken only as there is room, so that memory is bounded; their generator may raise. Where the
        iterator is closed, or an error ends it, parts that have not begun are dropped and no worker is left
        running.
        """


class InlineEngine:
    """Does parts one after the other in this process."""

    def run(self, work: Work, parts: Iterable[Part]) -> Iterator[Done]:
        """Yield what comes of each part, in order; see `Engine`."""
        worker = work.open()
        for part in parts:
            yield worker.do(part)
