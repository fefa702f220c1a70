"""The scores of a store: evaluations, failures and unread texts; appended, and read in several ways."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, FromClause, RowMapping, Select, Table, func, null, select

from turnwise._support.batches import batched
from turnwise._support.notebook import data_frame, html_table
from turnwise.conversation import Label, Side
from turnwise.scoring import NOT_READ, Call, Evaluation, EvaluationKey, Failure, Trajectory, Unread
from turnwise.store import schema
from turnwise.store.damage import check_places, intact
from turnwise.store.database import PAGE, Database
from turnwise.store.runs import Runs, still_failed
from turnwise.store.score_rows import (
    KeyLookup,
    KnownKeys,
    append,
    calls_of,
    read_call,
    read_evaluation,
    read_failure,
    read_unread,
)
from turnwise.store.sequences import SequenceHead, Sequences, check_turns, turns_within

if TYPE_CHECKING:
    import pandas


class StoredScore(NamedTuple):
    """One score of a run, as a row of a table.

    Args:
        label: ground truth of the sequence.
        source: the data set that it comes from.
        turn: number of the turn, from 1.
        side: the half of the turn that was judged.
        principle: what it was judged against.
        T: truth, in [0, 1].
        I: indeterminacy, in [0, 1].
        F: falsity, in [0, 1].
    """

    sequence_id: str
    label: Label
    source: str
    turn: int
    side: Side
    principle: str
    T: float
    I: float  # noqa: E741 - the field's name for indeterminacy
    F: float


class ScoreTable:
    """The scores of a run, a row each, read anew whenever they are asked for; `Store.scores` makes one.

    Iterating yields one `StoredScore` after the other, by sequence in the order of import, with a few thousand in
    memory at a time.
    """

    def __init__(self, run: str, rows: Callable[[], Iterator[StoredScore]], count: Callable[[], int]) -> None:
        self.run = run
        self._rows = rows
        self._count = count

    def __iter__(self) -> Iterator[StoredScore]:
        return self._rows()

    def __len__(self) -> int:
        return self._count()

    def to_dict(self) -> dict[str, Any]:
        """Return the run and its scores as plain values."""
        return {"run": self.run, "scores": [row._asdict() for row in self]}

    def to_frame(self) -> pandas.DataFrame:
        """Return the scores as a table of pandas, with the fields of `StoredScore` as columns.

        Raises:
            UsageError: pandas is not installed.
        """
        return data_frame(StoredScore._fields, ((*row[:1], str(row.label), *row[2:]) for row in self))

    def __repr__(self) -> str:
        return f"<ScoreTable of run {self.run!r}: {len(self)} scores>"

    def _repr_html_(self) -> str:
        return html_table(f"Scores of run {self.run!r}", StoredScore._fields, self, len(self))


class Scores:
    """The scores of a store: what runs made of its sequences."""

    def __init__(self, database: Database, runs: Runs, sequences: Sequences) -> None:
        self._db = database
        self._runs = runs
        self._sequences = sequences
        self._known_keys = KnownKeys()

    def forget_keys(self) -> None:
        """Look up all keys anew, after a run was renamed or deleted."""
        self._known_keys.forget()

    def append(self, scored: Iterable[Evaluation | Failure | Unread]) -> Future[None]:
        """Queue evaluations, failures and unread texts for one transaction; see `Store.append_soon`."""
        given = list(scored)
        fresh = {self._runs.hold(run) for run in {one.key.run for one in given}}
        if True in fresh:
            self._known_keys.forget()
        learned: dict[Hashable, int] = {}

        def write(connection: Connection) -> None:
            learned.clear()  # of a transaction that came to nothing
            append(connection, given, KeyLookup(connection, self._known_keys, learned))

        def remember(done: Future[None]) -> None:
            if not done.cancelled() and done.exception() is None:
                self._known_keys.learn(learned)

        future = self._db.write(write)
        future.add_done_callback(remember)
        return future

    def recorded(self, run: str, sequence_ids: Collection[str]) -> set[EvaluationKey]:
        """The keys of all evaluations that a run has of these sequences; see `Store.recorded`."""
        self._runs.get(run)
        query, name = _keys(schema.evaluations, run), schema.sequences.c.sequence_id
        return self._read_keys(run, (query.where(name.in_(some)) for some in batched(sequence_ids, PAGE)))

    def failed(self, run: str, ids: Collection[str] | None = None) -> set[EvaluationKey]:
        """The keys of what failed and was not scored since; see `Store.failed`."""
        self._runs.get(run)
        failed = still_failed().subquery()
        return self._read_keys(run, self._narrowed(_keys(failed, run), failed.c.sequence, ids))

    def trajectories(
        self,
        run: str,
        ids: Collection[str] | None = None,
        label: Label | None = None,
        turns: range | None = None,
        replies: bool = False,
    ) -> Iterator[tuple[SequenceHead, Trajectory]]:
        """Yield every sequence with its trajectory in a run; see `Store.trajectories`."""
        known = self._runs.get(run)
        table, texts = schema.evaluations, schema.turns
        wanted = [] if turns is None else [_within(table, turns)]
        if turns is not None:  # with its principles, a part of a long sequence is found by index
            wanted.append(table.c.principle.in_(self._runs.principle_versions(run)))
        for page in self._sequences.head_rows(ids, label):
            keys = [row["id"] for row in page]
            if turns is not None:  # a score at a turn that is not there would not be missed
                self._check_places(run, keys)
            found: dict[int, list[Evaluation]] = {key: [] for key in keys}
            names = {row["id"]: row["sequence_id"] for row in page}
            rows = self._db.read(_with_provenance(table, run, replies).where(table.c.sequence.in_(keys), *wanted))
            calls = self._calls(table, rows) if replies else {}
            for row in rows:
                with intact(self._db.where, f"evaluation {row['id']} of run {run!r}"):
                    about = known, names[row["sequence"]], calls.get(row["id"], ())
                    found[row["sequence"]].append(read_evaluation(row, *about))
            lengths: dict[int, dict[int, tuple[int, int]]] = {key: {} for key in keys}
            columns = texts.c.sequence, texts.c.turn, texts.c.prompt_chars, texts.c.response_chars
            query = select(*columns).where(texts.c.sequence.in_(keys))
            for row in self._db.read(query if turns is None else query.where(_within(texts, turns))):
                with intact(self._db.where, f"turn {row['turn']} of a sequence"):
                    lengths[row["sequence"]][row["turn"]] = row["prompt_chars"], row["response_chars"]
            for row in page:
                head = self._sequences.made_head(row)
                key = row["id"]
                with intact(self._db.where, f"the trajectory of sequence {head.sequence_id!r} in run {run!r}"):
                    part = range(1, head.turns + 1) if turns is None else turns_within(turns, head.turns)
                    check_turns(part, lengths[key])
                    trajectory = Trajectory(
                        run, head.sequence_id, part.stop - 1, found[key], lengths[key], first=part.start
                    )
                yield head, trajectory

    def _check_places(self, run: str, sequences: Collection[int]) -> None:
        table = schema.evaluations
        of_run = table.c.run.in_(select(schema.runs.c.id).where(schema.runs.c.name == run))
        where = self._db.where
        self._db.ask(lambda record: check_places(record, where, table, table.c.sequence.in_(sequences), of_run))

    def failures(
        self,
        run: str,
        ids: Collection[str] | None = None,
        turns: range | None = None,
        replies: bool = False,
    ) -> tuple[Failure, ...]:
        """Every failure that a run recorded, oldest first; see `Store.failures`."""
        known, table = self._runs.get(run), schema.failures
        rows = self._without_score(run, ids, turns, replies, table.c.reason != NOT_READ)
        calls = self._calls(table, rows) if replies else {}
        with intact(self._db.where, f"a failure of run {run!r}"):
            return tuple(read_failure(row, known, row["sequence_id"], calls.get(row["id"], ())) for row in rows)

    def unread(
        self, run: str, ids: Collection[str] | None = None, turns: range | None = None
    ) -> tuple[Unread, ...]:
        """What a run did not read, once each, oldest first; see `Store.unread`."""
        known = self._runs.get(run)
        rows = self._without_score(run, ids, turns, False, schema.failures.c.reason == NOT_READ)
        with intact(self._db.where, f"a text that run {run!r} did not read"):
            found = [read_unread(row, known, row["sequence_id"]) for row in rows]
        return tuple({one.key: one for one in found}.values())

    def _without_score(
        self,
        run: str,
        ids: Collection[str] | None,
        turns: range | None,
        replies: bool,
        why: ColumnElement[bool],
    ) -> list[RowMapping]:
        table, names = schema.failures, schema.sequences
        rows_of_run = _with_provenance(table, run, replies).where(why)
        query = rows_of_run.add_columns(names.c.sequence_id).join(names, names.c.id == table.c.sequence)
        if turns is not None:
            query = query.where(_within(table, turns))
        queries = self._narrowed(query, table.c.sequence, ids)
        return sorted(itertools.chain.from_iterable(map(self._db.read, queries)), key=lambda row: int(row["id"]))

    def table(self, run: str, ids: Collection[str] | None = None, label: Label | None = None) -> ScoreTable:
        """The scores of a run as rows; see `Store.scores`."""
        self._runs.get(run)
        table = schema.evaluations
        columns = (
            table.c.run,
            table.c.sequence,
            *(table.c[name] for name in ("turn", "side", "principle", "T", "I", "F")),
        )
        of_run = (
            select(*columns).join(schema.runs, schema.runs.c.id == table.c.run).where(schema.runs.c.name == run)
        )
        order = table.c.sequence, table.c.turn, table.c.side, table.c.principle

        def rows() -> Iterator[StoredScore]:
            for page in self._sequences.head_rows(ids, label):
                heads = {row["id"]: self._sequences.made_head(row) for row in page}
                for row in self._db.read(of_run.where(table.c.sequence.in_(heads)).order_by(*order)):
                    with intact(self._db.where, f"a score of run {run!r}"):
                        head = heads[row["sequence"]]
                        about = head.sequence_id, head.label, head.source, row["turn"], Side(row["side"])
                        yield StoredScore(*about, row["principle"], row["T"], row["I"], row["F"])

        def count() -> int:
            counted = of_run.with_only_columns(func.count().label("n"))
            pages = [[]] if ids is None and label is None else self._sequences.head_rows(ids, label)
            keys = ([row["id"] for row in page] for page in pages)
            queries = (counted.where(table.c.sequence.in_(some)) if some else counted for some in keys)
            return sum(self._db.read(query)[0]["n"] for query in queries)

        return ScoreTable(run, rows, count)

    def _narrowed(
        self, query: Select[Any], sequence: ColumnElement[int], ids: Collection[str] | None
    ) -> list[Select[Any]]:
        """The query as it is or, where ids are given, one query for each page of these sequences."""
        if ids is None:
            return [query]
        return [query.where(sequence.in_(keys)) for keys in batched(self._sequences.keys(ids), PAGE)]

    def _read_keys(self, run: str, queries: Iterable[Select[Any]]) -> set[EvaluationKey]:
        with intact(self._db.where, f"a score of run {run!r}"):
            return {
                EvaluationKey(run, row["sequence_id"], row["turn"], Side(row["side"]), row["principle"])
                for row in itertools.chain.from_iterable(map(self._db.read, queries))
            }

    def _calls(self, table: Table, rows: Collection[RowMapping]) -> dict[int, tuple[Call, ...]]:
        found: dict[int, tuple[Call, ...]] = {}
        for query in calls_of(table, [row["id"] for row in rows]):
            for row in self._db.read(query):
                with intact(self._db.where, f"call {row['id']}"):
                    found[row["outcome"]] = (*found.get(row["outcome"], ()), read_call(row))
        return found


def _keys(about: FromClause, run: str) -> Select[Any]:
    """A query for what the rows of a run are about, in a table of scores or failures."""
    names = schema.sequences
    return (
        select(names.c.sequence_id, about.c.turn, about.c.side, about.c.principle)
        .join(names, names.c.id == about.c.sequence)
        .join(schema.runs, schema.runs.c.id == about.c.run)
        .where(schema.runs.c.name == run)
    )


def _within(table: Table, turns: range) -> ColumnElement[bool]:
    return table.c.turn.between(turns.start, turns.stop - 1)


def _with_provenance(table: Table, run: str, replies: bool) -> Select[Any]:
    query = (
        select(table, schema.provenances.c.principle_version, schema.provenances.c.code_version)
        .join(schema.provenances, schema.provenances.c.id == table.c.provenance)
        .join(schema.runs, schema.runs.c.id == table.c.run)
        .where(schema.runs.c.name == run)
    )
    if not replies:
        return query.add_columns(null().label("raw_reply"))
    text = schema.replies.c.text.label("raw_reply")
    return query.add_columns(text).outerjoin(schema.replies, schema.replies.c.id == table.c.reply)
