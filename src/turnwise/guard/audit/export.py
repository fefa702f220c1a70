"""An audit as a table that spreadsheets open."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from turnwise.errors import GuardError
from turnwise.paths import to_path
from turnwise.spreadsheets import cell

COLUMNS: Final = (
    "time",
    "pipeline",
    "conversation_id",
    "session_id",
    "initiator",
    "responder",
    "model",
    "turn",
    "side",
    "blocked",
    "warned",
    "rate_limited",
    "reasons",
    "warnings",
    "failed",
    "stance",
    "trust",
    "seconds",
    "text",
    "text_sha256",
)
"""Columns of the table, left to right."""


def export_csv(events: Iterable[Mapping[str, Any]], path: str | Path) -> int:
    """Write checks to a CSV file, a row each, and return how many there were.

    Args:
        events: records, as `read_audit` gives them.
        path: the file; one that is there is written over.

    Raises:
        GuardError: it can't be written.
    """
    count = 0
    try:
        with to_path(path).open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            for event in events:
                writer.writerow([cell(value) for value in row(event)])
                count += 1
    except OSError as error:
        raise GuardError(f"can't write {path}: {error.strerror}") from error
    return count


def row(event: Mapping[str, Any]) -> list[Any]:
    """Return the cells of a check, in the order of `COLUMNS`."""
    sides, stance, details = (_mapping(event.get(key)) for key in ("participants", "stance", "guardrails"))
    failed = [name for name, detail in details.items() if _mapping(detail).get("status") == "failed"]
    derived = {
        "initiator": sides.get("initiator"),
        "responder": sides.get("responder"),
        "reasons": "; ".join(map(str, event.get("reasons") or ())),
        "warnings": "; ".join(map(str, event.get("warnings") or ())),
        "failed": "; ".join(failed),
        "stance": stance.get("mode"),
        "trust": stance.get("trust"),
    }
    return [derived[name] if name in derived else event.get(name) for name in COLUMNS]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
