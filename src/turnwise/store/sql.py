"""A user's own SQL over the copy of the scores: one question, nothing changed, no file read."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turnwise.errors import UsageError
from turnwise.store.mirror import AsksTables

if TYPE_CHECKING:
    import pyarrow
    from duckdb import DuckDBPyConnection

_PAGE = 10_000


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """What a question in SQL gave.

    Args:
        columns: names of the columns.
        rows: the rows, a few thousand in memory at a time; can be read once.
        connection: what holds them.
    """

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]
    connection: DuckDBPyConnection

    def to_arrow(self, limit: int | None = None) -> pyarrow.Table:
        """Return the rows that were not read yet as a table of pyarrow.

        Args:
            limit: how many at most; all by default.

        Raises:
            UsageError: pyarrow is not installed, or a value can't be reckoned.
        """
        import duckdb

        from turnwise.store.query import need

        need("pyarrow", "to_arrow()")
        try:
            with warnings.catch_warnings():
                # DuckDB advises against it, for a copy of the rows; the way without would ask a second time.
                warnings.simplefilter("ignore", UserWarning)
                table: Any = self.connection.to_arrow_table()
                return table.slice(0, limit)
        except duckdb.Error as error:
            raise UsageError(f"the SQL query failed: {error}") from error


def ask(mirror: AsksTables, statement: str) -> SqlAnswer:
    """Ask a question in DuckDB's SQL; docs/sql.md lists the tables.

    The tables are a copy in memory. The statement runs in a read-only transaction, and can reach neither files nor
    the network nor settings.

    Args:
        mirror: the copy.
        statement: one statement that gives rows: SELECT, WITH, DESCRIBE ...

    Raises:
        UsageError: it is no such statement, or DuckDB can't make sense of it.
        StoreError: the record can't be read.
    """
    import duckdb

    try:
        statement.encode()
    except UnicodeEncodeError as error:
        raise UsageError("--sql contains an unpaired surrogate, which is not valid Unicode") from error
    with mirror.tables() as connection:
        try:
            statements = connection.extract_statements(statement)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise UsageError("--sql takes one statement that asks, such as SELECT ... or DESCRIBE evaluations")
            connection.execute("BEGIN TRANSACTION READ ONLY")
            connection.execute(statement)
        except duckdb.Error as error:
            raise UsageError(f"the SQL query failed: {error}") from error
        description = connection.description or []
    return SqlAnswer(tuple(str(column[0]) for column in description), _paged(connection), connection)


def _paged(connection: Any) -> Iterator[tuple[Any, ...]]:
    import duckdb

    try:
        while page := connection.fetchmany(_PAGE):
            yield from page
    except duckdb.Error as error:  # a value that can't be reckoned shows where its row is reached
        raise UsageError(f"the SQL query failed: {error}") from error
