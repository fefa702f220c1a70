"""What a run hands to workers, and what an engine has to do with it."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from turnwise.errors import UsageError

Item = TypeVar("Item")
Result = TypeVar("Result")
Given_contra = TypeVar("Given_contra", contravariant=True)
Made_co = TypeVar("Made_co", covariant=True)


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


class Limits(NamedTuple):
    """What all workers of a paid observer together may spend, and send in a minute; None for no limit."""

    budget_usd: float | None = None
    per_minute: float | None = None


@runtime_checkable
class PaidWork(Protocol):
    """Work that may be paid for: its workers share one budget and one pace, however many they are."""

    @property
    def limits(self) -> Limits | None:
        """What all workers together are held to; None where nothing is paid for."""

    def with_allowance(self, allowance: Any) -> Any:
        """The same work, whose workers keep within a `turnwise.observers.llm.allowance.Allowance` together."""


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
