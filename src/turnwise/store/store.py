"""The record: sequences, runs, evaluations, failures and raw replies, in one SQLite file."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Select, Table, func, insert, null, select
from sqlalchemy.engine import RowMapping

from turnwise.batches import batched
from turnwise.clock import Clock, utc_now
from turnwise.conversation import Label, Sequence, Side
from turnwise.errors import StoreError, UnknownNameError, UsageError
from turnwise.scoring import Call, Evaluation, EvaluationKey, Failure, Trajectory
from turnwise.store import outcomes as writing
from turnwise.store import schema
from turnwise.store.call_records import read_call
from turnwise.store.database import BUSY_SECONDS, connect, path_of, translated
from turnwise.store.journal import Journal
from turnwise.store.keys import KeyLookup, KnownKeys
from turnwise.store.migrations import is_current, migrate
from turnwise.store.records import (
    Run,
    SequenceHead,
    content_hash,
    read_evaluation,
    read_failure,
    read_head,
    read_run,
    read_sequence,
    read_turn,
    sequence_row,
    turn_row,
)
from turnwise.store.tallies import RunTally, still_failed, tally
from turnwise.store.writer import Writer

if TYPE_CHECKING:
    from turnwise.patterns import Expression, Library
    from turnwise.store.mirror import Mirror
    from turnwise.store.query import QueryResult

_PAGE = 500


class Store:
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

    def __init__(
        self,
        location: str | Path,
        *,
        create: bool = False,
        clock: Clock = utc_now,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self.path = path_of(str(location))
        self._clock = clock
        self._refuse_what_is_no_file(create)
        self._engine = connect(self.path, busy_seconds)
        try:
            with translated(self.path):
                self._migrate()
        except BaseException:
            self._engine.dispose()
            raise
        self._writer = Writer(self._engine, self.path)
        self.journal = Journal(self._engine, self.path, self._read, self._writer)
        self._known_keys = KnownKeys()

    def _migrate(self) -> None:
        with self._engine.connect() as connection, connection.begin():
            current = is_current(connection)
        if not current:
            with self._engine.connect().execution_options(writes=True) as connection, connection.begin():
                migrate(connection, str(self.path), self._clock)

    def _refuse_what_is_no_file(self, create: bool) -> None:
        if self.path.is_dir():
            raise StoreError(f"{self.path} is a folder; a store is a file")
        if self.path.exists():
            return
        if not create:
            raise StoreError(
                f"there is no store at {self.path}: make one with turnwise import FILE --store {self.path}, "
                "or name another with --store"
            )
        if not self.path.parent.is_dir():
            raise StoreError(f"can't make {self.path}: there is no folder {self.path.parent}")

    def close(self) -> None:
        """Write what is pending and let go of the file."""
        self._writer.close()
        self.journal.close()
        if "mirror" in vars(self):
            self.mirror.close()
        self._engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Sequences ------------------------------------------------------------------------------------------

    def add_sequences(self, sequences: Iterable[Sequence]) -> list[bool]:
        """Store sequences in one transaction, and say of each whether it was new.

        A sequence that is there already, word for word, is left alone.

        Raises:
            UsageError: an id is taken by a sequence with other content; nothing of this call is stored.
        """
        given = list(sequences)
        job = self._writer.submit(lambda connection: [self._add_sequence(connection, item) for item in given])
        return job.result()

    def _add_sequence(self, connection: Connection, sequence: Sequence) -> bool:
        digest = content_hash(sequence)
        table = schema.sequences
        stored = connection.scalar(
            select(table.c.content_sha256).where(table.c.sequence_id == sequence.sequence_id)
        )
        if stored is not None:
            if stored != digest:
                raise UsageError(
                    f"duplicate id {sequence.sequence_id!r}: the store holds a sequence of that id "
                    "with other content"
                )
            return False
        row = connection.execute(insert(table).values(sequence_row(sequence, digest, self._clock())))
        key: int = row.inserted_primary_key[0]  # type: ignore[index]
        connection.execute(insert(schema.turns), [turn_row(key, turn) for turn in sequence.conversation])
        return True

    def sequence(self, sequence_id: str) -> Sequence:
        """Return one sequence.

        Raises:
            UnknownNameError: the store has no sequence of that id.
        """
        return next(self.sequences(ids=[sequence_id]))

    def sequences(self, *, ids: Collection[str] | None = None, label: Label | None = None) -> Iterator[Sequence]:
        """Yield sequences with their texts, in the order in which they were imported.

        Args:
            ids: only these.
            label: only those with this ground truth.

        Raises:
            UnknownNameError: the store has no sequence of one of the ids.
        """
        table = schema.turns
        for page in self._sequence_rows(ids, label):
            wanted = [row["id"] for row in page]
            rows = self._read(
                select(table).where(table.c.sequence.in_(wanted)).order_by(table.c.sequence, table.c.turn)
            )
            turns = {key: list(group) for key, group in itertools.groupby(rows, lambda row: row["sequence"])}
            for row in page:
                yield read_sequence(row, map(read_turn, turns[row["id"]]))

    def heads(self, *, ids: Collection[str] | None = None, label: Label | None = None) -> Iterator[SequenceHead]:
        """Yield what is known of sequences without their texts; arguments and errors as `sequences`."""
        for page in self._sequence_rows(ids, label):
            yield from map(read_head, page)

    def _sequence_rows(self, ids: Collection[str] | None, label: Label | None) -> Iterator[list[RowMapping]]:
        table = schema.sequences
        query = select(table).order_by(table.c.id)
        if label is not None:
            query = query.where(table.c.label == str(label))
        if ids is not None:
            for keys in batched(sorted(self._keys_of_sequences(ids)), _PAGE):
                yield self._read(query.where(table.c.id.in_(keys)))
            return
        last = 0
        while page := self._read(query.where(table.c.id > last).limit(_PAGE)):
            yield page
            last = page[-1]["id"]

    def _keys_of_sequences(self, ids: Collection[str]) -> list[int]:
        table = schema.sequences
        found: dict[str, int] = {}
        for some in batched(dict.fromkeys(ids), _PAGE):
            rows = self._read(select(table.c.sequence_id, table.c.id).where(table.c.sequence_id.in_(some)))
            found.update((row["sequence_id"], row["id"]) for row in rows)
        for sequence_id in ids:
            if sequence_id not in found:
                known = self._read(select(table.c.sequence_id).order_by(table.c.id).limit(10_000))
                raise UnknownNameError("sequence", sequence_id, [row["sequence_id"] for row in known])
        return list(found.values())

    # Runs -----------------------------------------------------------------------------------------------

    def runs(self) -> tuple[Run, ...]:
        """Return all runs, oldest first."""
        return tuple(map(read_run, self._read(select(schema.runs).order_by(schema.runs.c.id))))

    def run(self, name: str) -> Run:
        """Return one run.

        Raises:
            UnknownNameError: the store has no run of that name.
        """
        runs = {run.name: run for run in self.runs()}
        if name not in runs:
            raise UnknownNameError("run", name, runs)
        return runs[name]

    def start_run(self, run: Run) -> Run:
        """Store a run, or return the one of that name if it has the same configuration.

        Raises:
            UsageError: there is a run of that name with another configuration; the message says what differs.
        """
        return self._writer.submit(lambda connection: self._start_run(connection, run)).result()

    def _start_run(self, connection: Connection, run: Run) -> Run:
        table = schema.runs
        row = connection.execute(select(table).where(table.c.name == run.name)).mappings().first()
        if row is None:
            values = {name: getattr(run, name) for name in Run.__slots__}
            values.update(parameters=dict(run.parameters), operating_points=dict(run.operating_points))
            connection.execute(insert(table).values(values))
            return run
        stored = read_run(row)
        for field in ("observer", "observer_version", "context", "parameters"):
            there, here = getattr(stored, field), getattr(run, field)
            if there != here:
                was, would = _differing(field.replace("_", " "), there, here)
                raise UsageError(
                    f"run {run.name!r} was made with {was}, not {would}: "
                    "a run never mixes configurations; use another --run"
                )
        return stored

    # Evaluations ----------------------------------------------------------------------------------------

    def append(self, outcomes: Iterable[Evaluation | Failure]) -> None:
        """Store evaluations and failures in one transaction; durable when this returns.

        Raises:
            UsageError: an evaluation is there already, or its principle was scored in another version; nothing
                of this call is stored.
            UnknownNameError: a run or sequence that the store does not have.
        """
        self.append_soon(outcomes).result()

    def append_soon(self, outcomes: Iterable[Evaluation | Failure]) -> Future[None]:
        """Queue what `append` would store; the future is done once it is durable."""
        given = list(outcomes)
        learned: dict[Hashable, int] = {}

        def write(connection: Connection) -> None:
            writing.append(connection, given, KeyLookup(connection, self._known_keys, learned))

        def remember(done: Future[None]) -> None:
            if not done.cancelled() and done.exception() is None:
                self._known_keys.learn(learned)

        future = self._writer.submit(write)
        future.add_done_callback(remember)
        return future

    def recorded(self, run: str, sequence_ids: Collection[str]) -> set[EvaluationKey]:
        """Return the keys of all evaluations that a run has of these sequences; failures are not among them.

        Raises:
            UnknownNameError: the store has no such run.
        """
        self.run(run)
        table, names = schema.evaluations, schema.sequences
        query = (
            select(names.c.sequence_id, table.c.turn, table.c.side, table.c.principle)
            .join(names, names.c.id == table.c.sequence)
            .join(schema.runs, schema.runs.c.id == table.c.run)
            .where(schema.runs.c.name == run)
        )
        rows = itertools.chain.from_iterable(
            self._read(query.where(names.c.sequence_id.in_(some))) for some in batched(sequence_ids, _PAGE)
        )
        return {
            EvaluationKey(run, row["sequence_id"], row["turn"], Side(row["side"]), row["principle"])
            for row in rows
        }

    def failed(self, run: str, *, ids: Collection[str] | None = None) -> set[EvaluationKey]:
        """Return the keys of what a run tried to score, failed, and has not scored since.

        Raises:
            UnknownNameError: the store has no such run, or no sequence of one of the ids.
        """
        self.run(run)
        some, names = still_failed().subquery(), schema.sequences
        query = (
            select(names.c.sequence_id, some.c.turn, some.c.side, some.c.principle)
            .join(names, names.c.id == some.c.sequence)
            .join(schema.runs, schema.runs.c.id == some.c.run)
            .where(schema.runs.c.name == run)
        )
        queries = [query]
        if ids is not None:
            keys = batched(self._keys_of_sequences(ids), _PAGE)
            queries = [query.where(some.c.sequence.in_(page)) for page in keys]
        rows = itertools.chain.from_iterable(map(self._read, queries))
        return {
            EvaluationKey(run, row["sequence_id"], row["turn"], Side(row["side"]), row["principle"])
            for row in rows
        }

    def tallies(self) -> tuple[tuple[Run, RunTally], ...]:
        """Return every run with what it has come to, oldest first."""
        found = tally(self._read)
        return tuple((run, found.get(run.name, RunTally(run.name))) for run in self.runs())

    def principle_versions(self, run: str) -> dict[str, str]:
        """Return the version of every principle that a run was scored against, by name."""
        table = schema.provenances
        query = select(table.c.principle, table.c.principle_version).join(schema.runs)
        return {
            row["principle"]: row["principle_version"]
            for row in self._read(query.where(schema.runs.c.name == run))
        }

    def trajectory(self, run: str, sequence_id: str, *, replies: bool = False) -> Trajectory:
        """Return the trajectory of one sequence in a run; empty where nothing was evaluated.

        Args:
            run: name of the run.
            sequence_id: id of the sequence.
            replies: load what the scores rest on too: raw replies and calls.

        Raises:
            UnknownNameError: the store has no such run or sequence.
        """
        return next(trajectory for _, trajectory in self.trajectories(run, ids=[sequence_id], replies=replies))

    def trajectories(
        self,
        run: str,
        *,
        ids: Collection[str] | None = None,
        label: Label | None = None,
        replies: bool = False,
    ) -> Iterator[tuple[SequenceHead, Trajectory]]:
        """Yield every sequence with its trajectory in a run, in the order of import.

        Args:
            run: name of the run.
            ids: only these sequences.
            label: only sequences with this ground truth.
            replies: load what the scores rest on too, raw replies and calls, which detectors have no use for.

        Raises:
            UnknownNameError: the store has no such run, or no sequence of one of the ids.
        """
        known = self.run(run)
        table, texts = schema.evaluations, schema.turns
        for page in self._sequence_rows(ids, label):
            keys = [row["id"] for row in page]
            found: dict[int, list[Evaluation]] = {key: [] for key in keys}
            names = {row["id"]: row["sequence_id"] for row in page}
            rows = self._read(_outcomes(table, run, replies).where(table.c.sequence.in_(keys)))
            calls = self._calls(table, rows) if replies else {}
            for row in rows:
                about = known, names[row["sequence"]], calls.get(row["id"], ())
                found[row["sequence"]].append(read_evaluation(row, *about))
            lengths: dict[int, dict[int, tuple[int, int]]] = {key: {} for key in keys}
            columns = texts.c.sequence, texts.c.turn, texts.c.prompt_chars, texts.c.response_chars
            for row in self._read(select(*columns).where(texts.c.sequence.in_(keys))):
                lengths[row["sequence"]][row["turn"]] = row["prompt_chars"], row["response_chars"]
            for row in page:
                head = read_head(row)
                key = row["id"]
                yield head, Trajectory(run, head.sequence_id, head.turns, found[key], lengths[key])

    def failures(
        self, run: str, *, ids: Collection[str] | None = None, replies: bool = False
    ) -> tuple[Failure, ...]:
        """Return every failure that a run recorded, oldest first, those that were mended later among them.

        Arguments and errors as `trajectories`.
        """
        known = self.run(run)
        table, names = schema.failures, schema.sequences
        outcomes = _outcomes(table, run, replies)
        query = outcomes.add_columns(names.c.sequence_id).join(names, names.c.id == table.c.sequence)
        queries = [query]
        if ids is not None:
            keys = batched(self._keys_of_sequences(ids), _PAGE)
            queries = [query.where(table.c.sequence.in_(some)) for some in keys]
        rows = sorted(itertools.chain.from_iterable(map(self._read, queries)), key=lambda row: int(row["id"]))
        calls = self._calls(table, rows) if replies else {}
        return tuple(read_failure(row, known, row["sequence_id"], calls.get(row["id"], ())) for row in rows)

    def _calls(self, table: Table, rows: Collection[RowMapping]) -> dict[int, tuple[Call, ...]]:
        found: dict[int, tuple[Call, ...]] = {}
        for query in writing.calls_of(table, [row["id"] for row in rows]):
            for row in self._read(query):
                found[row["outcome"]] = (*found.get(row["outcome"], ()), read_call(row))
        return found

    def counts(self) -> dict[str, int]:
        """Return how many sequences, turns, runs, evaluations and failures the store holds."""
        tables = (schema.sequences, schema.turns, schema.runs, schema.evaluations, schema.failures)
        return {
            table.name: self._read(select(func.count().label("n")).select_from(table))[0]["n"] for table in tables
        }

    # Questions ------------------------------------------------------------------------------------------

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
        patterns: Library | None = None,
    ) -> QueryResult:
        """Return which sequences match a pattern, as rows, or as a table of pyarrow, pandas or Polars.

        Args:
            pattern: a condition of the pattern language, as text or as a tree; docs/patterns.md says what it
                may say.
            run: whose evaluations; the only run by default.
            when: "ever" where it has to hold at some turn, "final" where at the last evaluated one.
            label: only sequences with this ground truth.
            source: only sequences of this data set.
            patterns: the named patterns that there are; by default those that ship and those of installed
                packages.

        Raises:
            PatternError: the pattern can't be read, or is no condition.
            UnknownNameError: no such run, source or principle, or `when` is neither.
            UsageError: no run is named where there are several, or the run has no evaluations.
        """
        from turnwise.store.query import query, read_when

        if run is None:
            run = self.only_run()
        return query(
            self.mirror, pattern, run, when=read_when(when), label=label, source=source, patterns=patterns
        )

    def only_run(self) -> str:
        """Return the name of the only run.

        Raises:
            UsageError: the store has none, or several; the message lists them.
        """
        names = [run.name for run in self.runs()]
        if len(names) == 1:
            return names[0]
        if not names:
            raise UsageError(f"{self.path} has no run yet: make one with turnwise evaluate --store {self.path}")
        raise UsageError(f"{self.path} has several runs: choose one with --run ({', '.join(names)})")

    # Plumbing -------------------------------------------------------------------------------------------

    def _read(self, query: Select[Any]) -> list[RowMapping]:
        if self._writer.closed:
            raise StoreError("the store is closed")
        with translated(self.path), self._engine.connect() as connection, connection.begin():
            return list(connection.execute(query).mappings())


def _differing(field: str, there: object, here: object) -> tuple[str, str]:
    """Return what is stored and what is given where they differ; of settings on both sides only those that do."""
    if not (isinstance(there, Mapping) and isinstance(here, Mapping) and there.keys() == here.keys()):
        return f"{field} {there!r}", repr(here)
    names = [name for name in there if there[name] != here[name]]
    was = ", ".join(f"{name} {there[name]!r}" for name in names)
    return was, ", ".join(repr(here[name]) for name in names)


def _outcomes(table: Table, run: str, replies: bool) -> Select[Any]:
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
