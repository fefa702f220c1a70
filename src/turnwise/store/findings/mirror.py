"""Findings as the tables that questions are asked of: their index, and their Parquet files themselves."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from turnwise._support.sql_text import file_name, quoted
from turnwise.errors import UnknownNameError, UsageError
from turnwise.findings import SCORES, SEQUENCES, STAGE_COLUMNS, TURNS
from turnwise.patterns.sql import Columns
from turnwise.store.damage import intact
from turnwise.store.findings.files import FoundFiles
from turnwise.store.findings.index import NAME, Index
from turnwise.store.mirror import MAKE_REVIEWS, VIEWS, copy_reviews
from turnwise.store.people import Review
from turnwise.store.runs import Run
from turnwise.store.where import FIELDS, Labels, Row, parse_where

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TRAJECTORIES = f"{NAME}.trajectories"


class FoundMirror:
    """The tables of docs/sql.md over findings, and ``findings``: what the detector said. Threads take turns."""

    def __init__(self, files: FoundFiles, index: Index, run: Run, reviews: Callable[[], Sequence[Review]]) -> None:
        self._reviews = reviews
        self._files = files
        self._index = index
        self._run = run
        self._lock = threading.RLock()
        self._database: DuckDBPyConnection | None = None

    def close(self) -> None:
        """Let go of the tables."""
        with self._lock:
            self._database = None

    @contextmanager
    def trajectories(
        self, run: str, others: Collection[str] = ()
    ) -> Iterator[tuple[DuckDBPyConnection, str, Columns]]:
        """Give the table of the run; UnknownNameError for another run than that of the scan."""
        for name in (run, *others):
            if name != self._run.name:
                raise UnknownNameError("run", name, [self._run.name])
        with self._lock, self._files.translated():
            connection = self._opened().cursor()
            columns = Columns(self._index.scored)
            joined = columns.with_others(dict.fromkeys(others, columns))
            yield connection, joined.joined_sql(_TRAJECTORIES, [_TRAJECTORIES] * len(others)), joined

    @contextmanager
    def tables(self) -> Iterator[DuckDBPyConnection]:
        """Give a connection to the tables."""
        with self._lock:
            with self._files.translated():
                connection = self._opened().cursor()
                copy_reviews(connection, self._reviews())
            yield connection

    def chosen(self, where: str, run: str, labels: Labels) -> list[int]:
        """The row numbers of the sequences for which a condition holds; see `Mirror.chosen`."""
        with self.tables() as connection, self._files.translated():
            condition = parse_where(where, self._known_names)
            by_id = {"id"} if labels or condition.by_id else set()
            wanted = [name for name in FIELDS if name in (condition.fields | by_id) - {"status", "assignee"}]
            columns = {
                "id": "sequence_id", "label": "label", "source": "source", "turns": "turns",
                "chars": "p.chars", "response_chars": "p.response_chars", "cost": "NULL", "metadata": "metadata",
            }  # fmt: skip
            joins = ""
            if "metadata" in wanted:
                joins += " JOIN copied.found USING (sequence)"
            if {"chars", "response_chars"} & condition.fields:
                self._register_lengths(connection)
                joins += " JOIN lengths p USING (sequence)"
            # What is equal for many sequences is tried once.
            read = ", ".join(f"{columns[name]} AS {quoted_name(name)}" for name in wanted)
            found = connection.execute(
                f"SELECT list(sequence), {read or 'NULL'} FROM copied.sequences{joins} GROUP BY ALL"
            )

            def rows() -> Iterator[tuple[list[int], Row]]:
                while page := found.fetchmany(10_000):
                    for sequences, *values in page:
                        row = dict(zip(wanted, values, strict=False))
                        if "metadata" in row:
                            row["metadata"] = json.loads(row["metadata"] or "{}")
                        yield sequences, row

            with intact(self._files.where, "the metadata of a sequence"):
                return condition.chosen(rows(), labels, self._reviews() if condition.by_id else ())

    def _register_lengths(self, connection: DuckDBPyConnection) -> None:
        """Give a connection the table ``lengths``: characters of all prompts and responses of a sequence."""
        import numpy as np

        if not self._files.has_texts:
            raise UsageError(f"--where chars needs texts, which {self._files.where} lacks: scan with texts")
        rows = self._files.read(
            "SELECT key + 1, sum(length(prompt))::BIGINT, coalesce(sum(length(response)), 0)::BIGINT "
            f"FROM {self._files.table(TURNS)} GROUP BY key"
        )
        columns = np.array(rows, np.int64).reshape(-1, 3).T
        connection.register("lengths", dict(zip(("sequence", "chars", "response_chars"), columns, strict=True)))

    def _known_names(self, what: str) -> Collection[str]:
        with self.tables() as connection:
            if what == "source":
                query = "SELECT DISTINCT source FROM copied.sequences"
            else:
                query = "SELECT DISTINCT unnest(json_keys(metadata)) FROM copied.found WHERE metadata IS NOT NULL"
            return {str(name) for (name,) in connection.execute(query).fetchall()}

    def _opened(self) -> DuckDBPyConnection:
        if self._database is None:
            import duckdb

            path = self._index.ready()
            database = self._files.prepared(duckdb.connect(":memory:"))
            database.execute(f"ATTACH {quoted(str(path))} AS {NAME} (READ_ONLY)")
            for statement in self._statements():
                database.execute(statement)
            self._database = database
        return self._database

    def _statements(self) -> Iterator[str]:
        """Yield what makes the tables; the only files that can be read afterwards are those of the findings."""
        files = self._files
        scores, found = f"{NAME}.scores", f"{NAME}.found"
        if not files.remote:
            scores, found = files.table(SCORES), files.table(SEQUENCES)
            own = [one.name for name in (SCORES, SEQUENCES) for one in files.findings.files(name)]
            places = dict.fromkeys([*own, *map(file_name, own)])  # both are asked for
            yield f"SET allowed_paths = [{', '.join(map(quoted, places))}]"
        yield "SET temp_directory = ''"
        yield "SET enable_external_access = false"
        yield "SET lock_configuration = true"
        yield "CREATE SCHEMA copied"
        yield f"CREATE VIEW copied.sequences AS FROM {NAME}.sequences"
        run = self._run
        told = ", ".join(map(quoted, (run.name, run.observer, run.observer_version, run.context)))
        yield (
            "CREATE TABLE copied.runs AS SELECT * FROM "
            f"(VALUES (1, {told})) v(run, name, observer, observer_version, context)"
        )
        yield "CREATE TABLE copied.principles (principle INTEGER, name VARCHAR)"
        for number, name in enumerate(files.principles):
            yield f"INSERT INTO copied.principles VALUES ({number}, {quoted(name)})"
        names = ", ".join(map(quoted, files.principles))
        yield (
            "CREATE VIEW copied.evaluations AS SELECT 1 AS run, key + 1 AS sequence, turn, "
            f"list_position([{names}]::VARCHAR[], principle) - 1 AS principle, side = 'response' AS response, "
            "CASE WHEN side = 'prompt' THEN chars END AS prompt_chars, "
            f"CASE WHEN side = 'response' THEN chars END AS response_chars, T, I, F FROM {scores}"
        )
        yield (
            "CREATE VIEW copied.found AS SELECT key + 1 AS sequence, file, row, scored, fired, "
            f"flag_turn, peak, digest, metadata FROM {found}"
        )
        yield MAKE_REVIEWS
        yield from VIEWS[:2]
        yield (
            f"CREATE VIEW evaluations AS SELECT {quoted(run.name)} AS run, s.sequence_id, s.label, s.source, "
            f"e.turn, e.side, e.principle, e.T, e.I, e.F, e.chars FROM {scores} e JOIN {NAME}.sequences s "
            "ON s.sequence = e.key + 1"
        )
        if files.manifest.has_stages:
            more = ", ".join(f"e.{name}" for name in STAGE_COLUMNS)
            yield (
                f"CREATE VIEW second_looks AS SELECT s.sequence_id, e.turn, e.side, e.principle, {more} "
                f"FROM {scores} e JOIN {NAME}.sequences s ON s.sequence = e.key + 1"
            )
        yield (
            "CREATE VIEW findings AS SELECT sequence_id, label, source, turns, scored, fired, "
            "flag_turn, peak, file, row, metadata FROM copied.sequences JOIN copied.found USING (sequence)"
        )


def quoted_name(name: str) -> str:
    """The name of a column as SQL has it."""
    return '"' + name.replace('"', '""') + '"'
