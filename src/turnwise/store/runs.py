"""The runs of a record: started once, never mixed, renamed and deleted, and what they have come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from threading import Lock
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    FromClause,
    RowMapping,
    Select,
    Subquery,
    Table,
    and_,
    case,
    delete,
    exists,
    func,
    insert,
    literal,
    null,
    or_,
    select,
    text,
    union,
    union_all,
    update,
)

from turnwise._support.notebook import Shown
from turnwise.errors import UnknownNameError, UsageError
from turnwise.scoring import NOT_READ, FailureReason, FailureReasons, Provenance
from turnwise.store import schema
from turnwise.store.column_types import UtcTime
from turnwise.store.damaged_rows import intact
from turnwise.store.database import Database, renew_edition


@dataclass(frozen=True, slots=True)
class RunTally(Shown):
    """Counts, cost and time of a run.

    Args:
        sequences: sequences of which something was scored or tried.
        evaluations: how many scores there are.
        failed: scores that were tried, failed, and have not been made since.
        failures: all tries that failed, including those that were mended later.
        unread: scores that are missing because the observer does not read the text, by language of the text.
        calls: calls to a language model, including those that cost nothing.
        cached: calls that were answered by a reply that had been paid for before.
        prompt_tokens: tokens of the requests that were paid for, as far as they were counted.
        completion_tokens: tokens of their replies, as far as they were counted.
        cost_usd: what evaluations and failures cost together; None where no cost is known.
        seconds: what evaluations and failures took together; with parallel workers more than the time that passed.
        first: when the first outcome was made, in UTC; None where there is none.
        last: when the last outcome was made, in UTC; None where there is none.
        structured: replies by how their request asked for JSON: ``json_schema``, ``json_object`` or ``none``;
            weaker than the run's setting where the server refused that.
        commonest_failure: the reason that most of the `failed` have, with an example; None where nothing failed.
    """

    run: str
    sequences: int = 0
    evaluations: int = 0
    failed: int = 0
    failures: int = 0
    unread: Mapping[str, int] = field(default_factory=dict)
    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0
    first: datetime | None = None
    last: datetime | None = None
    structured: Mapping[str, int] = field(default_factory=dict)
    commonest_failure: FailureReason | None = None


def tallies(database: Database) -> dict[str, RunTally]:
    """What each run of a record has come to, by name; a run without outcomes may be absent."""
    found: dict[str, dict[str, Any]] = {}
    for query in (_scored(), _open_failures(), _calls()):
        for row in database.read(query):
            values = dict(row)
            found.setdefault(values.pop("name"), {}).update(values)
    for row in database.read(_structures()):
        found[row["name"]].setdefault("structured", {})[row["structured"]] = row["replies"]
    for row in database.read(_unread()):
        found[row["name"]].setdefault("unread", {})[row["language"]] = row["scores"]
    reasons: dict[str, FailureReasons] = {}
    for row in database.read(_open_reasons()):
        reasons.setdefault(row["name"], FailureReasons()).add(row["reason"], row["message"], row["failed"])
    for name, given in reasons.items():
        found[name]["commonest_failure"] = given.commonest
    return {name: RunTally(name, **values) for name, values in found.items()}


_ABOUT = ("run", "sequence", "principle", "turn", "side")
"""What a score is about, by column."""


def still_failed() -> Select[Any]:
    """A query for what failed, in any run, and was neither scored nor found unreadable; each thing once."""
    failed, scored, unread = schema.failures, schema.evaluations, schema.failures.alias()
    mended = exists().where(*(scored.c[name] == failed.c[name] for name in _ABOUT))
    settled = exists().where(*(unread.c[name] == failed.c[name] for name in _ABOUT), unread.c.reason == NOT_READ)
    open_ = (failed.c.reason != NOT_READ, ~mended, ~settled)
    return select(*(failed.c[name] for name in _ABOUT)).where(*open_).distinct()


def _by_run(of: FromClause, *columns: ColumnElement[Any]) -> Select[Any]:
    """A query for some aggregates over what has a column ``run``, by the name of the run."""
    query = select(schema.runs.c.name, *columns).select_from(of)
    return query.join(schema.runs, schema.runs.c.id == of.c.run).group_by(schema.runs.c.name)


def _unread() -> Select[Any]:
    """A query for how many scores are missing because texts were not read, by run and language."""
    table = schema.failures
    columns = [table.c[name] for name in _ABOUT]
    some = select(*columns, table.c.message).where(table.c.reason == NOT_READ).distinct().subquery()
    query = _by_run(some, some.c.message.label("language"), func.count().label("scores"))
    return query.group_by(some.c.message).order_by(schema.runs.c.name, func.count().desc(), some.c.message)


def _scored() -> Select[Any]:
    def rows(table: Table) -> Select[Any]:
        scores = table is schema.evaluations
        failed = null() if scores else case((table.c.reason != NOT_READ, 1))
        columns = (table.c[name] for name in ("run", "sequence", "cost_usd", "latency_s", "created_at"))
        return select(*columns, (literal(1) if scores else null()).label("scored"), failed.label("failed"))

    both = union_all(rows(schema.evaluations), rows(schema.failures)).subquery()
    return _by_run(
        both,
        func.count(both.c.sequence.distinct()).label("sequences"),
        func.count(both.c.scored).label("evaluations"),
        func.count(both.c.failed).label("failures"),
        func.sum(both.c.cost_usd).label("cost_usd"),
        func.coalesce(func.sum(both.c.latency_s), 0.0).label("seconds"),
        func.min(both.c.created_at, type_=UtcTime).label("first"),
        func.max(both.c.created_at, type_=UtcTime).label("last"),
    )


def _open_failures() -> Select[Any]:
    return _by_run(still_failed().subquery(), func.count().label("failed"))


def _open_reasons() -> Select[Any]:
    """A query for why scores failed that are still missing: each reason, how often, its last message."""
    failed = schema.failures
    some = still_failed().subquery()
    newest = (
        select(func.max(failed.c.id).label("id"))
        .join(some, and_(*(failed.c[name] == some.c[name] for name in _ABOUT)))
        .group_by(*(failed.c[name] for name in _ABOUT))
        .subquery()
    )
    last = (
        select(failed.c.run, failed.c.reason, func.count().label("failed"), func.max(failed.c.id).label("id"))
        .join(newest, newest.c.id == failed.c.id)
        .group_by(failed.c.run, failed.c.reason)
        .subquery()
    )
    return (
        select(schema.runs.c.name, last.c.reason, last.c.failed, failed.c.message)
        .join(last, last.c.run == schema.runs.c.id)
        .join(failed, failed.c.id == last.c.id)
        .order_by(last.c.id)
    )


def _structures() -> Select[Any]:
    both, replies = _all_calls(), schema.replies
    asked = replies.c.structured
    query = _by_run(both, asked, func.count().label("replies")).join(replies, replies.c.id == both.c.reply)
    return query.where(asked.is_not(None)).group_by(asked).order_by(schema.runs.c.name, asked)


def _all_calls() -> Subquery:
    """A query for the calls of all runs; one that asked for several principles is a row of `calls` for each."""
    calls = schema.calls

    def rows(table: Table, column: Column[int]) -> Select[Any]:
        about = (table.c[name] for name in ("run", "sequence", "turn", "side", "created_at"))
        lost = case((calls.c.reply.is_(None), calls.c.id)).label("lost")  # nothing tells which were one
        return select(*about, calls.c.cached, calls.c.reply, lost).join(table, table.c.id == column)

    return union(rows(schema.evaluations, calls.c.evaluation), rows(schema.failures, calls.c.failure)).subquery()


def _calls() -> Select[Any]:
    both, replies = _all_calls(), schema.replies
    paid = ~both.c.cached
    query = _by_run(
        both,
        func.count().label("calls"),
        func.count().filter(both.c.cached).label("cached"),
        schema.total(replies.c.prompt_tokens, paid).label("prompt_tokens"),
        schema.total(replies.c.completion_tokens, paid).label("completion_tokens"),
    )
    return query.outerjoin(replies, replies.c.id == both.c.reply)


@dataclass(frozen=True, slots=True)
class Run(Shown):
    """One observer with one configuration, over some sequences.

    Args:
        name: unique in a store.
        observer: specification of the observer.
        context: what it could see.
        parameters: its settings.
        operating_points: calibrated threshold by detector, in the unit of the detector's score.
        code_version: version and revision of turnwise that started the run.
        created_at: when it was started, in UTC.
    """

    name: str
    observer: str
    observer_version: str
    context: str
    parameters: Mapping[str, object]
    operating_points: Mapping[str, float]
    code_version: str
    created_at: datetime

    def provenance(self, principle_version: str, code_version: str) -> Provenance:
        """Return how a score of this run came about.

        Args:
            principle_version: revision of the principle.
            code_version: version and revision of turnwise that made the score; a later one may go on with a run.
        """
        return Provenance(
            observer=self.observer,
            observer_version=self.observer_version,
            principle_version=principle_version,
            context=self.context,
            parameters=self.parameters,
            code_version=code_version,
        )


def run_names(database: Database) -> list[str]:
    return [row["name"] for row in database.read(select(schema.runs.c.name).order_by(schema.runs.c.id))]


def read_runs(database: Database, name: str | None = None) -> tuple[Run, ...]:
    """All runs of a record, oldest first, or those of a name: one or none."""
    query = select(schema.runs).order_by(schema.runs.c.id)
    found = []
    for row in database.read(query if name is None else query.where(schema.runs.c.name == name)):
        with intact(database.where, f"run {row['name']!r}"):
            found.append(_read_run(row))
    return tuple(found)


class Runs:
    """Writes the runs of a record, and keeps others from changing those that are written here."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._locks = database.run_locks()
        self._held: set[str] = set()
        self._lock = Lock()

    def close(self) -> None:
        """Let others rename and delete the runs that were written here."""
        self._locks.close()

    def start(self, run: Run) -> Run:
        """Store a run, or return the one of that name; UsageError where that was scored otherwise."""
        try:
            started = self._db.write(lambda connection: _start(connection, run)).result()
        except UsageError:
            tally = self._tally(run.name)
            if tally.evaluations or tally.failures or tally.unread:
                raise
            self.delete(run.name)  # nothing was scored: only its name is in the way; refused while somebody writes
            started = self._db.write(lambda connection: _start(connection, run)).result()
        self.hold(run.name)
        return started

    def hold(self, name: str) -> bool:
        """Keep others from renaming and deleting a run until this is closed; returns whether they could until now,
        and so what was known of the run may be wrong."""
        with self._lock:
            if self._locks.lost():
                self._held.clear()
            if name in self._held:
                return False
            self._db.until_reached(lambda: self._take(name))
            return True

    def _take(self, name: str) -> None:
        query = select(schema.runs.c.id).where(schema.runs.c.name == name)
        found = self._db.read(query)
        if found:
            key = found[0]["id"]
            self._locks.share(key)
            if self._db.read(query) == found:
                self._held.add(name)
            else:  # it was renamed or deleted meanwhile
                self._locks.release(key)

    def written_elsewhere(self, name: str) -> bool:
        with self._lock:
            return self._locks.shared_elsewhere(self._key(name))

    def rename(self, old: str, new: str) -> Run:
        if not new.strip():
            raise UsageError("a run needs a name that is not empty")
        table = schema.runs

        def write(connection: Connection) -> None:
            if connection.scalar(select(table.c.id).where(table.c.name == new)) is not None:
                raise UsageError(f"a run {new!r} already exists: choose another name, or delete it first")
            connection.execute(update(table).where(table.c.name == old).values(name=new))
            renew_edition(connection)

        self._change(old, write)
        [renamed] = read_runs(self._db, new)
        return renamed

    def delete(self, name: str) -> RunTally:
        key = self._key(name)
        deleted = self._tally(name)
        self._change(name, lambda connection: _delete(connection, key))
        return deleted

    def _change(self, name: str, write: Any) -> None:
        key = self._key(name)
        with self._lock:
            self._held.discard(name)
            with self._locks.alone(key, name):
                self._key(name)  # it may have been renamed or deleted before the lock was had
                self._db.write(write).result()

    def _key(self, name: str) -> int:
        for row in self._db.read(select(schema.runs).where(schema.runs.c.name == name)):
            key: int = row["id"]
            return key
        raise UnknownNameError("run", name, run_names(self._db))

    def _tally(self, name: str) -> RunTally:
        return tallies(self._db).get(name, RunTally(name))


