"""A record in a database, read: the source of what is asked of a store in SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    FromClause,
    RowMapping,
    Select,
    Table,
    func,
    null,
    select,
    tuple_,
)

from turnwise._support.batches import batched
from turnwise.conversation import Conversation, Label, Sequence, Side, Turn, group_of
from turnwise.conversation.json_values import json_object
from turnwise.errors import UnknownNameError
from turnwise.scoring import NOT_READ, Call, Evaluation, EvaluationKey, Failure, Unread
from turnwise.store import schema
from turnwise.store.column_types import read_time
from turnwise.store.damaged_rows import check_content, check_places, intact
from turnwise.store.database import PAGE, Database, edition, numbers, rows
from turnwise.store.runs import Run, RunTally, read_runs, run_names, still_failed, tallies
from turnwise.store.score_rows import calls_of, read_call, read_evaluation, read_failure, read_unread
from turnwise.store.source import (
    Lengths,
    Newest,
    NumberedHead,
    NumberedTexts,
    Page,
    SequenceHead,
    Source,
    TellScores,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turnwise.store.mirror import RecordMirror
    from turnwise.store.people import People


_HEAD = [schema.sequences.c[name] for name in ("id", "sequence_id", "label", "source", "turns")]
"""Columns that a `NumberedHead` is read from."""


class RecordSource(Source):
    """Reads a record."""

    note = None
    has_texts = True
    judged_with = None

    def __init__(self, database: Database) -> None:
        self._db = database
        self.where = database.where
        self._intact: set[str] = set()

    @cached_property
    def mirror(self) -> RecordMirror:
        from turnwise.store.mirror import RecordMirror

        return RecordMirror(self._db)

    @cached_property
    def people(self) -> People:
        from turnwise.store.people import People

        return People(self._db, self)

    def prepare(self, progress: TellScores) -> None:
        """Do nothing: questions bring their copy up to date themselves."""

    def close(self) -> None:
        if "mirror" in vars(self):
            self.mirror.close()

    def counts(self) -> dict[str, int]:
        tables = (schema.sequences, schema.turns, schema.runs, schema.evaluations, schema.failures)
        queries = {table.name: select(func.count().label("n")).select_from(table) for table in tables}
        failures = queries["failures"]
        queries["failures"] = failures.where(schema.failures.c.reason != NOT_READ)
        queries["unread"] = failures.where(schema.failures.c.reason == NOT_READ)
        return {name: self._db.read(query)[0]["n"] for name, query in queries.items()}

    def newest(self) -> Newest:
        evaluations, failures, sequences = schema.evaluations.c, schema.failures.c, schema.sequences.c
        latest = select(func.max(evaluations.id)).scalar_subquery()
        last = select(evaluations.created_at).where(evaluations.id == latest).scalar_subquery()
        columns = [
            func.coalesce(select(func.max(one)).scalar_subquery(), 0)
            for one in (evaluations.id, failures.id, sequences.id)
        ]

        def read(record: Connection) -> Newest:
            *numbers, made = record.execute(select(*columns, last)).one()
            return Newest(numbers[0], numbers[1], numbers[2], made, edition(record))

        return self._db.ask(read)

    # Runs

    def run_names(self) -> list[str]:
        return run_names(self._db)

    def runs(self, name: str | None = None) -> tuple[Run, ...]:
        return read_runs(self._db, name)

    def principle_versions(self, run: str) -> dict[str, str]:
        table = schema.provenances
        query = select(table.c.principle, table.c.principle_version).join(schema.runs)
        found = self._db.read(query.where(schema.runs.c.name == run))
        return {row["principle"]: row["principle_version"] for row in found}

    def tallies(self) -> tuple[tuple[Run, RunTally], ...]:
        found = tallies(self._db)
        return tuple((run, found.get(run.name, RunTally(run.name))) for run in self.runs())

    def tries(self, paid: Collection[str]) -> dict[str, tuple[int, int, float | None]]:
        name, failures, scores = schema.runs.c.name, schema.failures, schema.evaluations
        unread = func.count().filter(failures.c.reason == NOT_READ)
        failed = select(name, func.count() - unread, unread, func.sum(failures.c.cost_usd)).join_from(
            schema.runs, failures
        )
        scored = select(name, func.sum(scores.c.cost_usd)).join_from(schema.runs, scores).where(name.in_(paid))

        def read(record: Connection) -> dict[str, tuple[int, int, float | None]]:
            found = {run: (*counts, cost) for run, *counts, cost in record.execute(failed.group_by(name))}
            for run, cost in record.execute(scored.group_by(name)):
                count, left, lost = found.get(run, (0, 0, None))
                found[run] = count, left, None if cost is None and lost is None else (cost or 0.0) + (lost or 0.0)
            return found

        return self._db.ask(read)

    # Verdicts

    def stamp(self, run: Run) -> str:
        """Its edition, and when the run was started: scores are added and never changed."""
        return f"{self._db.ask(edition)} {run.created_at.isoformat()}"

    def scored_after(self, run: Run, after: int, most: int, *, flagged: bool = False) -> tuple[Page, int]:
        """Sequences with scores above a row number of evaluations, by at most so many evaluations."""
        table, heads = schema.evaluations.c, schema.sequences.c.id

        def read(record: Connection) -> tuple[list[int], int]:
            upto = min(after + most, record.scalar(select(func.max(table.id))) or 0)
            wanted = _above(select(table.sequence).distinct(), run, after)
            return list(record.scalars(wanted.where(table.id <= upto))), upto

        numbers, upto = self._db.ask(read)
        queries = (select(*_HEAD).where(heads.in_(some)) for some in batched(sorted(numbers), PAGE))
        rows = chain.from_iterable(self._db.read(query.order_by(heads)) for query in queries)
        return list(map(self._head, rows)), upto

    def count_after(self, run: Run, after: int) -> int:
        query = select(func.count(schema.evaluations.c.sequence.distinct()).label("n"))
        return int(self._db.read(_above(query, run, after))[0]["n"])

    def times(self, turns: Mapping[int, int]) -> dict[int, datetime]:
        heads, said, found = schema.sequences.c, schema.turns.c, {}
        query = select(heads.id, heads.imported_at, said.turn, said.timestamp).join(
            schema.turns, said.sequence == heads.id
        )
        for some in batched(turns.items(), PAGE // 2):
            wanted = tuple_(said.sequence, said.turn).in_(some)
            for row in self._db.read(query.where(wanted)):
                found[row["id"]] = row["timestamp"] or row["imported_at"]
        return found

    # Sequences and turns

    def pages(self, ids: Collection[str] | None = None, label: Label | None = None) -> Iterator[Page]:
        for page in self._rows(ids, label, *_HEAD):
            yield list(map(self._head, page))

    def _head(self, row: RowMapping) -> NumberedHead:
        with intact(self.where, f"sequence {row['sequence_id']!r}"):
            head = SequenceHead(row["sequence_id"], Label(row["label"]), row["source"], row["turns"])
        return NumberedHead(row["id"], head)

    def sequences(self, page: Page) -> Iterator[Sequence]:
        keys, heads, texts = _numbers(page), schema.sequences, schema.turns
        stored = self._db.read(select(heads).where(heads.c.id.in_(keys)).order_by(heads.c.id))
        said = self._db.read(
            select(texts).where(texts.c.sequence.in_(keys)).order_by(texts.c.sequence, texts.c.turn)
        )
        turns = {key: list(some) for key, some in groupby(said, lambda row: row["sequence"])}
        for row in stored:
            with intact(self.where, f"sequence {row['sequence_id']!r}"):
                mine = turns.get(row["id"], [])
                conversation = Conversation.from_dict(row["conversation"], turns=map(_read_turn, mine))
                check_content(row, mine)
                sequence = Sequence(
                    row["sequence_id"], Label(row["label"]), row["source"], conversation, row["metadata"]
                )
            yield sequence

    def turns(self, sequence_id: str, turns: range) -> tuple[Turn, ...]:
        """Some turns of a sequence; the first call checks all of it, since its digest is of the whole."""
        [key] = self._keys([sequence_id])
        table = schema.turns
        query = select(table).where(table.c.sequence == key).order_by(table.c.turn)
        known = sequence_id in self._intact
        found = self._db.read(query.where(_within(table, turns)) if known else query)
        with intact(self.where, f"sequence {sequence_id!r}"):
            if not known:
                [head] = self._db.read(select(schema.sequences).where(schema.sequences.c.id == key))
                check_content(head, found)
                self._intact.add(sequence_id)
            return tuple(_read_turn(row) for row in found if row["turn"] in turns)

    def lengths(self, page: Page, turns: range | None) -> Lengths:
        table = schema.turns
        columns = table.c.sequence, table.c.turn, table.c.prompt_chars, table.c.response_chars
        query = select(*columns).where(table.c.sequence.in_(_numbers(page)))
        found: dict[int, dict[int, tuple[int, int]]] = {}
        for row in self._db.read(query if turns is None else query.where(_within(table, turns))):
            found.setdefault(row["sequence"], {})[row["turn"]] = row["prompt_chars"], row["response_chars"]
        return found

    def groups(self, ids: Collection[str] | None, label: Label | None) -> dict[str, str]:
        table = schema.sequences.c
        pages = self._rows(ids, label, table.id, table.sequence_id, table.metadata)
        found = chain.from_iterable(pages)
        return {row["sequence_id"]: group_of(row["metadata"], row["sequence_id"]) for row in found}

    def ids_with(self, key: str, value: str | int, most: int) -> list[str]:
        table = schema.sequences
        found = table.c.metadata[key]
        holds = found.as_string() == value if isinstance(value, str) else found.as_integer() == value
        query = select(table.c.sequence_id).where(holds).order_by(table.c.id).limit(most)
        return [row["sequence_id"] for row in self._db.read(query)]

    def participants(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The participants of every sequence, by its id; no text is read."""
        table = schema.sequences
        for row in self._db.read(select(table.c.sequence_id, table.c.conversation).order_by(table.c.id)):
            yield row["sequence_id"], row["conversation"].get("participants") or {}

    def count(self, after: int = 0) -> int:
        query = select(func.count()).select_from(schema.sequences).where(schema.sequences.c.id > after)
        return self._db.ask(lambda record: record.scalar(query) or 0)

    def texts(self, after: int, most: int) -> list[NumberedTexts]:
        def read(record: Connection) -> list[NumberedTexts]:
            heads, turns = schema.sequences.c, schema.turns.c
            wanted = select(heads.id, heads.content_sha256).where(heads.id > after).order_by(heads.id).limit(most)
            digests = {row[0]: row[1] for row in record.execute(wanted)}
            texts: dict[int, list[str]] = {key: [] for key in digests}
            said = select(turns.sequence, turns.prompt, turns.response).where(turns.sequence.in_(list(digests)))
            for key, prompt, response in record.execute(said.order_by(turns.sequence, turns.turn)):
                texts[key] += [prompt, response or ""]
            return [NumberedTexts(key, "\n".join(texts[key]), digest) for key, digest in digests.items()]

        return self._db.ask(read)

    def metadata(self, after: int, most: int) -> list[tuple[int, Any]]:
        """Row number and metadata of the next sequences above a row number, in SQLite as JSON."""
        table = schema.sequences.c
        query = select(table.id, table.metadata).where(table.id > after).order_by(table.id).limit(most)
        return self._db.ask(lambda record: [(key, value) for key, value in rows(record, query)])

    def begun(self, imported: bool) -> dict[int, datetime]:
        heads, turns = schema.sequences.c, schema.turns.c
        query = select(heads.id, heads.imported_at)
        if not imported:
            said = func.coalesce(turns.timestamp, turns.response_timestamp)
            # Through the table of sequences, so that it goes by index and past the texts.
            joined = schema.sequences.join(schema.turns, (turns.sequence == heads.id) & (turns.turn == 1))
            query = select(heads.id, said).select_from(joined).where(said.is_not(None))

        def read(record: Connection) -> dict[int, datetime]:
            found = rows(record, query)
            return {key: read_time(when) if isinstance(when, str) else when for key, when in found}

        with intact(self.where, "the time of a sequence"):
            return self._db.ask(read)

    def _rows(
        self, ids: Collection[str] | None, label: Label | None, *columns: Column[Any]
    ) -> Iterator[list[RowMapping]]:
        """Yield some columns of sequences, the key among them, a page at a time, in the order of import."""
        table = schema.sequences
        query = select(*columns).order_by(table.c.id)
        if label is not None:
            query = query.where(table.c.label == str(label))
        if ids is not None:
            for keys in batched(sorted(self._keys(ids)), PAGE):
                yield self._db.read(query.where(table.c.id.in_(keys)))
            return
        last = 0
        while page := self._db.read(query.where(table.c.id > last).limit(PAGE)):
            yield page
            last = page[-1]["id"]

    def _keys(self, ids: Collection[str]) -> list[int]:
        """The keys of the rows of sequences, each once; UnknownNameError where one of the ids is not there."""
        table = schema.sequences
        found: dict[str, int] = {}
        for some in batched(dict.fromkeys(ids), PAGE):
            there = self._db.read(select(table.c.sequence_id, table.c.id).where(table.c.sequence_id.in_(some)))
            found.update((row["sequence_id"], row["id"]) for row in there)
        for sequence_id in ids:
            if sequence_id not in found:
                known = self._db.read(select(table.c.sequence_id).order_by(table.c.id).limit(10_000))
                raise UnknownNameError("sequence", sequence_id, [row["sequence_id"] for row in known])
        return list(found.values())

    # Scores and failures

    def evaluations(self, run: Run, page: Page, turns: range | None, replies: bool) -> list[list[Evaluation]]:
        table = schema.evaluations
        names = {number: head.sequence_id for number, head in page}
        query = _with_provenance(table, run, replies).where(table.c.sequence.in_(_numbers(page)))
        if turns is not None:
            self._check_places(run, page)  # a score at a turn that is not there would not be missed
            # With its principles, a part of a long sequence is found by index.
            principles = self.principle_versions(run.name)
            query = query.where(_within(table, turns), table.c.principle.in_(principles))
        there = self._db.read(query)
        calls = self._calls(table, there) if replies else {}
        found: dict[int, list[Evaluation]] = {}
        for row in there:
            with intact(self.where, f"evaluation {row['id']} of run {run.name!r}"):
                made = read_evaluation(row, run, names[row["sequence"]], calls.get(row["id"], ()))
            found.setdefault(row["sequence"], []).append(made)
        return [found.get(number, []) for number in names]

    def scores(self, run: Run, page: Page) -> Iterator[tuple[int, int, Side, str, float, float, float]]:
        table = schema.evaluations.c
        order = table.sequence, table.turn, table.side, table.principle
        query = _of_run(select(*order, table.T, table.I, table.F, table.run), schema.evaluations, run)
        for row in self._db.read(query.where(table.sequence.in_(_numbers(page))).order_by(*order)):
            with intact(self.where, f"a score of run {run.name!r}"):
                side = Side(row["side"])
            yield row["sequence"], row["turn"], side, row["principle"], row["T"], row["I"], row["F"]

    def peaks(self, run: Run) -> NDArray[np.float64]:
        import numpy as np

        table = schema.evaluations.c
        query = select(table.sequence, table.turn, func.max(table.F)).group_by(table.sequence, table.turn)

        def read(record: Connection) -> NDArray[np.float64]:
            key = record.scalar(select(schema.runs.c.id).where(schema.runs.c.name == run.name))
            mine = query.where(table.run == key, table.side == str(Side.PROMPT))
            last = record.scalar(select(func.max(table.id))) or 0
            found = np.concatenate([np.empty((0, 3)), *numbers(record, mine, table.id, 0, last)])
            if not ((found[:, 2] >= 0) & (found[:, 2] <= 1)).all():
                raise ValueError("F is not between 0 and 1")
            return found

        with intact(self.where, f"a score of run {run.name!r}"):
            return self._db.ask(read)

    def score_count(self, run: Run, page: Page | None = None) -> int:
        table = schema.evaluations
        query = _of_run(select(func.count().label("n")).select_from(table), table, run)
        if page is not None:
            query = query.where(table.c.sequence.in_(_numbers(page)))
        return int(self._db.read(query)[0]["n"])

    def recorded(self, run: Run, ids: Collection[str]) -> set[EvaluationKey]:
        query, name = _keys(schema.evaluations, run), schema.sequences.c.sequence_id
        return self._read_keys(run, (query.where(name.in_(some)) for some in batched(ids, PAGE)))

    def failures(
        self, run: Run, ids: Collection[str] | None, turns: range | None, replies: bool
    ) -> tuple[Failure, ...]:
        table = schema.failures
        found = self._without_score(run, ids, turns, replies, table.c.reason != NOT_READ)
        calls = self._calls(table, found) if replies else {}
        with intact(self.where, f"a failure of run {run.name!r}"):
            return tuple(read_failure(row, run, row["sequence_id"], calls.get(row["id"], ())) for row in found)

    def unread(self, run: Run, ids: Collection[str] | None, turns: range | None) -> tuple[Unread, ...]:
        found = self._without_score(run, ids, turns, False, schema.failures.c.reason == NOT_READ)
        with intact(self.where, f"a text that run {run.name!r} did not read"):
            once = {one.key: one for one in (read_unread(row, run, row["sequence_id"]) for row in found)}
            return tuple(once.values())

    def failed(self, run: Run, ids: Collection[str] | None) -> set[EvaluationKey]:
        failed = still_failed().subquery()
        return self._read_keys(run, self._narrowed(_keys(failed, run), failed.c.sequence, ids))

    def _without_score(
        self, run: Run, ids: Collection[str] | None, turns: range | None, replies: bool, why: ColumnElement[bool]
    ) -> list[RowMapping]:
        table, names = schema.failures, schema.sequences
        query = _with_provenance(table, run, replies).where(why)
        query = query.add_columns(names.c.sequence_id).join(names, names.c.id == table.c.sequence)
        if turns is not None:
            query = query.where(_within(table, turns))
        queries = self._narrowed(query, table.c.sequence, ids)
        return sorted(chain.from_iterable(map(self._db.read, queries)), key=lambda row: int(row["id"]))

    def _narrowed(
        self, query: Select[Any], sequence: ColumnElement[int], ids: Collection[str] | None
    ) -> list[Select[Any]]:
        """The query as it is or, where ids are given, one query for each page of these sequences."""
        if ids is None:
            return [query]
        return [query.where(sequence.in_(keys)) for keys in batched(self._keys(ids), PAGE)]

    def _read_keys(self, run: Run, queries: Iterable[Select[Any]]) -> set[EvaluationKey]:
        with intact(self.where, f"a score of run {run.name!r}"):
            return {
                EvaluationKey(run.name, row["sequence_id"], row["turn"], Side(row["side"]), row["principle"])
                for row in chain.from_iterable(map(self._db.read, queries))
            }

    def _calls(self, table: Table, outcomes: Collection[RowMapping]) -> dict[int, tuple[Call, ...]]:
        found: dict[int, tuple[Call, ...]] = {}
        for query in calls_of(table, [row["id"] for row in outcomes]):
            for row in self._db.read(query):
                with intact(self.where, f"call {row['id']}"):
                    found[row["outcome"]] = (*found.get(row["outcome"], ()), read_call(row))
        return found

    def _check_places(self, run: Run, page: Page) -> None:
        table = schema.evaluations
        of_run = table.c.run.in_(select(schema.runs.c.id).where(schema.runs.c.name == run.name))
        wanted = table.c.sequence.in_(_numbers(page)), of_run
        self._db.ask(lambda record: check_places(record, self.where, table, *wanted))


