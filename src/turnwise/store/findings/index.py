"""The index of findings: their trajectories, a row a conversation, in a DuckDB file that may be deleted.

A question reads all turns of a conversation at once, as lists; making them of rows of one score is most of the
work, and is done once. The file lies in the user's cache, never beside the findings: one that came with them could
say anything. It is made anew where parts were added or files changed, and all files are checked before that.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from turnwise._support.sql_text import quoted
from turnwise._support.visible import shown
from turnwise.conversation import Label, Side
from turnwise.errors import StoreCorruptError, StoreError
from turnwise.findings import MEND, SCORES, SEQUENCES, TURNS, PartEntry
from turnwise.store.findings.files import FoundFiles
from turnwise.store.findings.places import for_the_user
from turnwise.store.source import Progress

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

Scored = tuple[tuple[str, Side], ...]
"""Principle and side of every triple of columns of scores."""


class Index:
    """The index of findings, made where there is none that fits.

    Once it is there, `path` is its file, and `scored` says what its columns of scores are of.
    """

    def __init__(self, files: FoundFiles) -> None:
        self._files = files
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self.path: Path | None = None
        self.scored: Scored = ()

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

    def ready(self, progress: Progress = lambda scores: None) -> Path:
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

    # Making it ---------------------------------------------------------------------------------------------

    def _make(self, path: Path, progress: Progress) -> Scored:
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

    def _fill(self, connection: DuckDBPyConnection, progress: Progress) -> Scored:
        self._files.check(SCORES, SEQUENCES, TURNS)
        self._check_columns(connection)
        self._fill_sequences(connection)
        files = self._files
        pairs = connection.execute(f"SELECT DISTINCT principle, side FROM {files.table(SCORES)}").fetchall()
        known = {*files.principles, *Side}
        if strange := {value for pair in pairs for value in pair} - known:
            raise StoreCorruptError(
                f"{files.where} is damaged: a file has scores of {', '.join(sorted(map(shown, strange)))}, which "
                f"its manifest does not name; {MEND}"
            )
        scored: Scored = tuple(sorted((name, Side(side)) for name, side in pairs))
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
            raise StoreCorruptError(
                f"{files.where} is damaged: two conversations have one key, or one has no turn; {MEND}"
            )
        if rows != ids:  # a name is a conversation's alone: later ones of it get their number
            connection.execute(
                f"UPDATE {NAME}.sequences SET sequence_id = sequence_id || '#' || sequence WHERE sequence NOT IN "
                f"(SELECT min(sequence) FROM {NAME}.sequences GROUP BY sequence_id)"
            )
        labels = connection.execute(f"SELECT DISTINCT label FROM {NAME}.sequences").fetchall()
        for (label,) in labels:
            if label not in tuple(Label):
                raise StoreCorruptError(f"{files.where} is damaged: {label!r} is no label; {MEND}")
        if files.remote:
            connection.execute(f"CREATE TABLE {NAME}.found AS FROM {files.table(SEQUENCES)}")

    def _check_scores(self, connection: DuckDBPyConnection, scored: Scored) -> None:
        """Refuse scores that can't be, even where the digests fit them; the message names a conversation."""
        lists = [f"{component}{place}" for place in range(len(scored)) for component in "TIF"]
        fits = ["len(turn) > 0 AND list_min(turn) >= 1 AND list_max(turn) <= turns"]
        fits += [f"coalesce(list_min({one}) >= 0 AND list_max({one}) <= 1, TRUE)" for one in lists]
        query = (
            f"SELECT sequence_id FROM {NAME}.trajectories LEFT JOIN {NAME}.sequences USING (sequence) "
            f"WHERE NOT coalesce({' AND '.join(fits)}, FALSE) ORDER BY sequence LIMIT 1"
        )
        for (name,) in connection.execute(query).fetchall():
            raise StoreCorruptError(
                f"{self._files.where} is damaged: a score of sequence {shown(name)} is no number in [0, 1], or of "
                f"a turn that is not there; {MEND}"
            )
        # Of two scores of one place, a list holds one.
        kept = " + ".join(f"coalesce(sum(list_count({one})), 0)" for one in lists) or "count(*)"
        query = f"SELECT (SELECT {kept} FROM {NAME}.trajectories), count(*) FROM {self._files.table(SCORES)}"
        [[values, rows]] = connection.execute(query).fetchall()
        if values != 3 * rows:
            raise StoreCorruptError(
                f"{self._files.where} is damaged: it has two scores of one turn, side and principle, or one "
                f"without T, I or F; {MEND}"
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

    def _trajectories(self, parts: list[int], scored: Scored, columns: Sequence[str]) -> str:
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
        flat = f"SELECT key, turn, struct_pack({struct}) AS t FROM {scores} GROUP BY key, turn"
        if any(side is Side.RESPONSE for _, side in scored) and self._files.has_texts:
            # The prompt of a turn has a length where its response alone has a score, too.
            prompts = f"SELECT key, turn, length(prompt)::DOUBLE AS said FROM {self._files.table(TURNS, parts)}"
            known = "struct_update(t, prompt_chars := coalesce(t.prompt_chars, said))"
            flat = f"SELECT key, {known} AS t FROM ({flat}) LEFT JOIN ({prompts}) USING (key, turn)"
        lists = ", ".join(f"list_transform(turns, lambda t: t.{name}) AS {name}" for name in columns)
        # Sorting one list of rows is several times as fast as an ordered list for each column.
        return (
            f"SELECT key + 1 AS sequence, {lists} FROM "
            f"(SELECT key, list_sort(list(t)) AS turns FROM ({flat}) GROUP BY key)"
        )