def _read_run(row: RowMapping) -> Run:
    return Run(**{one.name: row[one.name] for one in fields(Run)})


def _start(connection: Connection, run: Run) -> Run:
    table = schema.runs
    row = connection.execute(select(table).where(table.c.name == run.name)).mappings().first()
    if row is None:
        values = {one.name: getattr(run, one.name) for one in fields(Run)}
        values.update(parameters=dict(run.parameters), operating_points=dict(run.operating_points))
        connection.execute(insert(table).values(values))
        return run
    stored = _read_run(row)
    for name in ("observer", "observer_version", "context", "parameters"):
        there, here = getattr(stored, name), getattr(run, name)
        if there != here:
            was, would = _differing(name.replace("_", " "), there, here)
            raise UsageError(
                f"run {run.name!r} was made with {was}, not {would}: "
                "a run never mixes configurations; use another --run"
            )
    return stored


def _delete(connection: Connection, key: int) -> None:
    """Delete all rows of a run, and those raw replies that no journal keeps and nothing else rests on."""
    scores, failures, calls, replies = schema.evaluations, schema.failures, schema.calls, schema.replies
    of_run = [(calls.c.evaluation, scores), (calls.c.failure, failures)]
    connection.execute(
        delete(calls).where(or_(*(column.in_(select(t.c.id).where(t.c.run == key)) for column, t in of_run)))
    )
    for table in (scores, failures, schema.provenances):
        connection.execute(delete(table).where(table.c.run == key))
    connection.execute(delete(schema.runs).where(schema.runs.c.id == key))
    orphans = replies.c.request_key.is_(None), *schema.unused_reply()
    if connection.dialect.name != "sqlite":  # there the indexes are always there
        connection.execute(delete(replies).where(*orphans))
    elif connection.scalar(select(exists().where(*orphans))):
        # Each deleted reply is looked for in these tables: without an index that reads all of them.
        for table in schema.RESTING_ON_REPLIES:
            connection.execute(text(f"CREATE INDEX {table.name}_by_reply ON {table.name} (reply)"))
        connection.execute(delete(replies).where(*orphans))
        for table in schema.RESTING_ON_REPLIES:
            connection.execute(text(f"DROP INDEX {table.name}_by_reply"))
    renew_edition(connection)


def _differing(field: str, there: object, here: object) -> tuple[str, str]:
    """What is stored and what is given, in words; of settings with the same names only those that differ."""
    if not (isinstance(there, Mapping) and isinstance(here, Mapping) and there.keys() == here.keys()):
        return f"{field} {there!r}", repr(here)
    names = [name for name in there if there[name] != here[name]]
    was = ", ".join(f"{name} {there[name]!r}" for name in names)
    return was, ", ".join(repr(here[name]) for name in names)
