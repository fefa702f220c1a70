"""Questions over every stored trajectory of a run: a pattern, or a statement of SQL."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from turnwise._support.notebook import ROWS, html_table
from turnwise.conversation import Label
from turnwise.errors import NotScoredError, UnknownNameError, UsageError
from turnwise.patterns import Expression, Library, parse
from turnwise.patterns.series import Length, OtherRun, Series
from turnwise.patterns.sql import Columns, matches_sql
from turnwise.rates import Rate
from turnwise.store.source import Mirror

if TYPE_CHECKING:
    import numpy as np
    import pandas
    import polars
    import pyarrow
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

COLUMNS = ("sequence_id", "label", "source", "turns", "turn", "final")
"""Columns of the matches, wherever they go: attributes of `QueryMatch`."""


class When(StrEnum):
    """At which turn a pattern has to hold for a sequence to match."""

    EVER = "ever"
    """At some turn: what a live guard would have seen."""

    FINAL = "final"
    """At the last evaluated turn."""


@dataclass(frozen=True, slots=True)
class QueryMatch:
    """A sequence that matches, with its number of turns.

    `turn` is the number of the first turn at which the pattern holds; `final` tells whether it holds at the last
    evaluated turn.
    """

    sequence_id: str
    label: Label
    source: str
    turns: int
    turn: int
    final: bool

    def to_dict(self) -> dict[str, Any]:
        """The match as plain values."""
        return {**asdict(self), "label": str(self.label)}


class QueryResult:
    """Which of the evaluated sequences match a pattern; the rows stay in DuckDB until they are asked for.

    `rates` says how many of how many evaluated sequences match, by (label, source). Of these sequences `corrected`
    have another label than the imported one, as people corrected it, and `not_scored` have no score at all of
    something that the pattern reads; `disputed` more are left out because these people disagree. `seconds` include
    bringing the copy of the scores up to date. `connection` has the table ``found``.
    """

    def __init__(
        self,
        pattern: Expression,
        run: str,
        when: When,
        connection: DuckDBPyConnection,
        seconds: float,
        corrected: int = 0,
        disputed: int = 0,
    ) -> None:
        self.pattern = pattern
        self.run = run
        self.when = when
        self.seconds = seconds
        self.corrected = corrected
        self.disputed = disputed
        self._connection = connection
        counted = connection.execute(
            "SELECT label, source, count(*) FILTER (matched), count(*) FROM found GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        [[self.not_scored]] = connection.execute("SELECT count(*) FILTER (NOT scored) FROM found").fetchall()
        self.rates = {(Label(label), str(source)): Rate(count, of) for label, source, count, of in counted}

    @property
    def rate(self) -> Rate:
        """How many of how many evaluated sequences match."""
        return _added(self.rates.values())

    @property
    def by_label(self) -> dict[Label, Rate]:
        """How many of how many match, by ground truth."""
        labels = sorted({label for label, _ in self.rates})
        return {label: _added(self.rates[key] for key in self.rates if key[0] is label) for label in labels}

    @property
    def by_source(self) -> dict[str, Rate]:
        """How many of how many match, by the data set that they come from."""
        sources = sorted({source for _, source in self.rates})
        return {source: _added(self.rates[key] for key in self.rates if key[1] == source) for source in sources}

    def __len__(self) -> int:
        return self.rate.count

    def __iter__(self) -> Iterator[QueryMatch]:
        """In the order of import."""
        return self._read(self._matches())

    def first(self, most: int) -> list[QueryMatch]:
        """The first sequences that match, in the order of import, at most so many."""
        return list(self._read(f"{self._matches()} LIMIT {most}"))

    def _read(self, query: str) -> Iterator[QueryMatch]:
        # All rows at once: a connection has one open result at a time, and two loops may run over this one.
        for sequence_id, label, *rest in self._connection.execute(query).fetchall():
            yield QueryMatch(sequence_id, Label(label), *rest)

    def __repr__(self) -> str:
        return f"<QueryResult of {self.pattern} in run {self.run}: {self.rate}>"

    def _repr_html_(self) -> str:
        title = f"{self.pattern}, run {self.run}: {self.rate} of the evaluated sequences match"
        rows = self._connection.execute(f"{self._matches()} LIMIT {ROWS}").fetchall()
        return html_table(title, COLUMNS, rows, total=len(self))

    def to_frame(self) -> pandas.DataFrame:
        """The matches as a pandas data frame with the columns `COLUMNS`; UsageError without pandas."""
        need("pandas", "to_frame()")
        return self._connection.sql(self._matches()).df()

    def to_polars(self) -> polars.DataFrame:
        """The matches as a Polars data frame with the columns `COLUMNS`; UsageError without polars or pyarrow."""
        need("polars", "to_polars()")
        need("pyarrow", "to_polars()")
        frame: polars.DataFrame = self._connection.sql(self._matches()).pl()
        return frame

    def to_arrow(self) -> pyarrow.Table:
        """The matches as a pyarrow table with the columns `COLUMNS`; UsageError without pyarrow."""
        need("pyarrow", "to_arrow()")
        return self._connection.sql(self._matches()).to_arrow_table()

    def first_turns(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The matches as two arrays: row numbers of sequences in the record, and first turns."""
        found = self._connection.sql("SELECT sequence, turn FROM found WHERE matched").fetchnumpy()
        return found["sequence"].astype("int64"), found["turn"].astype("int64")

    def _matches(self) -> str:
        return f"SELECT {', '.join(COLUMNS)} FROM found WHERE matched ORDER BY sequence"


