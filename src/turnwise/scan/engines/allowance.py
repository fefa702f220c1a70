"""Work that is paid for: its workers share one budget and one pace, whatever their number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, runtime_checkable

from turnwise.scan.engines import Work, Worker


class Limits(NamedTuple):
    """What workers of an observer that is paid for are held to together.

    Args:
        budget_usd: most US dollars that they may spend; None for no limit.
        per_minute: most requests that they may send in a minute; None for no limit.
    """

    budget_usd: float | None = None
    per_minute: float | None = None


@runtime_checkable
class PaidWork(Protocol):
    """Work that may be paid for."""

    @property
    def limits(self) -> Limits | None:
        """What all workers together are held to; None where nothing is paid for."""

    def open(self) -> Worker:
        """Return a worker; see `turnwise.scan.engines.Work`."""

    def with_allowance(self, allowance: Any) -> Work:
        """Return the same work, whose workers keep within an allowance together.

        Args:
            allowance: a `turnwise.observers.llm.allowance.Allowance`.
        """


@contextmanager
def shared_allowance(work: Work) -> Iterator[Work]:
    """Answer for the common allowance of worker processes on this machine meanwhile.

    Args:
        work: what each worker is made of.

    Yields:
        The work to give to them.
    """
    if not isinstance(work, PaidWork) or work.limits is None:
        yield work
        return
    from turnwise.observers.llm.allowance import Ledger, serve

    with serve(Ledger(*work.limits)) as allowance:
        yield work.with_allowance(allowance)
