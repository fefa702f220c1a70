"""Tables that go to a file."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from turnwise.errors import UsageError


def write_csv(path: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Write rows to a CSV file as they come, and return how many there were.

    Raises:
        UsageError: the file can't be written.
    """
    count = 0
    try:
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            for row in rows:
                writer.writerow(row)
                count += 1
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}") from error
    return count
