"""Asking a pattern of every stored trajectory of a run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from turnwise.conversation import Label
from turnwise.errors import UnknownNameError, UsageError
from turnwise.patterns import Expression, Library, parse
from turnwise.patterns.sql import matches_sql
from turnwise.rates import Rate
from turnwise.store.mirror import Mirror

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from duckdb import DuckDBPyConnection


class When(StrEnum):
    """At which turn a pattern has to hold for a sequence to match."""

    EVER = "ever"
    """At some turn: what a live guard would have seen."""

    FINAL = "final"
    """At the last evaluated turn."""


@dataclass(frozen=True, slots=True)
class QueryMatch:
    """A sequence that matches.

    Args:
        sequence_id: its id.
        label: its ground truth.
        source: the data set that it comes from.
        turn: number of the first turn at which the pattern holds.
        final: whether it holds at the last evaluated turn.
    """

    sequence_id: str
    label: Label
    source: str
    turn: int
    final: bool


class QueryResult:
    """Which of the evaluated sequences match a pattern; the rows stay in DuckDB until they are asked for.

    Args:
        pattern: what was asked.
        run: of which run.
        when: at which turn it has to hold.
        connection: has the table ``found``.
        seconds: how long it took, bringing the copy of the scores up to date included.

    Attributes:
        rates: how many of how many evaluated sequences match, by (label, source).
    """

    def __init__(
        self, pattern: Expression, run: str, when: When, connection: DuckDBPyConnection, seconds: float
    ) -> None:
        self.pattern = pattern
        self.run = run
        self.when = when
        self.seconds = seconds
        self._connection = connection
        counted = connection.execute(
            "SELECT label, source, count(*) FILTER (matched), count(*) FROM found GROUP BY ALL ORDER BY ALL"
        ).fetchall()
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
        """Yield the sequences that match, in the order of import."""
        # All rows at once: a connection has one open result at a time, and two loops may run over this one.
        for sequence_id, label, source, turn, final in self._connection.execute(self._matches()).fetchall():
            yield QueryMatch(sequence_id, Label(label), source, turn, final)

    def arrow(self) -> pyarrow.Table:
        """Return the matches as a pyarrow table: sequence_id, label, source, turn, final.

        Raises:
            UsageError: pyarrow is not installed.
        """
        _need("pyarrow", "arrow()")
        return self._connection.sql(self._matches()).to_arrow_table()

    def pandas(self) -> pandas.DataFrame:
        """Return the matches as a data frame of pandas, with the columns of `arrow`.

        Raises:
            UsageError: pandas is not installed.
        """
        _need("pandas", "pandas()")
        return self._connection.sql(self._matches()).df()

    def polars(self) -> polars.DataFrame:
        """Return the matches as a data frame of Polars, with the columns of `arrow`.

        Raises:
            UsageError: polars or pyarrow is not installed.
        """
        _need("polars", "polars()")
        _need("pyarrow", "polars()")
        frame: polars.DataFrame = self._connection.sql(self._matches()).pl()
        return frame

    def _matches(self) -> str:
        return "SELECT sequence_id, label, source, turn, final FROM found WHERE matched ORDER BY sequence"


def read_when(text: str) -> When:
    """Return at which turn a pattern has to hold.

    Raises:
        UnknownNameError: neither "ever" nor "final".
    """
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
    patterns: Library | None = None,
) -> QueryResult:
    """Ask a pattern of every evaluated sequence of a run; see `Store.query`."""
    began = time.perf_counter()
    if isinstance(pattern, str):
        parse(pattern, patterns=patterns)  # a slip of the pen is told at once, before anything is copied
    with mirror.trajectories(run) as (connection, table, columns):
        if not columns.scored:
            raise UsageError(f"run {run!r} has no evaluation yet; turnwise evaluate --run {run} makes them")
        principles = {principle for principle, _ in columns.scored}
        read = parse(pattern, principles=principles, patterns=patterns) if isinstance(pattern, str) else pattern
        conditions: dict[str, Any] = {"label": None if label is None else str(label), "source": source}
        given = {name: value for name, value in conditions.items() if value is not None}
        if source is not None:
            _check_source(connection, source)
        wanted = " AND ".join(f"{name} = ${name}" for name in given) or "TRUE"
        some = f"(SELECT t.* FROM {table} t SEMI JOIN (FROM copied.sequences WHERE {wanted}) USING (sequence))"
        matched = "turn IS NOT NULL" if when is When.EVER else "final"
        connection.execute(
            "CREATE TEMP TABLE found AS SELECT sequence, sequence_id, label, source, m.turn, m.final, "
            f"{matched} AS matched FROM ({matches_sql(read, columns, some if given else table)}) m "
            "JOIN copied.sequences USING (sequence)",
            given,
        )
    return QueryResult(read, run, when, connection, time.perf_counter() - began)


def _check_source(connection: DuckDBPyConnection, source: str) -> None:
    known = [name for (name,) in connection.execute("SELECT DISTINCT source FROM copied.sequences").fetchall()]
    if source not in known:
        raise UnknownNameError("source", source, known)


def _added(rates: Iterable[Rate]) -> Rate:
    counted = [(rate.count, rate.of) for rate in rates]
    return Rate(sum(count for count, _ in counted), sum(of for _, of in counted))


def _need(package: str, what: str) -> None:
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise UsageError(f"{what} needs {package}: python -m pip install {package}")
