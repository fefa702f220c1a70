"""Parquet files: rows as JSON texts, streamed through DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from turnwise._support.locations import filesystem, is_url
from turnwise._support.table_files import file_name
from turnwise.errors import DatasetError

_ROWS_AT_ONCE = 128
"""Rows that are held at a time; one conversation can be long, so few of them."""


def parquet_lines(path: str, rows: tuple[int, int] | None = None) -> Iterator[str]:
    """Yield the rows of a Parquet file as JSON texts, in order.

    As JSON, dates, decimals and nested structures need no further package to convert them. The file is streamed:
    memory depends on the size of its row groups, not on its length. ``rows`` is the first row, from 0, and the
    first no longer wanted; only row groups with wanted rows are read.
    """
    query = "SELECT to_json(t)::VARCHAR FROM read_parquet(?) t"
    if rows is not None:
        query = (
            "SELECT to_json(t)::VARCHAR FROM (SELECT * EXCLUDE (file_row_number) "
            "FROM read_parquet(?, file_row_number = true) WHERE file_row_number >= ? AND file_row_number < ?) t"
        )
    for (row,) in _ask(path, query, *(rows or ())):
        yield row


def parquet_groups(path: str) -> list[tuple[int, int]]:
    """Return rows and unpacked bytes of each row group of a Parquet file, in order."""
    query = (
        "SELECT any_value(row_group_num_rows), any_value(row_group_bytes) FROM parquet_metadata(?) "
        "GROUP BY row_group_id ORDER BY row_group_id"
    )
    return [(int(rows), int(size)) for rows, size in _ask(path, query)]


def _ask(path: str, query: str, *values: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query whose first parameter is the path of the Parquet file."""
    import duckdb

    # One thread: more of them read ahead, and hold a row group each.
    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1,
        "autoinstall_known_extensions": False,
    }
    with duckdb.connect(config=settings) as connection:
        if is_url(path):
            connection.register_filesystem(filesystem(path.partition("://")[0]))
        try:
            rows = connection.execute(query, [file_name(path), *values])
            while batch := rows.fetchmany(_ROWS_AT_ONCE):
                yield from batch
        except (duckdb.Error, OSError) as error:
            raise DatasetError(f"{path} can't be read as Parquet: {str(error).splitlines()[0]}") from error
