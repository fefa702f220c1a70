"""Tables that go to a file."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from turnwise.errors import UsageError
from turnwise.spreadsheets import cell


def write_csv(path: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Write rows to a CSV file as they come, and return how many there were.

    A text that a spreadsheet would take for a formula begins with an apostrophe.

    Raises:
        UsageError: the file can't be written.
    """
    count = 0
    try:
        with Path(path).open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(map(cell, columns))
            for row in rows:
                writer.writerow([cell(value) if isinstance(value, str) else value for value in row])
                count += 1
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}") from error
    return count