def _numbers(page: Page) -> list[int]:
    return [one.number for one in page]


def _within(table: Table, turns: range) -> ColumnElement[bool]:
    return table.c.turn.between(turns.start, turns.stop - 1)


def _of_run(query: Select[Any], table: FromClause, run: Run) -> Select[Any]:
    return query.join(schema.runs, schema.runs.c.id == table.c.run).where(schema.runs.c.name == run.name)


def _above(query: Select[Any], run: Run, after: int) -> Select[Any]:
    """Of a query over evaluations, those of a run above a row number: by number, not by the index on runs."""
    table = schema.evaluations.c
    key = select(schema.runs.c.id).where(schema.runs.c.name == run.name).scalar_subquery()
    return query.where(table.id > after, table.run + 0 == key)


def _keys(about: FromClause, run: Run) -> Select[Any]:
    """A query for what the rows of a run are about, in a table of scores or failures."""
    names = schema.sequences
    columns = names.c.sequence_id, about.c.turn, about.c.side, about.c.principle
    return _of_run(select(*columns).join(names, names.c.id == about.c.sequence), about, run)


def _with_provenance(table: Table, run: Run, replies: bool) -> Select[Any]:
    origins, texts = schema.provenances, schema.replies
    query = select(table, origins.c.principle_version, origins.c.code_version)
    query = _of_run(query.join(origins, origins.c.id == table.c.provenance), table, run)
    if not replies:
        return query.add_columns(null().label("raw_reply"))
    return query.add_columns(texts.c.text.label("raw_reply")).outerjoin(texts, texts.c.id == table.c.reply)


def _read_turn(row: RowMapping) -> Turn:
    names = ("prompt", "response", "timestamp", "response_timestamp")
    return Turn(
        number=row["turn"],
        metadata=json_object(row["metadata"], f"turn {row['turn']}: metadata"),
        **{name: row[name] for name in names},
    )
