"""A run: what a sink lacks goes through an engine into the sink, until nothing is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from turnwise.findings import Counts
from turnwise.runs.work import Engine, Work

Item = TypeVar("Item")
Result = TypeVar("Result")
Missing_co = TypeVar("Missing_co", covariant=True)
Taken_contra = TypeVar("Taken_contra", contravariant=True)


class Sink(Protocol[Missing_co, Taken_contra]):
    """Where results go. It knows what it has, so that a run goes on where it was stopped or killed."""

    def missing(self) -> Iterator[Missing_co]:
        """Yield the work that is left; it is taken only as there is room."""

    def take(self, results: Sequence[Taken_contra]) -> None:
        """Take what came since the last time, perhaps nothing."""

    def close(self, *, complete: bool) -> None:
        """Return once all that was taken is durable; `complete` says that nothing is missing any more."""


def carry_out(work: Work[Item, Result], engine: Engine, sink: Sink[Item, Result]) -> None:
    """Do what a sink lacks. After an error or an interrupt too, what was done is durable before it goes on."""
    complete = False
    try:
        for results in engine.run(work, sink.missing()):
            sink.take(results)
        complete = True
    finally:
        sink.close(complete=complete)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is.

    Args:
        done: how much is done of `total`: bytes of the inputs of a scan, sequences of an evaluation.
        total: how much there is.
        before: what of it needed nothing any more in this call.
        here: conversations that this call finished.
        seconds: seconds since this call began.
        counts: what came of it: of a scan in all calls, of an evaluation in this one.
    """

    done: int
    total: int
    before: int
    here: int
    seconds: float
    counts: Counts = field(default_factory=Counts)

    @property
    def left(self) -> float | None:
        """Seconds that are left at the pace of this call; None while nothing is done."""
        done = self.done - self.before
        return self.seconds * (self.total - self.done) / done if done > 0 else None


Tell = Callable[[Progress], None]
"""Is told how far a run is, each time that more of it is done and durable."""
