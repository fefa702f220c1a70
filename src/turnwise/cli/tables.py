"""Tables that go to a file."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.cli.files import writing
from turnwise.errors import UsageError
from turnwise.paths import to_path
from turnwise.spreadsheets import cell

if TYPE_CHECKING:
    import pyarrow

EXPORTS = (".csv", ".parquet", ".arrow")
"""Suffixes of the files that results can be exported to."""


def check_export(path: str) -> None:
    """Refuse a file that nothing can be exported to, before anything is asked.

    Raises:
        UsageError: another suffix, no such folder, or pyarrow is needed and not installed.
    """
    from turnwise.store.query import need

    suffix = Path(path).suffix
    if suffix not in EXPORTS:
        raise UsageError(f"--export writes {', '.join(EXPORTS)}, and {path} ends in none of them")
    if not to_path(path).parent.is_dir():
        raise UsageError(f"can't write {path}: there is no folder {to_path(path).parent}")
    if suffix != ".csv":
        need("pyarrow", f"--export {suffix}")


def export_table(
    path: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], table: Callable[[], pyarrow.Table]
) -> int:
    """Write a table to a file of the format that its suffix names, and return how many rows there were.

    Args:
        path: ends in one of `EXPORTS`.
        columns: names of the columns.
        rows: the rows, for CSV.
        table: gives the same as a table of pyarrow, for the others.

    Raises:
        UsageError: the file can't be written.
    """
    if path.endswith(".csv"):
        return write_csv(path, columns, rows)
    found = table()
    try:
        if path.endswith(".parquet"):
            import pyarrow.parquet

            pyarrow.parquet.write_table(found, to_path(path))
        else:
            import pyarrow.feather

            pyarrow.feather.write_feather(found, str(to_path(path)), compression="uncompressed")
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror or error}") from error
    return int(found.num_rows)


def write_csv(path: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Write rows to a CSV file as they come, and return how many there were.

    A text that a spreadsheet would take for a formula begins with an apostrophe.

    Raises:
        UsageError: the file can't be written.
    """
    count = 0
    with writing(path) as file:
        writer = csv.writer(file)
        writer.writerow(map(cell, columns))
        for row in rows:
            writer.writerow([cell(value) if isinstance(value, str) else value for value in row])
            count += 1
    return count
