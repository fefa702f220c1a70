"""The tables of findings, to be asked in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from turnwise.errors import FindingsError
from turnwise.findings import Findings
from turnwise.locations import filesystem
from turnwise.sql_text import file_name, quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@contextmanager
def open_tables(findings: Findings, *tables: str) -> Iterator[DuckDBPyConnection]:
    """Give a connection of DuckDB in which tables of findings are views, by their names.

    Args:
        findings: of a scan; the parts that are done count.
        tables: which ones, such as `turnwise.findings.SEQUENCES`.

    Raises:
        FindingsError: no part is done, a file is missing or damaged, or a question can't be answered.
    """
    import duckdb

    with duckdb.connect() as connection:
        try:
            of_tables = {table: findings.files(table) for table in tables}
            places = [file.name for files in of_tables.values() for file in files if file.is_url]
            for protocol in sorted({place.partition("://")[0] for place in places}):
                connection.register_filesystem(filesystem(protocol))
            for table, files in of_tables.items():
                if not files:
                    raise FindingsError(f"{findings.folder} holds no {table}: no part of the scan is done")
                names = ", ".join(quoted(file_name(file.name)) for file in files)
                connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet([{names}])")
            yield connection
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise FindingsError(f"can't read the findings in {findings.folder}: {reason}") from error
