"""Texts in SQL, and rows as files: Parquet, and cells of CSV that no spreadsheet takes for a formula."""

from __future__ import annotations

import glob
import json
import unicodedata
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from turnwise.errors import UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def quoted(text: str) -> str:
    """A text as SQL has it.

    >>> quoted("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def quoted_name(name: str) -> str:
    """The name of a column as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def file_name(name: str) -> str:
    """The name of a file, or its URL, for DuckDB's readers, which take names for patterns.

    >>> file_name("logs[1]/chats*.parquet")
    'logs[[]1]/chats[*].parquet'
    """
    return glob.escape(name)


def hide_progress_bar(database: DuckDBPyConnection) -> None:
    """Switch the progress bar off where it is on; without ipywidgets DuckDB refuses to be told so."""
    shown = database.execute("SELECT current_setting('enable_progress_bar')").fetchone()
    if shown is not None and shown[0]:
        database.execute("SET enable_progress_bar = false")


_FORMULA: Final = frozenset("=+-@")
"""What begins a formula, in any width, behind blanks and what does not show. Source: OWASP, "CSV Injection"."""


def cell(value: object) -> object:
    """A value as a cell that no spreadsheet takes for a formula.

    >>> cell("=HYPERLINK(A1)"), cell("\\u3000＝A1"), cell(-1.5), cell(None)
    ("'=HYPERLINK(A1)", "'\\u3000＝A1", -1.5, '')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        return value
    text = str(value).replace("\0", "\\0")
    first = next((one for one in text if not (one.isspace() or unicodedata.category(one) in ("Cc", "Cf"))), " ")
    is_formula = unicodedata.normalize("NFKC", first)[0] in _FORMULA or text.startswith(("\t", "\r", "\n"))
    return f"'{text}" if is_formula else text


def write_parquet(path: str | Path, columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows to a Parquet file, with DuckDB's types by name; the same rows give the same bytes."""
    import duckdb

    with TemporaryDirectory() as folder, duckdb.connect() as connection:
        connection.execute("SET threads = 1")  # several would divide the rows as it happens
        lines = Path(folder, "rows.jsonl")
        with lines.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(f"{json.dumps(row, ensure_ascii=False, allow_nan=False)}\n" for row in rows)
        types = ", ".join(f"'{name}': '{kind}'" for name, kind in columns.items())
        read = f"read_json(?, format='newline_delimited', columns={{{types}}}, maximum_object_size=268435456)"
        try:
            connection.execute(
                f"COPY (SELECT * FROM {read}) TO {quoted(str(path))} (FORMAT parquet)", [str(lines)]
            )
        except duckdb.Error as error:
            raise UsageError(f"can't write {path}: {str(error).splitlines()[0]}") from error
