"""The runs of a record: started once, never mixed, renamed and deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from threading import Lock
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, exists, insert, or_, select, text, update

from turnwise._support.notebook import Shown
from turnwise.errors import UnknownNameError, UsageError
from turnwise.scoring import Provenance
from turnwise.store import schema
from turnwise.store.damage import intact
from turnwise.store.database import Database, renew_edition
from turnwise.store.tallies import RunTally, tallies


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
    """The names of all runs of a record, oldest first."""
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
        """Keep others from renaming and deleting a run that is about to be written, until this is closed.

        Returns whether they could until now: then what was known of the run may be wrong.
        """
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
        """Whether another store writes a run now; see `Store.is_being_written`."""
        with self._lock:
            return self._locks.shared_elsewhere(self._key(name))

    def rename(self, old: str, new: str) -> Run:
        """Give a run another name; see `Store.rename_run`."""
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
        """Delete a run and all that was scored in it; see `Store.delete_run`."""
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
    return Run(**{field.name: row[field.name] for field in fields(Run)})


def _start(connection: Connection, run: Run) -> Run:
    table = schema.runs
    row = connection.execute(select(table).where(table.c.name == run.name)).mappings().first()
    if row is None:
        values = {field.name: getattr(run, field.name) for field in fields(Run)}
        values.update(parameters=dict(run.parameters), operating_points=dict(run.operating_points))
        connection.execute(insert(table).values(values))
        return run
    stored = _read_run(row)
    for field in ("observer", "observer_version", "context", "parameters"):
        there, here = getattr(stored, field), getattr(run, field)
        if there != here:
            was, would = _differing(field.replace("_", " "), there, here)
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
    resting = [select(table.c.reply).where(table.c.reply.is_not(None)) for table in (scores, failures, calls)]
    orphans = replies.c.request_key.is_(None), *(~replies.c.id.in_(query) for query in resting)
    if connection.dialect.name != "sqlite":  # there the indexes are always there
        connection.execute(delete(replies).where(*orphans))
    elif connection.scalar(select(exists().where(*orphans))):
        # Each deleted reply is looked for in these tables: without an index that reads all of them.
        for table in (scores, failures, calls):
            connection.execute(text(f"CREATE INDEX {table.name}_by_reply ON {table.name} (reply)"))
        connection.execute(delete(replies).where(*orphans))
        for table in (scores, failures, calls):
            connection.execute(text(f"DROP INDEX {table.name}_by_reply"))
    renew_edition(connection)


def _differing(field: str, there: object, here: object) -> tuple[str, str]:
    """What is stored and what is given, in words; of settings with the same names only those that differ."""
    if not (isinstance(there, Mapping) and isinstance(here, Mapping) and there.keys() == here.keys()):
        return f"{field} {there!r}", repr(here)
    names = [name for name in there if there[name] != here[name]]
    was = ", ".join(f"{name} {there[name]!r}" for name in names)
    return was, ", ".join(repr(here[name]) for name in names)
