"""The record: sequences, runs, evaluations, failures and raw replies, in one SQLite file."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from turnwise.conversation import Label
from turnwise.store import schema
from turnwise.store.scores import StoredScores

if TYPE_CHECKING:
    from turnwise.patterns import Expression, Library
    from turnwise.store.mirror import Mirror
    from turnwise.store.query import QueryResult


class Store(StoredScores):
    """The record of one or more data sets and runs.

    Appends are durable when they return. Several threads and processes may use a store at once. Its `journal`
    keeps the replies of language models, and finds them again.

    Args:
        location: a file, or ``sqlite:///file``.
        create: make the file where there is none; else a missing file is an error.
        clock: gives the times that are recorded.
        busy_seconds: how long to wait for another process that writes.

    Raises:
        StoreError: no such store, or it can't be opened; see its kinds in `turnwise.errors`.
        UsageError: a URL that is no SQLite file.
    """

    def close(self) -> None:
        """Write what is pending and let go of the file."""
        if "mirror" in vars(self):
            self.mirror.close()
        super().close()

    def counts(self) -> dict[str, int]:
        """Return how many sequences, turns, runs, evaluations and failures the store holds."""
        tables = (schema.sequences, schema.turns, schema.runs, schema.evaluations, schema.failures)
        return {
            table.name: self._read(select(func.count().label("n")).select_from(table))[0]["n"] for table in tables
        }

    @cached_property
    def mirror(self) -> Mirror:
        """The copy of the scores that questions are asked of, made at the first one."""
        from turnwise.store.mirror import Mirror

        return Mirror(self._engine, self.path)

    def query(
        self,
        pattern: Expression | str,
        run: str | None = None,
        *,
        when: str = "ever",
        label: Label | None = None,
        source: str | None = None,
        where: str | None = None,
        patterns: Library | None = None,
    ) -> QueryResult:
        """Return which sequences match a pattern, as rows, or as a table of pandas, Polars or pyarrow.

        Args:
            pattern: a condition of the pattern language, as text or as a tree; docs/patterns.md says what it
                may say.
            run: whose evaluations; the only run by default.
            when: "ever" where it has to hold at some turn, "final" where at the last evaluated one.
            label: only sequences with this ground truth.
            source: only sequences of this data set.
            where: only sequences for which this holds, such as ``'turns >= 5 and metadata.tactic = "x"'``; see
                `turnwise.store.where`.
            patterns: the named patterns that there are; by default those that ship and those of installed
                packages.

        Raises:
            PatternError: the pattern or `where` can't be read, or the pattern is no condition.
            UnknownNameError: no such run, source or principle, or `when` is neither.
            NotScoredError: the run has no score of something that the pattern reads.
            UsageError: no run is named where there are several, or the run has no evaluations.
        """
        from turnwise.store.query import query, read_when

        if run is None:
            run = self.only_run()
        return query(
            self.mirror,
            pattern,
            run,
            when=read_when(when),
            label=label,
            source=source,
            where=where,
            patterns=patterns,
        )
