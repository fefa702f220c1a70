"""Work that is paid for: its workers share one budget and one pace, whatever their number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

from turnwise.scan.engines import Work, Worker


@runtime_checkable
class PaidWork(Protocol):
    """Work that may be paid for."""

    @property
    def pays(self) -> Mapping[str, float | None] | None:
        """Limits of all workers together, ``budget_usd`` and ``per_minute``; None where nothing is paid for."""

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
    if not isinstance(work, PaidWork) or work.pays is None:
        yield work
        return
    from turnwise.observers.llm.allowance import Ledger, serve

    with serve(Ledger(**work.pays)) as allowance:
        yield work.with_allowance(allowance)
