"""A copy of the scores in DuckDB, in memory, for questions over many trajectories at once.

It is fed by row number: rows are added to the record and hardly ever changed, so what is new lies above the number
reached before. Only scores, lengths, labels, sources and names are copied, never a text. Where a run was renamed
or deleted, a sequence got another label, or the record is another one, the copy begins anew. docs/sql.md lists its
tables.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, case, false, func, or_, select

from turnwise._support.process_memory import give_back_memory
from turnwise._support.table_files import hide_progress_bar
from turnwise.conversation import Label, Side
from turnwise.errors import UnknownNameError
from turnwise.patterns.sql import Columns
from turnwise.store import schema
from turnwise.store.damaged_rows import check_numbers, check_places, intact, read_all
from turnwise.store.database import Database, edition, numbers, rows
from turnwise.store.people import Review, stored_reviews
from turnwise.store.source import Mirror
from turnwise.store.where import Labels, known_names, parse_where

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_MANY = 100_000
"""Evaluations from which on copying them leaves memory behind that is worth giving back."""

_LISTS = "lists"
"""Database of the tables of trajectories, whose rows hold a conversation each and so come in small groups."""

VIEWS = (
    "CREATE VIEW sequences AS SELECT sequence_id, label, source, turns, coalesce(status, 'new') AS status, "
    "assignee FROM copied.sequences LEFT JOIN copied.reviews USING (sequence_id)",
    "CREATE VIEW runs AS SELECT name AS run, observer, observer_version, context FROM copied.runs",
    "CREATE VIEW evaluations AS SELECT runs.name AS run, sequence_id, label, source, turn, "
    "CASE WHEN response THEN 'response' ELSE 'prompt' END AS side, principles.name AS principle, T, I, F, "
    "CASE WHEN response THEN response_chars ELSE prompt_chars END AS chars FROM copied.evaluations "
    "JOIN copied.runs USING (run) JOIN copied.sequences USING (sequence) JOIN copied.principles USING (principle)",
)
"""The tables of docs/sql.md over those with numbers for names."""

MAKE_REVIEWS = "CREATE TABLE copied.reviews (sequence_id VARCHAR, status VARCHAR, assignee VARCHAR)"
"""Where sequences stand of which somebody has said something, as of the last question."""

_MAKE_TABLES = (
    "SET python_enable_replacements = false",  # a name in a question is a table, never a variable of the program
    f"ATTACH ':memory:' AS {_LISTS} (ROW_GROUP_SIZE 4096)",  # a group is what one thread takes at a time
    "SET temp_directory = ''",  # what does not fit into memory fails, rather than leave files behind
    "SET enable_external_access = false",
    "SET lock_configuration = true",
    "CREATE SCHEMA copied",
    "CREATE TABLE copied.sequences (sequence INTEGER, sequence_id VARCHAR, label VARCHAR, source VARCHAR, "
    "turns INTEGER)",
    "CREATE TABLE copied.runs (run INTEGER, name VARCHAR, observer VARCHAR, observer_version VARCHAR, "
    "context VARCHAR)",
    "CREATE TABLE copied.principles (principle INTEGER, name VARCHAR)",
    "CREATE TABLE copied.evaluations (run INTEGER, sequence INTEGER, turn INTEGER, principle INTEGER, "
    "response BOOLEAN, prompt_chars INTEGER, response_chars INTEGER, T DOUBLE, I DOUBLE, F DOUBLE)",
    MAKE_REVIEWS,
    *VIEWS,
)
"""What an empty mirror is made with. No file can be read through it, and no setting changed."""

_COLUMNS = ("sequence", "turn", "origin", "prompt_chars", "response_chars", "T", "I", "F")
"""What is read of an evaluation; its origin is twice its provenance, and 1 more where it is of the response."""


class _Mark(NamedTuple):
    """How far a table of the record was copied: a row, and what tells it from another of the same number."""

    row: int
    content: object


_NOTHING = _Mark(0, None)


@dataclass(slots=True)
class _CopiedRun:
    """What is here of a run; `columns` is None where it has no table of trajectories yet."""

    evaluations: _Mark = _NOTHING
    columns: Columns | None = None


@dataclass(slots=True)
class _Fresh:
    """What the evaluations copied just now are about: numbers of sequences, and principles with the side."""

    sequences: set[int] = field(default_factory=set)
    scored: set[tuple[str, Side]] = field(default_factory=set)


class RecordMirror(Mirror):
    """Scores of a record as DuckDB tables, brought up to date at every question. Threads take turns."""

    def __init__(self, record: Database) -> None:
        self._record = record
        self._lock = threading.RLock()
        self._database: DuckDBPyConnection | None = None
        self._empty()

    def _empty(self) -> None:
        self._edition: int | None = None
        self._sequences = _NOTHING
        self._reviews: tuple[int, int | None] = (0, None)
        self._runs: dict[str, int] = {}
        self._principles: dict[str, int] = {}
        self._copied: dict[int, _CopiedRun] = {}

    def close(self) -> None:
        """Let go of the copy; its memory is free once nobody holds a result of it."""
        with self._lock:
            self._database = None  # closing it would close the connections of results too
            self._empty()

    @contextmanager
    def trajectories(
        self, run: str, others: Collection[str] = ()
    ) -> Iterator[tuple[DuckDBPyConnection, str, Columns]]:
        with self._lock:
            key, *keys = self._refreshed((run, *others))
            of_runs = [self._copied[one].columns for one in (key, *keys)]
            columns, *beside = (columns for columns in of_runs if columns is not None)
            joined = columns.with_others(dict(zip(others, beside, strict=True)))
            yield self._opened().cursor(), joined.joined_sql(_table(key), list(map(_table, keys))), joined

    @contextmanager
    def tables(self) -> Iterator[DuckDBPyConnection]:
        with self._lock:
            self._refreshed(None)
            self._copy_reviews()
            yield self._opened().cursor()

    def _copy_reviews(self) -> None:
        def fresh(record: Connection) -> list[Review] | None:
            newest = record.scalar(select(func.max(schema.reviews.c.id))) or 0
            if (newest, self._edition) == self._reviews:
                return None
            self._reviews = newest, self._edition
            return stored_reviews(record)

        with self._record.translated(), intact(self._record.where, "a review"):
            if (found := self._record.ask(fresh)) is not None:
                copy_reviews(self._opened(), found)

    def chosen(self, where: str, run: str, labels: Labels) -> list[int]:
        def found(record: Connection) -> list[int]:
            return parse_where(where, known_names(record)).sequences(record, run, labels)

        with self._record.translated(), intact(self._record.where, "the metadata of a sequence"):
            return self._record.ask(found)

    def _opened(self) -> DuckDBPyConnection:
        if self._database is None:
            import duckdb

            self._database = duckdb.connect(":memory:")
            hide_progress_bar(self._database)
            for statement in _MAKE_TABLES:
                self._database.execute(statement)
        return self._database

    # From the record

    def _refreshed(self, runs: Sequence[str] | None) -> list[int]:
        """Bring some runs, or all, up to date within one read transaction, and return their numbers."""
        import duckdb

        unfit = duckdb.DataError, duckdb.IntegrityError, duckdb.ProgrammingError

        def copied(record: Connection) -> list[int]:
            try:
                return self._copied_from_record(record, runs)
            except (ValueError, TypeError, *unfit) as error:
                self._refuse_damage(record)
                raise ValueError(str(error)) from error

        what = "a row of the scores, or of what they are about,"
        with self._record.translated(), intact(self._record.where, what):
            return self._record.ask(copied)

    def _refuse_damage(self, record: Connection) -> None:
        """Raise StoreCorruptError for the row that can't be copied, where it can be told which."""
        check_places(record, self._record.where, schema.evaluations)
        heads, turns = schema.sequences.c, schema.turns.c
        for query in (
            select(heads.sequence_id, heads.id, heads.label, heads.turns),
            select(turns.sequence, turns.turn, turns.prompt_chars, turns.response_chars),
        ):
            read_all(record, query, self._record.where)

    def _copied_from_record(self, record: Connection, runs: Sequence[str] | None) -> list[int]:
        if not self._is_the_same(record):
            self.close()
            self._edition = edition(record)
        self._copy_names(record)
        for run in runs or ():
            if run not in self._runs:
                raise UnknownNameError("run", run, self._runs)
        keys = list(self._runs.values()) if runs is None else [self._runs[run] for run in runs]
        for key in keys:
            try:
                self._copy_run(record, key, with_trajectories=runs is not None)
            except BaseException:
                self.close()  # half a copy is none
                raise
        return keys

    def _is_the_same(self, record: Connection) -> bool:
        """Whether no row was changed or deleted, and the rows that were copied last are what they were."""
        if edition(record) != self._edition:
            return False
        runs = dict(rows(record, select(schema.runs.c.name, schema.runs.c.id)))
        if not self._runs.items() <= runs.items():
            return False
        marks = [(schema.sequences, self._sequences)]
        marks += [(schema.evaluations, copied.evaluations) for copied in self._copied.values()]
        return all(mark == _NOTHING or _mark(record, table, mark.row) == mark for table, mark in marks)

    def _copy_names(self, record: Connection) -> None:
        database = self._opened()
        last = _mark(record, schema.sequences)
        if last.row > self._sequences.row:
            check_numbers(record, self._record.where, self._sequences.row)
            table = schema.sequences.c
            wanted = select(table.id, table.sequence_id, table.label, table.source, table.turns)
            columns = list(zip(*rows(record, wanted.where(table.id > self._sequences.row)), strict=True))
            numbers = {"sequence": columns[0], "turns": columns[4]}
            for label in set(columns[2]):
                Label(label)  # what is no label is refused before it is copied
            texts = {"sequence_id": columns[1], "label": columns[2], "source": columns[3]}
            _insert(database, "copied.sequences", _arrays(numbers, texts))
            self._sequences = last
        table = schema.runs.c
        wanted = select(table.id, table.name, table.observer, table.observer_version, table.context)
        for row in rows(record, wanted):
            if row[1] not in self._runs:
                database.execute("INSERT INTO copied.runs VALUES (?, ?, ?, ?, ?)", list(row))
                self._runs[row[1]] = row[0]

    def _copy_run(self, record: Connection, key: int, *, with_trajectories: bool) -> None:
        copied = self._copied.setdefault(key, _CopiedRun())
        last = _mark(record, schema.evaluations)
        fresh = _Fresh()
        if last.row > copied.evaluations.row:
            fresh = self._copy_evaluations(record, key, copied.evaluations.row, last.row)
            if last.row - copied.evaluations.row > _MANY:
                give_back_memory()
            if not copied.evaluations.row:
                self._refuse_doubles(key)
            copied.evaluations = last
        if copied.columns is None:
            if with_trajectories:
                self._make_trajectories(key, self._scored(key))
        elif not fresh.scored <= set(copied.columns.scored):
            self._make_trajectories(key, fresh.scored | set(copied.columns.scored))
        elif fresh.sequences:
            self._renew_trajectories(key, fresh.sequences)

    def _copy_evaluations(self, record: Connection, key: int, after: int, last: int) -> _Fresh:
        """Copy the evaluations of a run between two row numbers, and return what they are about."""
        import numpy as np

        table, texts = schema.evaluations.c, schema.turns.c
        origins = self._origins(record, key)
        names = {number: name for name, number in self._principles.items()}
        response = case((table.side == str(Side.PROMPT), 0), (table.side == str(Side.RESPONSE), 1))
        fits = [(table.provenance == one) & (table.principle == names[number]) for one, number in origins.items()]
        wanted = (
            select(
                table.sequence,
                table.turn,
                case(((table.run == key) & or_(false(), *fits), table.provenance * 2 + response)),
                texts.prompt_chars,
                texts.response_chars,
                *(table[component] for component in "TIF"),
            )
            # What does not fit together has a value missing, and is refused.
            .outerjoin(schema.turns, (texts.sequence == table.sequence) & (texts.turn == table.turn))
            # By row number, not by the index on runs: most of what is new belongs to the run that is asked for.
            .where(or_(table.provenance.in_(list(origins)), table.run == key))
        )
        principle_of = np.zeros(max(origins, default=0) + 1, np.int64)
        for provenance, principle in origins.items():
            principle_of[provenance] = principle
        fresh = _Fresh()
        for found in numbers(record, wanted, table.id, after, last):
            counts, scores = found[:, :-3], found[:, -3:]
            if not ((scores >= 0) & (scores <= 1)).all() or ((counts < 0) | (counts % 1 != 0)).any():
                raise ValueError("a number is not what it can be")
            columns = dict(zip(_COLUMNS, found.T, strict=True))
            whole = {name: columns.pop(name).astype(np.int64) for name in _COLUMNS[:-3]}
            origin = whole.pop("origin")
            whole |= {
                "principle": principle_of[origin // 2],
                "response": origin % 2,
                "run": np.full(len(origin), key),
            }
            _insert(self._opened(), "copied.evaluations", {**whole, **columns})
            fresh.sequences.update(np.unique(whole["sequence"]).tolist())
            for one in np.unique(origin).tolist():
                side = Side.RESPONSE if one % 2 else Side.PROMPT
                fresh.scored.add((names[origins[one // 2]], side))
        return fresh

    def _refuse_doubles(self, key: int) -> None:
        """Raise ValueError where two scores of a run are of the same turn, side and principle."""
        of_run = "FROM copied.evaluations WHERE run = $1"
        apart = f"SELECT DISTINCT sequence, turn, principle, response {of_run}"
        query = f"SELECT count(*) = (SELECT count(*) FROM ({apart})) {of_run}"
        if self._opened().execute(query, [key]).fetchall() != [(True,)]:
            raise ValueError("there are two scores of one turn, side and principle")

    def _origins(self, record: Connection, key: int) -> dict[int, int]:
        """The number of the principle by provenance of a run; principles that are new get a number."""
        table = schema.provenances.c
        found: dict[int, int] = {}
        for provenance, principle in rows(record, select(table.id, table.principle).where(table.run == key)):
            if principle not in self._principles:
                self._principles[principle] = len(self._principles)
                values = [self._principles[principle], principle]
                self._opened().execute("INSERT INTO copied.principles VALUES (?, ?)", values)
            found[provenance] = self._principles[principle]
        return found

    # Trajectories

    def _scored(self, key: int) -> set[tuple[str, Side]]:
        query = "SELECT DISTINCT name, response FROM copied.evaluations JOIN copied.principles USING (principle) "
        rows = self._opened().execute(f"{query} WHERE run = ?", [key]).fetchall()
        return {(name, Side.RESPONSE if response else Side.PROMPT) for name, response in rows}

    def _make_trajectories(self, key: int, scored: Collection[tuple[str, Side]]) -> None:
        columns = self._copied[key].columns = Columns(tuple(sorted(scored)))
        self._opened().execute(f"CREATE OR REPLACE TABLE {_table(key)} AS {self._trajectories_sql(key, columns)}")
        give_back_memory()

    def _renew_trajectories(self, key: int, sequences: Collection[int]) -> None:
        """Make the rows of these sequences, which have later evaluations, anew in the table of a run."""
        import numpy as np

        database, columns = self._opened(), self._copied[key].columns
        assert columns is not None
        database.execute("CREATE OR REPLACE TEMP TABLE touched (sequence INTEGER)")
        _insert(database, "touched", {"sequence": np.array(sorted(sequences), np.int64)})
        touched = "SELECT sequence FROM touched"
        made = self._trajectories_sql(key, columns, touched)
        database.execute(f"DELETE FROM {_table(key)} WHERE sequence IN ({touched})")
        database.execute(f"INSERT INTO {_table(key)} {made}")

    def _trajectories_sql(self, key: int, columns: Columns, touched: str | None = None) -> str:
        """A query for a row a sequence, its evaluated turns as lists; only of those that `touched` selects."""
        turns = {"turn": "turn::DOUBLE"}
        turns |= {f"{side}_chars": f"any_value({side}_chars)::DOUBLE" for side in ("prompt", "response")}
        for at, (principle, side) in enumerate(columns.scored):
            of_this = f"principle = {self._principles[principle]} AND response = {side is Side.RESPONSE}"
            turns |= {f"{component}{at}": f"max({component}) FILTER ({of_this})" for component in "TIF"}
        struct = ", ".join(f"{name} := {sql}" for name, sql in turns.items())
        which = f"run = {key}" + (f" AND sequence IN ({touched})" if touched else "")
        made = f"SELECT sequence, struct_pack({struct}) AS t FROM copied.evaluations"
        return turns_as_lists(f"{made} WHERE {which} GROUP BY sequence, turn", turns)


def _table(key: int) -> str:
    return f"{_LISTS}.trajectories_{key}"


def _mark(record: Connection, table: Any, row: int | None = None) -> _Mark:
    """The mark of a row, or of the last row; `_NOTHING` where there is none."""
    when = table.c.imported_at if table is schema.sequences else table.c.created_at
    number = select(func.max(table.c.id)).scalar_subquery() if row is None else row
    found = next(rows(record, select(table.c.id, when).where(table.c.id == number)), None)
    return _NOTHING if found is None else _Mark(*found)


def _arrays(numbers: dict[str, Any], texts: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    arrays = {name: np.array(values, np.int64) for name, values in numbers.items()}
    return {**arrays, **{name: np.array(values, object) for name, values in texts.items()}}


def copy_reviews(database: DuckDBPyConnection, reviews: Sequence[Review]) -> None:
    """Put into ``copied.reviews`` where sequences stand, in place of what was there; the last word counts."""
    latest = {one.sequence_id: (one.sequence_id, str(one.status), one.assignee) for one in reviews}
    columns = list(zip(*latest.values(), strict=True)) or [(), (), ()]
    names = ("sequence_id", "status", "assignee")
    database.execute("DELETE FROM copied.reviews")
    _insert(database, "copied.reviews", _arrays({}, dict(zip(names, columns, strict=True))))


def _insert(database: DuckDBPyConnection, table: str, columns: dict[str, Any]) -> None:
    database.register("fresh", columns)
    try:
        database.execute(f"INSERT INTO {table} BY NAME SELECT * FROM fresh")
    finally:
        database.unregister("fresh")


def turns_as_lists(turns: str, columns: Iterable[str]) -> str:
    """A query for a row a sequence, its turns as lists sorted by the first of some columns, which are in ``t``."""
    lists = ", ".join(f"list_transform(turns, lambda t: t.{name}) AS {name}" for name in columns)
    # Sorting one list of rows is several times as fast as an ordered list for each column.
    return (
        f"SELECT sequence, {lists} FROM "
        f"(SELECT sequence, list_sort(list(t)) AS turns FROM ({turns}) GROUP BY sequence)"
    )
