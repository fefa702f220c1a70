"""An export as JSON lines: a file for each table, a line for each row, keys as in the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Table

from turnwise._support.bounded import is_too_deep
from turnwise.errors import StoreError
from turnwise.store.transfer.snapshot import Snapshot
from turnwise.store.transfer.tables import TABLES, Kind, Progress, kind_of, time_text


def write(folder: Path, record: Snapshot, progress: Progress) -> dict[str, int]:
    """Write all tables, and return how many rows each file has."""
    return {f"{table.name}.jsonl": _write_table(folder, record, table, progress) for table in TABLES}


def _write_table(folder: Path, record: Snapshot, table: Table, progress: Progress) -> int:
    times = {column.name for column in table.columns if kind_of(column) is Kind.TIME}
    names = [column.name for column in table.columns]
    count = 0
    with (folder / f"{table.name}.jsonl").open("wb") as file:
        for page in record.pages(table):
            for row in page:
                values = {
                    name: time_text(row[name]) if name in times and row[name] is not None else row[name]
                    for name in names
                }
                file.write(line(values, f"{record.name}, {table.name}"))
            count += len(page)
    progress(table.name, count)
    return count


def line(values: dict[str, Any], where: str, *, halves: bool = True) -> bytes:
    """A row as a line of JSON; StoreError for a number that is not finite, which JSON does not have.

    `halves` says whether half of a surrogate pair is kept, as an escape; else it becomes a question mark.

    >>> line({"id": 1, "text": "ja, né"}, "a.db").decode().split()
    ['{"id":', '1,', '"text":', '"ja,', 'né"}']
    """
    try:
        try:
            text = f"{json.dumps(values, ensure_ascii=False, allow_nan=False)}\n"
            return text.encode() if halves else text.encode(errors="replace")
        except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can stand for
            return f"{json.dumps(values, allow_nan=False)}\n".encode()
    except ValueError as error:
        key = values.get("id", values.get("_key", ""))
        raise StoreError(f"{where}, row {key}: {error}; JSON has finite numbers only, Parquet has all") from error


def read(path: Path, table: Table) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file; ValueError, which does not say where, for a line that is no JSON object."""
    with path.open("rb") as file:
        for text in file:
            if is_too_deep(text):
                raise ValueError("brackets are nested too deep")
            row = json.loads(text)
            if not isinstance(row, dict):
                raise ValueError(f"a {type(row).__name__}, not an object with keys")
            yield row
