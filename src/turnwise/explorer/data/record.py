"""The record as the explorer reads it: the store, and the DuckDB mirror with what the metadata say beside it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from turnwise._support.visible import visible
from turnwise.explorer.data.named_sources import Named
from turnwise.patterns import Library, default_library, load_patterns
from turnwise.runs.flips import fact, read_object
from turnwise.store import Store
from turnwise.store.runs import Run

if TYPE_CHECKING:
    import numpy as np
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

FACTS: Final = ("category", "tactic")
"""Keys of the metadata that the explorer sorts and filters by."""

_PAGE = 50_000
"""Sequences whose metadata are in memory at once."""

_LATEST_SECONDS: Final = 2.0
"""How long the latest run is taken for the latest."""


class Record:
    """A store that is looked at, by several threads at once. Only what people say of it is written to it.

    `patterns` is a YAML file of the user's own named patterns, which need not be there yet.
    """

    def __init__(
        self, store: Store, name: str | None = None, patterns: Path | None = None, named: Named | None = None
    ) -> None:
        self.store = store
        self.named = Named(store) if named is None else named
        self.where = visible(store.location)
        self.name = name or Path(store.location).name
        self.patterns = patterns
        self._latest: tuple[float, str | None] | None = None

    def library(self) -> Library:
        """The named patterns that there are, with those of the user's file as it is now."""
        if self.patterns is None or not self.patterns.exists():
            return default_library()
        return load_patterns(self.patterns)

    def runs(self) -> tuple[Run, ...]:
        """All runs, oldest first."""
        return self.store.runs()

    def latest_run(self) -> str | None:
        """The run that was started last of those that nobody is writing; else the last, and None if there is none.

        It is looked for anew every few seconds.
        """
        at = time.monotonic()
        if self._latest is None or at - self._latest[0] > _LATEST_SECONDS:
            names = [run.name for run in reversed(self.runs())]
            finished = (name for name in names if not self.store.is_being_written(name))
            self._latest = at, next(finished, names[0] if names else None)
        return self._latest[1]

    def newest_evaluation(self) -> int:
        """The row number of the last score; it grows with every one."""
        return self.store.source.newest().evaluations

    def newest_sequence(self) -> int:
        """The row number of the last sequence; it grows with every one."""
        return self.store.source.newest().sequences

    def scored_sequences(self, run: str) -> int:
        """How many sequences have a score in a run."""
        query = (
            "SELECT count(DISTINCT sequence) FROM copied.evaluations JOIN copied.runs USING (run) WHERE name = ?"
        )
        with self.tables() as tables:
            [[found]] = tables.execute(query, [run]).fetchall()
        return int(found)

    def numbered(self, values: Mapping[str, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers by the id of a sequence as two arrays: row numbers of the sequences, and the numbers."""
        import numpy as np

        with self.tables() as tables:
            given = {"id": np.array(list(values), object), "value": np.array(list(values.values()), np.int64)}
            tables.register("given", given)
            found = tables.execute(
                "SELECT sequence, value FROM copied.sequences JOIN given ON sequence_id = id"
            ).fetchnumpy()
        return found["sequence"].astype("int64"), found["value"].astype("int64")

    @contextmanager
    def tables(self) -> Iterator[DuckDBPyConnection]:
        """Give a connection to the mirror, up to date.

        Beside the tables of docs/sql.md, and those in the schema ``copied`` with numbers for names, there is
        ``facts`` (sequence, category, tactic): what the metadata of a sequence say.
        """
        with self.store.mirror.tables() as connection:
            self._copy_facts(connection)
            yield connection

    def _copy_facts(self, connection: DuckDBPyConnection) -> None:
        """Bring the table of facts up to date; it lies in the mirror, so it is gone where that begins anew."""
        columns = ", ".join(f"{name} VARCHAR" for name in FACTS)
        import numpy as np

        connection.execute(f"CREATE TABLE IF NOT EXISTS facts (sequence BIGINT, {columns})")
        [[last]] = connection.execute("SELECT coalesce(max(sequence), 0) FROM facts").fetchall()
        [[newest]] = connection.execute("SELECT coalesce(max(sequence), 0) FROM copied.sequences").fetchall()
        while last < newest:
            found = [
                (key, read_object(value))
                for key, value in self.store.source.metadata(last, _PAGE)
                if key <= newest
            ]
            if not found:
                return
            made: dict[str, Any] = {"sequence": np.array([key for key, _ in found], np.int64)}
            for name in FACTS:
                made[name] = np.array([fact(metadata.get(name)) for _, metadata in found], object)
            connection.register("fresh_facts", made)
            connection.execute("INSERT INTO facts BY NAME SELECT * FROM fresh_facts")
            connection.unregister("fresh_facts")
            last = found[-1][0]
