"""An export as Parquet: a file for each table, keys as in the store, times as timestamps, JSON as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Table

from turnwise._support.batches import batched
from turnwise._support.bounded import is_too_deep
from turnwise._support.sql_text import file_name, quoted
from turnwise.errors import StoreError
from turnwise.store.progress_bar import hide_progress_bar
from turnwise.store.transfer.snapshot import Snapshot
from turnwise.store.transfer.tables import TABLES, Kind, Progress, Row, kind_of, time_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TYPES = {
    Kind.WHOLE: "BIGINT",
    Kind.NUMBER: "DOUBLE",
    Kind.TRUTH: "BOOLEAN",
    Kind.TIME: "TIMESTAMPTZ",
    Kind.JSON: "VARCHAR",
    Kind.TEXT: "VARCHAR",
}

_ROW_GROUP = 8192
"""Rows that a file holds together, and so what is in memory at once."""

_INSERTED = 4000
"""Rows that DuckDB is given at once."""

_FETCHED = 500
"""Rows that are taken from DuckDB at once."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def write(folder: Path, record: Snapshot, progress: Progress) -> dict[str, int]:
    """Write all tables, and return how many rows each file has."""
    with TemporaryDirectory(dir=folder) as spool, _opened(str(Path(spool, "rows.duckdb")), folder) as database:
        return {
            f"{table.name}.parquet": _write_table(folder, record, database, table, progress) for table in TABLES
        }


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


def _write_table(
    folder: Path, record: Snapshot, database: DuckDBPyConnection, table: Table, progress: Progress
) -> int:
    columns = list(table.columns)
    types = ", ".join(f'"{column.name}" {_TYPES[kind_of(column)]}' for column in columns)
    database.execute(f"CREATE TABLE {table.name} ({types})")
    count = 0
    for rows in batched(chain.from_iterable(record.pages(table)), _INSERTED):
        _insert(database, table.name, columns, rows)
        count += len(rows)
    target = quoted(str(folder / f"{table.name}.parquet"))
    database.execute(f"COPY {table.name} TO {target} (FORMAT parquet, ROW_GROUP_SIZE {_ROW_GROUP})")
    database.execute(f"DROP TABLE {table.name}")
    progress(table.name, count)
    return count


def _insert(database: DuckDBPyConnection, table: str, columns: Sequence[Column[Any]], rows: Sequence[Row]) -> None:
    import numpy as np

    fresh: dict[str, Any] = {}
    for column in columns:
        values = [row[column.name] for row in rows]
        kind = kind_of(column)
        if kind is Kind.WHOLE and not column.nullable:
            fresh[column.name] = np.array(values, np.int64)
        elif kind is Kind.NUMBER and not column.nullable:
            fresh[column.name] = np.array(values, np.float64)
        else:  # as text, which is exact and has a place for nothing
            text = _TEXT.get(kind, str)
            texts = np.empty(len(values), object)
            texts[:] = [None if value is None and kind is not Kind.JSON else text(value) for value in values]
            fresh[column.name] = texts
    casts = ", ".join(f'CAST("{column.name}" AS {_TYPES[kind_of(column)]})' for column in columns)
    database.register("fresh", fresh)
    try:
        database.execute(f"INSERT INTO {table} SELECT {casts} FROM fresh")
    finally:
        database.unregister("fresh")


_TEXT: dict[Kind, Any] = {Kind.NUMBER: repr, Kind.TIME: time_text, Kind.JSON: json.dumps}


def read(path: Path, table: Table) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file; ValueError, which does not say where, for a value that its column can't hold."""
    kinds = {column.name: kind_of(column) for column in table.columns}
    with _opened(":memory:", path) as database:
        file = [file_name(str(path))]
        found = database.execute("SELECT * FROM read_parquet(?) LIMIT 0", file).description or []
        there = [str(column[0]) for column in found]
        unquoted = (name.replace('"', '""') for name in there)
        names = ", ".join(
            f'epoch_us("{name}") AS "{name}"' if kinds.get(name) is Kind.TIME else f'"{name}"' for name in unquoted
        )
        rows = database.execute(f"SELECT {names} FROM read_parquet(?)", file)
        while page := rows.fetchmany(_FETCHED):
            for values in page:
                row = dict(zip(there, values, strict=True))
                for name, value in row.items():
                    kind = kinds.get(name)
                    if kind is Kind.TIME and value is not None:
                        row[name] = _EPOCH + value * _MICROSECOND
                    elif kind is Kind.JSON:
                        row[name] = _json(value, name)
                yield row


def _json(text: Any, name: str) -> Any:
    if not isinstance(text, str) or is_too_deep(text.encode()):
        raise ValueError(f"{name} is not JSON, or is nested too deep")
    return json.loads(text)
