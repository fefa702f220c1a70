"""Findings as the tables that questions are asked of: an index of trajectories, and the Parquet files themselves.

A question reads all turns of a conversation at once, as lists; making them of rows of one score is most of the
work, and is done once. The index lies in the user's cache, never beside the findings: one that came with them
could say anything. It is made anew where parts were added or files changed, and all files are checked before that.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from turnwise._support.table_files import file_name, quoted, quoted_name
from turnwise._support.visible import shown
from turnwise.conversation import Label, Side
from turnwise.errors import StoreCorruptError, StoreError, UnknownNameError, UsageError
from turnwise.findings import MEND, SCORES, SEQUENCES, STAGE_COLUMNS, TURNS, PartEntry
from turnwise.patterns.sql import Columns
from turnwise.store.damaged_rows import intact
from turnwise.store.findings.files import FoundFiles, for_the_user
from turnwise.store.mirror import MAKE_REVIEWS, VIEWS, copy_reviews, turns_as_lists
from turnwise.store.people import Review
from turnwise.store.runs import Run
from turnwise.store.source import Mirror, TellScores
from turnwise.store.where import FIELDS, Labels, Row, parse_where

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FILE: Final = "index.duckdb"

NAME: Final = "found"
"""What the index is called in DuckDB once it is attached."""

_VERSION = 1
"""Of its tables; one of another version is made anew."""

_ROWS = 1_500_000
"""Scores that are turned into lists at once, at most, unless a part has more."""

_GROUP = 4_096
"""Rows of a group: what one thread takes at a time. Rows hold a conversation each."""

Triples = tuple[tuple[str, Side], ...]
"""Principle and side of every triple of columns of scores."""


class Index:
    """The index of findings; once it is there, `scored` says what its columns of scores are of."""

    def __init__(self, files: FoundFiles) -> None:
        self._files = files
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self.path: Path | None = None
        self.scored: Triples = ()

    def close(self) -> None:
        """Remove it where it is in a temporary folder."""
        self.path = None
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def remove(self) -> None:
        """Remove it, since it holds what the findings no longer have."""
        for path in self._places():
            path.unlink(missing_ok=True)
        self.close()

    def ready(self, progress: TellScores = lambda scores: None) -> Path:
        """The file, made now where there is none that fits; StoreError where there is no room for it."""
        if self.path is not None:
            return self.path
        places = list(self._places())
        for path in places:
            if self._fits(path):
                self.path = path
                return path
        reason = "no place"
        for path in places:
            try:
                self.scored = self._make(path, progress)
            except OSError as error:
                reason = f"{path}: {error.strerror or error}"
                continue
            self.path = path
            return path
        raise StoreError(f"the index of {self._files.where} can't be written ({reason}): make room, or set TMPDIR")

    def _places(self) -> Iterator[Path]:
        with contextlib.suppress(OSError):
            yield for_the_user(self._files.findings.folder, "cache", FILE)
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="turnwise-findings-")
        yield Path(self._temporary.name, FILE)

    def _fits(self, path: Path) -> bool:
        import duckdb

        if not path.is_file():
            return False
        try:
            with duckdb.connect(":memory:") as connection:
                connection.execute(f"ATTACH {quoted(str(path))} AS {NAME} (READ_ONLY)")
                [found] = connection.execute(f"SELECT version, digest, scored FROM {NAME}.made").fetchall()
        except (duckdb.Error, ValueError):  # another DuckDB's, damaged, or somebody else's file
            return False
        if found[:2] != (_VERSION, self._files.digest):
            return False
        self.scored = tuple((principle, Side(side)) for principle, side in json.loads(found[2]))
        return True

    def _make(self, path: Path, progress: TellScores) -> Triples:
        """Make the index under another name, and move it to its place; OSError where it can't be written there."""
        import duckdb

        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        partial.unlink(missing_ok=True)
        connection = self._files.prepared(duckdb.connect(":memory:"))
        try:
            try:
                connection.execute(f"ATTACH {quoted(str(partial))} AS {NAME} (ROW_GROUP_SIZE {_GROUP})")
            except duckdb.Error as error:
                raise OSError(str(error).splitlines()[0]) from error
            with self._files.translated():
                try:
                    scored = self._fill(connection, progress)
                    connection.execute(f"CHECKPOINT {NAME}")
                    connection.execute(f"DETACH {NAME}")
                except duckdb.IOException as error:
                    if "write" in str(error).lower() or "space" in str(error).lower():
                        raise OSError(str(error).splitlines()[0]) from error
                    raise
            partial.replace(path)
        finally:
            connection.close()
            partial.unlink(missing_ok=True)
        return scored

    def _fill(self, connection: DuckDBPyConnection, progress: TellScores) -> Triples:
        self._files.check(SCORES, SEQUENCES, TURNS)
        self._check_columns(connection)
        self._fill_sequences(connection)
        files = self._files
        pairs = connection.execute(f"SELECT DISTINCT principle, side FROM {files.table(SCORES)}").fetchall()
        known = {*files.principles, *Side}
        if strange := {value for pair in pairs for value in pair} - known:
            told = ", ".join(sorted(map(shown, strange)))
            raise files.damaged(f"a file has scores of {told}, which its manifest does not name")
        scored: Triples = tuple(sorted((name, Side(side)) for name, side in pairs))
        columns = ["turn", "prompt_chars", "response_chars"]
        columns += [f"{component}{place}" for place in range(len(scored)) for component in "TIF"]
        lists = ", ".join(f"{name} DOUBLE[]" for name in columns)
        connection.execute(f"CREATE TABLE {NAME}.trajectories (sequence BIGINT, {lists})")
        for parts in self._chunks():
            made = self._trajectories([part.number for part in parts], scored, columns)
            connection.execute(f"INSERT INTO {NAME}.trajectories {made}")
            progress(sum(part.counts.scores for part in parts))
        self._check_scores(connection, scored)
        if files.remote:
            connection.execute(f"CREATE TABLE {NAME}.scores AS FROM {files.table(SCORES)}")
        told = json.dumps([[name, str(side)] for name, side in scored])
        connection.execute(f"CREATE TABLE {NAME}.made (version INTEGER, digest VARCHAR, scored VARCHAR)")
        connection.execute(f"INSERT INTO {NAME}.made VALUES (?, ?, ?)", [_VERSION, files.digest, told])
        return scored

    def _check_columns(self, connection: DuckDBPyConnection) -> None:
        """Refuse files with other columns than those of the layout; of each table the first file is looked at."""
        for name in (SCORES, SEQUENCES):
            query = f"DESCRIBE SELECT * FROM {self._files.table(name)}"
            found = {row[0]: row[1] for row in connection.execute(query).fetchall()}
            wanted = self._files.manifest.columns(name)
            wrong = [f"{column} {kind}" for column, kind in wanted.items() if found.get(column) != kind]
            if wrong:
                raise StoreCorruptError(
                    f"{self._files.where} is damaged, or not of this layout: its {name} have no column "
                    f"{', '.join(wrong)}; {MEND}"
                )

    def _fill_sequences(self, connection: DuckDBPyConnection) -> None:
        files = self._files
        connection.execute(
            f"CREATE TABLE {NAME}.sequences AS SELECT key + 1 AS sequence, sequence AS sequence_id, label, "
            f"source, turns FROM {files.table(SEQUENCES)} ORDER BY key"
        )
        [[rows, ids, keys, least]] = connection.execute(
            "SELECT count(*), count(DISTINCT sequence_id), count(DISTINCT sequence), min(turns) "
            f"FROM {NAME}.sequences"
        ).fetchall()
        if rows != keys or (rows and least < 1):
            raise files.damaged("two conversations have one key, or one has no turn")
        if rows != ids:  # a name is a conversation's alone: later ones of it get their number
            connection.execute(
                f"UPDATE {NAME}.sequences SET sequence_id = sequence_id || '#' || sequence WHERE sequence NOT IN "
                f"(SELECT min(sequence) FROM {NAME}.sequences GROUP BY sequence_id)"
            )
        labels = connection.execute(f"SELECT DISTINCT label FROM {NAME}.sequences").fetchall()
        for (label,) in labels:
            if label not in tuple(Label):
                raise files.damaged(f"{label!r} is no label")
        if files.remote:
            connection.execute(f"CREATE TABLE {NAME}.found AS FROM {files.table(SEQUENCES)}")

    def _check_scores(self, connection: DuckDBPyConnection, scored: Triples) -> None:
        """Refuse scores that can't be, even where the digests fit them; the message names a conversation."""
        lists = [f"{component}{place}" for place in range(len(scored)) for component in "TIF"]
        fits = ["len(turn) > 0 AND list_min(turn) >= 1 AND list_max(turn) <= turns"]
        fits += [f"coalesce(list_min({one}) >= 0 AND list_max({one}) <= 1, TRUE)" for one in lists]
        query = (
            f"SELECT sequence_id FROM {NAME}.trajectories LEFT JOIN {NAME}.sequences USING (sequence) "
            f"WHERE NOT coalesce({' AND '.join(fits)}, FALSE) ORDER BY sequence LIMIT 1"
        )
        for (name,) in connection.execute(query).fetchall():
            raise self._files.damaged(
                f"a score of sequence {shown(name)} is no number in [0, 1], or of a turn that is not there"
            )
        # Of two scores of one place, a list holds one.
        kept = " + ".join(f"coalesce(sum(list_count({one})), 0)" for one in lists) or "count(*)"
        query = f"SELECT (SELECT {kept} FROM {NAME}.trajectories), count(*) FROM {self._files.table(SCORES)}"
        [[values, rows]] = connection.execute(query).fetchall()
        if values != 3 * rows:
            raise self._files.damaged(
                "it has two scores of one turn, side and principle, or one without T, I or F"
            )

    def _chunks(self) -> Iterator[list[PartEntry]]:
        some: list[PartEntry] = []
        rows = 0
        for part in self._files.parts:
            if some and rows + part.counts.scores > _ROWS:
                yield some
                some, rows = [], 0
            some.append(part)
            rows += part.counts.scores
        if some:
            yield some

    def _trajectories(self, parts: list[int], scored: Triples, columns: Sequence[str]) -> str:
        """The query that makes the trajectories of parts: a row a conversation, a list a column."""
        scores = self._files.table(SCORES, parts)
        chars = {side: f"max(chars) FILTER (side = '{side}')::DOUBLE" for side in Side}
        values = ["turn::DOUBLE", chars[Side.PROMPT], f"coalesce({chars[Side.RESPONSE]}, 0)"]
        values += [
            f"max({component}) FILTER (principle = {quoted(principle)} AND side = '{side}')"
            for principle, side in scored
            for component in "TIF"
        ]
        struct = ", ".join(f"{name} := {value}" for name, value in zip(columns, values, strict=True))
        turns = f"SELECT key + 1 AS sequence, turn, struct_pack({struct}) AS t FROM {scores} GROUP BY key, turn"
        if any(side is Side.RESPONSE for _, side in scored) and self._files.has_texts:
            # The prompt of a turn has a length where its response alone has a score, too.
            texts = self._files.table(TURNS, parts)
            prompts = f"SELECT key + 1 AS sequence, turn, length(prompt)::DOUBLE AS said FROM {texts}"
            known = "struct_update(t, prompt_chars := coalesce(t.prompt_chars, said))"
            turns = f"SELECT sequence, {known} AS t FROM ({turns}) LEFT JOIN ({prompts}) USING (sequence, turn)"
        return turns_as_lists(turns, columns)


_TRAJECTORIES = f"{NAME}.trajectories"


class FoundMirror(Mirror):
    """The tables of docs/sql.md over findings, and ``findings``: what the detector said. Threads take turns."""

    def __init__(self, files: FoundFiles, index: Index, run: Run, reviews: Callable[[], Sequence[Review]]) -> None:
        self._reviews = reviews
        self._files = files
        self._index = index
        self._run = run
        self._lock = threading.RLock()
        self._database: DuckDBPyConnection | None = None

    def close(self) -> None:
        with self._lock:
            self._database = None

    @contextmanager
    def trajectories(
        self, run: str, others: Collection[str] = ()
    ) -> Iterator[tuple[DuckDBPyConnection, str, Columns]]:
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
        with self._lock:
            with self._files.translated():
                connection = self._opened().cursor()
                copy_reviews(connection, self._reviews())
            yield connection

    def chosen(self, where: str, run: str, labels: Labels) -> list[int]:
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
