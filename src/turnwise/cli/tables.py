"""Tables that go to a file."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from typing import Any

from turnwise.cli.files import writing
from turnwise.spreadsheets import cell


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
