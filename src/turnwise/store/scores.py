"""The scores of a store: evaluations and failures, appended, and read as trajectories."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, RowMapping, Select, Table, null, select

from turnwise.batches import batched
from turnwise.conversation import Label, Side
from turnwise.scoring import Call, Evaluation, EvaluationKey, Failure, Trajectory
from turnwise.store import outcomes as writing
from turnwise.store import schema
from turnwise.store.call_records import read_call
from turnwise.store.database import PAGE, intact
from turnwise.store.keys import KeyLookup
from turnwise.store.records import SequenceHead, check_turns, read_evaluation, read_failure, turns_within
from turnwise.store.runs import StoredRuns
from turnwise.store.sequences import StoredSequences
from turnwise.store.tallies import still_failed


class StoredScores(StoredSequences, StoredRuns):
    """The part of a store that holds what runs made of sequences."""

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
        query, name = _keys(schema.evaluations, run), schema.sequences.c.sequence_id
        return self._read_keys(run, (query.where(name.in_(some)) for some in batched(sequence_ids, PAGE)))

    def failed(self, run: str, *, ids: Collection[str] | None = None) -> set[EvaluationKey]:
        """Return the keys of what a run tried to score, failed, and has not scored since.

        Raises:
            UnknownNameError: the store has no such run, or no sequence of one of the ids.
        """
        self.run(run)
        failed = still_failed().subquery()
        return self._read_keys(run, self._narrowed(_keys(failed, run), failed.c.sequence, ids))

    def trajectory(
        self, run: str, sequence_id: str, *, turns: range | None = None, replies: bool = False
    ) -> Trajectory:
        """Return the trajectory of one sequence in a run; empty where nothing was evaluated.

        Args:
            run: name of the run.
            sequence_id: id of the sequence.
            turns: only these turns, by number; how long the rest is takes no time then.
            replies: load what the scores rest on too: raw replies and calls.

        Raises:
            UnknownNameError: the store has no such run or sequence.
        """
        found = self.trajectories(run, ids=[sequence_id], turns=turns, replies=replies)
        return next(trajectory for _, trajectory in found)

    def trajectories(
        self,
        run: str,
        *,
        ids: Collection[str] | None = None,
        label: Label | None = None,
        turns: range | None = None,
        replies: bool = False,
    ) -> Iterator[tuple[SequenceHead, Trajectory]]:
        """Yield every sequence with its trajectory in a run, in the order of import.

        Args:
            run: name of the run.
            ids: only these sequences.
            label: only sequences with this ground truth.
            turns: only these turns of each, by number.
            replies: load what the scores rest on too, raw replies and calls, which detectors have no use for.

        Raises:
            UnknownNameError: the store has no such run, or no sequence of one of the ids.
        """
        known = self.run(run)
        table, texts = schema.evaluations, schema.turns
        wanted = [] if turns is None else [_within(table, turns)]
        if turns is not None:  # with its principles, a part of a long sequence is found by index
            wanted.append(table.c.principle.in_(self.principle_versions(run)))
        for page in self._head_rows(ids, label):
            keys = [row["id"] for row in page]
            found: dict[int, list[Evaluation]] = {key: [] for key in keys}
            names = {row["id"]: row["sequence_id"] for row in page}
            rows = self._read(_outcomes(table, run, replies).where(table.c.sequence.in_(keys), *wanted))
            calls = self._calls(table, rows) if replies else {}
            for row in rows:
                with intact(self.path, f"evaluation {row['id']} of run {run!r}"):
                    about = known, names[row["sequence"]], calls.get(row["id"], ())
                    found[row["sequence"]].append(read_evaluation(row, *about))
            lengths: dict[int, dict[int, tuple[int, int]]] = {key: {} for key in keys}
            columns = texts.c.sequence, texts.c.turn, texts.c.prompt_chars, texts.c.response_chars
            query = select(*columns).where(texts.c.sequence.in_(keys))
            for row in self._read(query if turns is None else query.where(_within(texts, turns))):
                with intact(self.path, f"turn {row['turn']} of a sequence"):
                    lengths[row["sequence"]][row["turn"]] = row["prompt_chars"], row["response_chars"]
            for row in page:
                head = self._made_head(row)
                key = row["id"]
                with intact(self.path, f"the trajectory of sequence {head.sequence_id!r} in run {run!r}"):
                    part = range(1, head.turns + 1) if turns is None else turns_within(turns, head.turns)
                    check_turns(len(part), lengths[key])
                    trajectory = Trajectory(
                        run, head.sequence_id, part.stop - 1, found[key], lengths[key], first=part.start
                    )
                yield head, trajectory

    def failures(
        self,
        run: str,
        *,
        ids: Collection[str] | None = None,
        turns: range | None = None,
        replies: bool = False,
    ) -> tuple[Failure, ...]:
        """Return every failure that a run recorded, oldest first, those that were mended later among them.

        Arguments and errors as `trajectories`.
        """
        known = self.run(run)
        table, names = schema.failures, schema.sequences
        outcomes = _outcomes(table, run, replies)
        query = outcomes.add_columns(names.c.sequence_id).join(names, names.c.id == table.c.sequence)
        if turns is not None:
            query = query.where(_within(table, turns))
        queries = self._narrowed(query, table.c.sequence, ids)
        rows = sorted(itertools.chain.from_iterable(map(self._read, queries)), key=lambda row: int(row["id"]))
        calls = self._calls(table, rows) if replies else {}
        with intact(self.path, f"a failure of run {run!r}"):
            return tuple(read_failure(row, known, row["sequence_id"], calls.get(row["id"], ())) for row in rows)

    def _narrowed(
        self, query: Select[Any], sequence: ColumnElement[int], ids: Collection[str] | None
    ) -> list[Select[Any]]:
        """Return a query as it is, or where ids are given as queries for a page of these sequences each."""
        if ids is None:
            return [query]
        return [query.where(sequence.in_(keys)) for keys in batched(self._keys_of_sequences(ids), PAGE)]

    def _read_keys(self, run: str, queries: Iterable[Select[Any]]) -> set[EvaluationKey]:
        with intact(self.path, f"a score of run {run!r}"):
            return {
                EvaluationKey(run, row["sequence_id"], row["turn"], Side(row["side"]), row["principle"])
                for row in itertools.chain.from_iterable(map(self._read, queries))
            }

    def _calls(self, table: Table, rows: Collection[RowMapping]) -> dict[int, tuple[Call, ...]]:
        found: dict[int, tuple[Call, ...]] = {}
        for query in writing.calls_of(table, [row["id"] for row in rows]):
            for row in self._read(query):
                with intact(self.path, f"call {row['id']}"):
                    found[row["outcome"]] = (*found.get(row["outcome"], ()), read_call(row))
        return found


def _keys(about: FromClause, run: str) -> Select[Any]:
    """Return a query for what rows about scores of a run are about."""
    names = schema.sequences
    return (
        select(names.c.sequence_id, about.c.turn, about.c.side, about.c.principle)
        .join(names, names.c.id == about.c.sequence)
        .join(schema.runs, schema.runs.c.id == about.c.run)
        .where(schema.runs.c.name == run)
    )


def _within(table: Table, turns: range) -> ColumnElement[bool]:
    return table.c.turn.between(turns.start, turns.stop - 1)


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
