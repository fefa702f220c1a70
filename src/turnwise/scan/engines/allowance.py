"""Work that is paid for: its workers share one budget and one pace, however many they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, runtime_checkable

from turnwise.scan.engines import Work, Worker


class Limits(NamedTuple):
    """What all workers of a paid observer together may spend, and send in a minute; None for no limit."""

    budget_usd: float | None = None
    per_minute: float | None = None


@runtime_checkable
class PaidWork(Protocol):
    """Work that may be paid for."""

    @property
    def limits(self) -> Limits | None:
        """What all workers together are held to; None where nothing is paid for."""

    def open(self) -> Worker:
        """A worker; see `turnwise.scan.engines.Work`."""

    def with_allowance(self, allowance: Any) -> Work:
        """The same work, whose workers keep within a `turnwise.observers.llm.allowance.Allowance` together."""


@contextmanager
def shared_allowance(work: Work) -> Iterator[Work]:
    """Yield the work for worker processes on this machine, and serve their common allowance meanwhile."""
    if not isinstance(work, PaidWork) or work.limits is None:
        yield work
        return
    from turnwise.observers.llm.allowance import Ledger, serve

    with serve(Ledger(*work.limits)) as allowance:
        yield work.with_allowance(allowance)
