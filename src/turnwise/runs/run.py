"""A run: what a sink lacks goes through an engine to workers, and into the sink, until nothing is missing."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from turnwise.errors import UsageError
from turnwise.findings import Counts

Item = TypeVar("Item")
Result = TypeVar("Result")
Given_contra = TypeVar("Given_contra", contravariant=True)
Made_co = TypeVar("Made_co", covariant=True)
Missing_co = TypeVar("Missing_co", covariant=True)
Taken_contra = TypeVar("Taken_contra", contravariant=True)


class Worker(Protocol[Given_contra, Made_co]):
    """Does items, one after the other. Holds what is slow to load; made once for each process or actor."""

    def do(self, item: Given_contra, /) -> Made_co:
        """Do an item; TurnwiseError where nothing more can be done, such as an observer that can't go on."""


class Work(Protocol[Given_contra, Made_co]):
    """All that a worker must know. Picklable and light where it goes to other processes."""

    def open(self) -> Worker[Given_contra, Made_co]:
        """A worker of this process; TurnwiseError where it can't be built here."""


class Engine(Protocol):
    """Gives items to workers."""

    def run(self, work: Work[Item, Result], items: Iterable[Item]) -> Iterator[list[Result]]:
        """Yield what came since the last time, now and then nothing; TurnwiseError where a worker can't go on.

        Items are taken only as there is room, so that memory is bounded; their generator may raise. Where the
        iterator is closed, or an error ends it, items that have not begun are dropped and no worker is left
        running.
        """


class SpendingLimits(NamedTuple):
    """What all workers of a paid observer together may spend, and send in a minute; None for no limit."""

    budget_usd: float | None = None
    per_minute: float | None = None


@runtime_checkable
class PaidWork(Protocol):
    """Work that may be paid for: its workers share one budget and one pace, however many they are."""

    @property
    def limits(self) -> SpendingLimits | None:
        """What all workers together are held to; None where nothing is paid for."""

    def with_allowance(self, allowance: Any) -> Any:
        """The same work, whose workers keep within a `turnwise.observers.llm.limits.Allowance` together."""


def checked_jobs(jobs: int) -> int:
    """The number of workers; UsageError where there are none."""
    if jobs < 1:
        raise UsageError(f"a scan needs at least 1 worker, not {jobs}")
    return jobs


def check_travels(work: object) -> None:
    """Raise UsageError unless work can go to another process."""
    try:
        pickle.dumps(work)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise UsageError(
            f"this observer or detector can't go to another process ({error}): use the engine inline"
        ) from error


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
    """The progress of a run.

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
