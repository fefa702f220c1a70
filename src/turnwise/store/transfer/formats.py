"""The formats of an export that hold tables: JSON lines, CSV for spreadsheets, and Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Table

from turnwise._support.batches import batched
from turnwise._support.bounded import is_too_deep
from turnwise._support.table_files import cell, file_name, hide_progress_bar, quoted, quoted_name
from turnwise.errors import StoreError
from turnwise.store.transfer.snapshot import (
    TABLES,
    ColumnKind,
    Row,
    Snapshot,
    TellTable,
    json_values,
    kind_of,
    time_text,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def _write_tables(
    folder: Path, ending: str, progress: TellTable, write_table: Callable[[Path, Table], int]
) -> dict[str, int]:
    counts = {}
    for table in TABLES:
        name = f"{table.name}.{ending}"
        counts[name] = write_table(folder / name, table)
        progress(table.name, counts[name])
    return counts


def write_jsonl(folder: Path, record: Snapshot, progress: TellTable) -> dict[str, int]:
    """Write JSON lines: a line for each row, keys as in the store."""

    def write_table(path: Path, table: Table) -> int:
        count = 0
        with path.open("wb") as file:
            for row in chain.from_iterable(record.pages(table)):
                file.write(line(json_values(table, row), f"{record.name}, {table.name}"))
                count += 1
        return count

    return _write_tables(folder, "jsonl", progress, write_table)


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


def read_jsonl(path: Path, table: Table) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file; ValueError, which does not say where, for a line that is no JSON object."""
    with path.open("rb") as file:
        for text in file:
            if is_too_deep(text):
                raise ValueError("brackets are nested too deep")
            row = json.loads(text)
            if not isinstance(row, dict):
                raise ValueError(f"a {type(row).__name__}, not an object with keys")
            yield row


CSV_NOT_CARRIED = (
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


def write_csv(folder: Path, record: Snapshot, progress: TellTable) -> dict[str, int]:
    """Write CSV for spreadsheets, in which names stand beside keys."""

    def write_table(path: Path, table: Table) -> int:
        names = [name for key, some in _NAMES.items() if key in table.c for name in some]
        json_columns = {column.name for column in table.columns if kind_of(column) is ColumnKind.JSON}
        count = 0
        with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*names, *(column.name for column in table.columns)])
            for row in chain.from_iterable(record.pages(table, named=True)):
                values = json_values(table, row)
                values |= {name: json.dumps(values[name], ensure_ascii=False) for name in json_columns}
                writer.writerow([cell(value) for value in (*(row[name] for name in names), *values.values())])
                count += 1
        return count

    return _write_tables(folder, "csv", progress, write_table)


_TYPES = {
    ColumnKind.WHOLE: "BIGINT",
    ColumnKind.NUMBER: "DOUBLE",
    ColumnKind.TRUTH: "BOOLEAN",
    ColumnKind.TIME: "TIMESTAMPTZ",
    ColumnKind.JSON: "VARCHAR",
    ColumnKind.TEXT: "VARCHAR",
}

_ROW_GROUP = 8192
"""Rows that a file holds together, and so what is in memory at once."""

_INSERTED = 4000
"""Rows that DuckDB is given at once."""

_FETCHED = 500
"""Rows that are taken from DuckDB at once."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def write_parquet(folder: Path, record: Snapshot, progress: TellTable) -> dict[str, int]:
    """Write Parquet: keys as in the store, times as timestamps, JSON as text."""
    with TemporaryDirectory(dir=folder) as spool, _opened(str(Path(spool, "rows.duckdb")), folder) as database:

        def write_table(path: Path, table: Table) -> int:
            columns = list(table.columns)
            types = ", ".join(f'"{column.name}" {_TYPES[kind_of(column)]}' for column in columns)
            database.execute(f"CREATE TABLE {table.name} ({types})")
            count = 0
            for rows in batched(chain.from_iterable(record.pages(table)), _INSERTED):
                _insert(database, table.name, columns, rows)
                count += len(rows)
            options = f"FORMAT parquet, ROW_GROUP_SIZE {_ROW_GROUP}"
            database.execute(f"COPY {table.name} TO {quoted(str(path))} ({options})")
            database.execute(f"DROP TABLE {table.name}")
            return count

        return _write_tables(folder, "parquet", progress, write_table)


@contextmanager
def _opened(location: str, where: Path) -> Iterator[DuckDBPyConnection]:
    """Give a DuckDB database that keeps little in memory, and turn its errors about files into ours."""
    import duckdb

    try:
        with duckdb.connect(location) as database:
            database.execute("SET threads = 1")  # several would divide the rows as it happens
            database.execute("SET memory_limit = '512MB'")
            hide_progress_bar(database)
            yield database
    except duckdb.Error as error:
        raise StoreError(f"{where}: {str(error).splitlines()[0]}") from error


def _insert(database: DuckDBPyConnection, table: str, columns: Sequence[Column[Any]], rows: Sequence[Row]) -> None:
    import numpy as np

    fresh: dict[str, Any] = {}
    for column in columns:
        values = [row[column.name] for row in rows]
        kind = kind_of(column)
        if kind is ColumnKind.WHOLE and not column.nullable:
            fresh[column.name] = np.array(values, np.int64)
        elif kind is ColumnKind.NUMBER and not column.nullable:
            fresh[column.name] = np.array(values, np.float64)
        else:  # as text, which is exact and has a place for nothing
            text = _TEXT.get(kind, str)
            texts = np.empty(len(values), object)
            texts[:] = [None if value is None and kind is not ColumnKind.JSON else text(value) for value in values]
            fresh[column.name] = texts
    casts = ", ".join(f'CAST("{column.name}" AS {_TYPES[kind_of(column)]})' for column in columns)
    database.register("fresh", fresh)
    try:
        database.execute(f"INSERT INTO {table} SELECT {casts} FROM fresh")
    finally:
        database.unregister("fresh")


_TEXT: dict[ColumnKind, Any] = {ColumnKind.NUMBER: repr, ColumnKind.TIME: time_text, ColumnKind.JSON: json.dumps}


def read_parquet(path: Path, table: Table) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file; ValueError, which does not say where, for a value that its column can't hold."""
    kinds = {column.name: kind_of(column) for column in table.columns}
    with _opened(":memory:", path) as database:
        file = [file_name(str(path))]
        found = database.execute("SELECT * FROM read_parquet(?) LIMIT 0", file).description or []
        there = [str(column[0]) for column in found]
        names = ", ".join(
            f"epoch_us({quoted_name(name)}) AS {quoted_name(name)}"
            if kinds.get(name) is ColumnKind.TIME
            else quoted_name(name)
            for name in there
        )
        rows = database.execute(f"SELECT {names} FROM read_parquet(?)", file)
        while page := rows.fetchmany(_FETCHED):
            for values in page:
                row = dict(zip(there, values, strict=True))
                for name, value in row.items():
                    kind = kinds.get(name)
                    if kind is ColumnKind.TIME and value is not None:
                        row[name] = _EPOCH + value * _MICROSECOND
                    elif kind is ColumnKind.JSON:
                        row[name] = _json(value, name)
                yield row


def _json(text: Any, name: str) -> Any:
    if not isinstance(text, str) or is_too_deep(text.encode()):
        raise ValueError(f"{name} is not JSON, or is nested too deep")
    return json.loads(text)
