"""A user's own SQL over the copy of the scores: one question, nothing changed, no file read, a time limit."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from turnwise.errors import UsageError
from turnwise.store.source import Mirror

if TYPE_CHECKING:
    import pyarrow
    from duckdb import DuckDBPyConnection

_PAGE = 10_000

Found = TypeVar("Found")


class _Limit:
    """The time that a question has left; what its reader does between pages does not count."""

    def __init__(self, connection: DuckDBPyConnection, seconds: float) -> None:
        self._connection = connection
        self._seconds = self._left = seconds

    def within(self, step: Callable[[], Found]) -> Found:
        """Run a step of the question; UsageError where DuckDB can't, or there is no time left."""
        import duckdb

        began = time.perf_counter()
        timer = threading.Timer(max(self._left, 0.0), self._connection.interrupt)
        timer.daemon = True
        timer.start()
        try:
            return step()
        except duckdb.InterruptException as error:
            raise UsageError(
                f"the SQL query was stopped after {self._seconds:g} s: ask for less, or give more with --timeout"
            ) from error
        except duckdb.Error as error:  # a value that can't be reckoned shows where its row is reached
            raise UsageError(f"the SQL query failed: {error}; check the statement") from error
        finally:
            timer.cancel()
            timer.join()  # else it may be the last to hold the connection, and close it while the process ends
            self._left -= time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """What a question in SQL gave; `rows` can be read once, and hold a few thousand in memory at a time."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]
    connection: DuckDBPyConnection
    limit: _Limit

    def to_arrow(self, limit: int | None = None) -> pyarrow.Table:
        """The rows not read yet, at most `limit`, as a pyarrow table; UsageError without pyarrow or time left."""
        from turnwise.store.query import need

        need("pyarrow", "to_arrow()")
        with warnings.catch_warnings():
            # DuckDB advises against it, for a copy of the rows; the way without would ask a second time.
            warnings.simplefilter("ignore", UserWarning)
            table: Any = self.limit.within(self.connection.to_arrow_table)
            return table.slice(0, limit)


def ask(mirror: Mirror, statement: str, seconds: float = 60.0) -> SqlAnswer:
    """Ask one question in DuckDB's SQL, such as SELECT, WITH or DESCRIBE; docs/sql.md lists the tables.

    The tables are a copy in memory. The statement runs in a read-only transaction, and can reach neither files nor
    the network nor settings. It may take so many `seconds`, without the time to bring the copy up to date.
    """
    import duckdb

    try:
        statement.encode()
    except UnicodeEncodeError as error:
        raise UsageError("--sql has half of a surrogate pair, which is no Unicode text; remove it") from error
    with mirror.tables() as connection:
        limit = _Limit(connection, seconds)
        statements = limit.within(lambda: connection.extract_statements(statement))
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise UsageError("--sql takes one statement that asks, such as SELECT ... or DESCRIBE evaluations")
        connection.execute("BEGIN TRANSACTION READ ONLY")
        limit.within(lambda: connection.execute(statement))
        description = connection.description or []
    columns = tuple(str(column[0]) for column in description)
    return SqlAnswer(columns, _paged(connection, limit), connection, limit)


def _paged(connection: Any, limit: _Limit) -> Iterator[tuple[Any, ...]]:
    while page := limit.within(lambda: connection.fetchmany(_PAGE)):
        yield from page