def read_when(text: str) -> When:
    """At which turn a pattern has to hold; UnknownNameError for neither "ever" nor "final"."""
    if text not in tuple(When):
        raise UnknownNameError("time to hold", text, map(str, When))
    return When(text)


def query(
    mirror: Mirror,
    pattern: Expression | str,
    run: str,
    *,
    when: When = When.EVER,
    label: Label | None = None,
    source: str | None = None,
    where: str | None = None,
    patterns: Library | None = None,
    corrections: Mapping[str, Label | None] | None = None,
) -> QueryResult:
    began = time.perf_counter()
    # A slip of the pen is told at once, before anything is copied.
    known = parse(pattern, patterns=patterns) if isinstance(pattern, str) else pattern
    said = corrections or {}
    chosen = None if where is None else mirror.chosen(where, run, said)
    others = sorted({node.run for node in known.walk() if isinstance(node, OtherRun)})
    with mirror.trajectories(run, others) as (connection, table, columns):
        if not columns.scored:
            raise UsageError(f"run {run!r} has no evaluation yet; turnwise evaluate --run {run} makes them")
        principles = {principle for principle, _ in columns.scored}
        read = parse(pattern, principles=principles, patterns=patterns) if isinstance(pattern, str) else pattern
        matches = matches_sql(read, columns, "asked")
        _check_scored(read, run, columns)
        conditions: dict[str, Any] = {"label": None if label is None else str(label), "source": source}
        given = {name: value for name, value in conditions.items() if value is not None}
        if source is not None:
            _check_source(connection, source)
        wanted = " AND ".join(f"{name} = ${name}" for name in given) or "TRUE"
        if chosen is not None:
            connection.execute("CREATE TEMP TABLE wanted (sequence BIGINT)")
            connection.execute("INSERT INTO wanted SELECT unnest(?)", [chosen])
            wanted += " AND sequence IN (FROM wanted)"
        sequences, corrected, disputed = "copied.sequences", 0, 0
        if said:
            sequences = _corrected_sequences(connection, said)
            counts = "count(*) FILTER (label <> imported), count(*) FILTER (label IS NULL)"
            asked = f"SELECT {counts} FROM (FROM {table}) JOIN {sequences} USING (sequence) WHERE {wanted}"
            [(corrected, disputed)] = connection.execute(asked, given).fetchall()
            wanted += " AND label IS NOT NULL"
        some = f"(SELECT t.* FROM {table} t SEMI JOIN (FROM {sequences} WHERE {wanted}) USING (sequence))"
        matched = "turn IS NOT NULL" if when is When.EVER else "final"
        scored = columns.scored_sql([node for node in read.walk() if isinstance(node, Series | Length | OtherRun)])
        connection.execute(
            f"CREATE TEMP TABLE found AS WITH asked AS {some if wanted != 'TRUE' else f'(FROM {table})'} "
            f"SELECT sequence, sequence_id, label, source, turns, m.turn, m.final, {matched} AS matched, s.scored "
            f"FROM ({matches}) m JOIN (SELECT sequence, {scored} AS scored FROM asked) s USING (sequence) "
            f"JOIN {sequences} USING (sequence)",
            given,
        )
    return QueryResult(read, run, when, connection, time.perf_counter() - began, corrected, disputed)


def _corrected_sequences(connection: DuckDBPyConnection, said: Mapping[str, Label | None]) -> str:
    """Make a table of the sequences with the labels that people gave them, null for a dispute; return its name."""
    connection.execute("CREATE TEMP TABLE said (sequence_id VARCHAR, label VARCHAR)")
    labels = [None if label is None else str(label) for label in said.values()]
    connection.execute("INSERT INTO said SELECT unnest(?), unnest(?)", [list(said), labels])
    connection.execute(
        "CREATE TEMP TABLE corrected AS SELECT s.* REPLACE (CASE WHEN said.sequence_id IS NULL THEN s.label "
        "ELSE said.label END AS label), s.label AS imported "
        "FROM copied.sequences s LEFT JOIN said USING (sequence_id)"
    )
    return "corrected"


def _check_scored(pattern: Expression, run: str, columns: Columns) -> None:
    """Refuse a pattern that reads what nobody scored: an answer of 0 % would be about nothing."""
    for node in pattern.walk():
        if not isinstance(node, Series | Length | OtherRun) or columns.has(node):
            continue
        of, scored = (node.run, columns.others[node.run]) if isinstance(node, OtherRun) else (run, columns)
        told = [
            f"response.{name}.F" if side == "response" else f"{name}.F" for name, side in sorted(scored.scored)
        ]
        raise NotScoredError(
            f"{node} is not scored: run {of!r} has {', '.join(told) or 'no scores'}; turnwise evaluate --run {of} "
            "with --principle and --sides adds others"
        )


def _check_source(connection: DuckDBPyConnection, source: str) -> None:
    known = [name for (name,) in connection.execute("SELECT DISTINCT source FROM copied.sequences").fetchall()]
    if source not in known:
        raise UnknownNameError("source", source, known)


def _added(rates: Iterable[Rate]) -> Rate:
    counted = [(rate.count, rate.of) for rate in rates]
    return Rate(sum(count for count, _ in counted), sum(of for _, of in counted))


def need(package: str, what: str) -> None:
    """Refuse where a package that `what` needs is not installed."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise UsageError(f"{what} needs {package}: python -m pip install {package}")


_ROWS = 10_000

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
    while page := limit.within(lambda: connection.fetchmany(_ROWS)):
        yield from page
