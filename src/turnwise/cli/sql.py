"""``turnwise query --sql``: a question in SQL, answered as a table, JSON or CSV."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Any

from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.store import Store

SHOWN = 100
"""Rows that are printed by default."""


def answer_sql(
    store: Store, statement: str, *, limit: int | None, csv: str | None, export: str | None, json: bool
) -> None:
    """Ask and print; rows are taken from the database as they are written."""
    from turnwise.cli.output import Table, note, print_json, print_table
    from turnwise.cli.tables import export_table, write_csv
    from turnwise.store.sql import ask

    answer = ask(store.mirror, statement)
    if csv is not None and export is not None:
        raise UsageError("--csv and --export both write the answer, and --sql answers once: give one of them")
    if csv is not None or export is not None:
        rows = islice(answer.rows, limit)
        if csv is not None:
            count = write_csv(csv, answer.columns, rows)
        else:
            count = export_table(str(export), answer.columns, rows, lambda: answer.to_arrow(limit))
        note(f"{count} rows written to {csv or export}")
        if json:
            print_json({"columns": answer.columns, "count": count, "csv" if csv else "export": csv or export})
        return
    if json:
        print_json([dict(zip(answer.columns, map(plain, row), strict=True)) for row in islice(answer.rows, limit)])
        return
    table = Table(*answer.columns)
    most = SHOWN if limit is None else limit
    for row in islice(answer.rows, most):
        table.add_row(*("" if value is None else str(value) for value in row))
    print_table(table)
    if next(answer.rows, None) is not None:
        note(f"only the first {most} rows are shown; --limit shows more, --csv and --json have all")


def plain(value: Any) -> Any:
    """Return a value of DuckDB as JSON has it: what JSON lacks as text, what is not finite as None.

    >>> from datetime import date
    >>> plain({"day": date(2025, 1, 2), "rates": [0.5, float("nan")]})
    {'day': '2025-01-02', 'rates': [0.5, None]}
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(map(plain, value))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
