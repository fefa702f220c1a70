"""The audit in a turnwise store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from turnwise.clock import Clock
from turnwise.store import Store


class StoredSink:
    """Appends records to the table ``audit_events`` of a store; each batch is durable when it is written.

    Args:
        location: the store; made where it is not there.
        clock: gives the present time, aware.

    Raises:
        StoreError: it can't be opened.
        UsageError: a URL that is no SQLite file.
    """

    def __init__(self, location: str, clock: Clock) -> None:
        self._store = Store(location, create=True, clock=clock)

    def write(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Append records.

        Raises:
            StoreError: the store does not take them.
        """
        self._store.audit.append(records)

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()
