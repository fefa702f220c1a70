"""The formats of an export: how each is written and read, and what it can't carry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Table

from turnwise.store.transfer import arangodb, csv_tables, jsonl, parquet
from turnwise.store.transfer.snapshot import Snapshot
from turnwise.store.transfer.tables import Progress


class Format(NamedTuple):
    """One format. `write` returns how many rows each file has; `read` is None where nothing can be imported."""

    write: Callable[[Path, Snapshot, Progress], dict[str, int]]
    read: Callable[[Path, Table], Iterator[dict[str, Any]]] | None = None
    not_carried: tuple[str, ...] = ()


FORMATS = {
    "parquet": Format(parquet.write, parquet.read),
    "jsonl": Format(jsonl.write, jsonl.read),
    "csv": Format(csv_tables.write, not_carried=csv_tables.NOT_CARRIED),
    "arangodb": Format(arangodb.write, not_carried=arangodb.NOT_CARRIED),
}
"""The formats by name."""
