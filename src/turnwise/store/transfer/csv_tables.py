"""An export for spreadsheets: a CSV file for each table, in which names stand beside keys."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Table

from turnwise._support.table_files import cell
from turnwise.store.transfer.snapshot import Snapshot
from turnwise.store.transfer.tables import TABLES, Kind, Progress, Row, kind_of, time_text

NOT_CARRIED = (
    "A text that a spreadsheet would take for a formula begins with an apostrophe, and NUL is written as \\0: "
    "which of them were there before can't be told.",
    "An empty cell is an empty text, or nothing at all.",
)

_NAMES = {
    "sequence": ("sequence_id", "label", "source"),
    "run": ("run_name",),
    "provenance": ("principle_version", "code_version"),
}
"""What is said beside a key, by the name of the column of the key."""


def write(folder: Path, record: Snapshot, progress: Progress) -> dict[str, int]:
    """Write all tables, and return how many rows each file has."""
    return {f"{table.name}.csv": _write_table(folder, record, table, progress) for table in TABLES}


def _write_table(folder: Path, record: Snapshot, table: Table, progress: Progress) -> int:
    columns: Sequence[Column[Any]] = tuple(table.columns)
    names = [name for key, some in _NAMES.items() if key in table.c for name in some]
    count = 0
    with (folder / f"{table.name}.csv").open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*names, *(column.name for column in columns)])
        for page in record.pages(table, named=True):
            for row in page:
                values = [*(row[name] for name in names), *(_plain(column, row) for column in columns)]
                writer.writerow([cell(value) for value in values])
            count += len(page)
    progress(table.name, count)
    return count


def _plain(column: Column[Any], row: Row) -> Any:
    value, kind = row[column.name], kind_of(column)
    if kind is Kind.JSON:
        return json.dumps(value, ensure_ascii=False)
    return time_text(value) if kind is Kind.TIME and value is not None else value
