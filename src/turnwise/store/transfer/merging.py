"""Imports an export or another store: in one transaction adds what is new, leaves what is there, lists clashes."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Event
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Table, func, insert, select, text
from sqlalchemy.exc import IntegrityError

from turnwise._support.batches import batched
from turnwise._support.locations import to_path
from turnwise._support.notebook import Shown
from turnwise.errors import StoreCorruptError, StoreError, UsageError
from turnwise.store import schema
from turnwise.store.damaged_rows import UNFIT, check_content, check_places
from turnwise.store.database import BUSY_SECONDS, PAGE, Database
from turnwise.store.runs import Runs
from turnwise.store.transfer.folder import ExportFolder
from turnwise.store.transfer.snapshot import TABLES, Importable, Row, conversations, read_snapshot


class KeyMap:
    """Keys by keys, kept as stretches that are shifted alike: a million rows that follow each other are one.

    >>> keys = KeyMap()
    >>> for old, new in ((1, 11), (2, 12), (5, 3)):
    ...     keys.add(old, new)
    >>> keys.get(2), keys.get(5), keys.get(3)
    (12, 3, None)
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._shifts: list[int] = []

    def add(self, old: int, new: int) -> None:
        """Add a key; ValueError where it does not follow the one before."""
        if self._ends and old <= self._ends[-1]:
            raise ValueError("rows are not in the order of their keys, or a key is there twice")
        if self._ends and old == self._ends[-1] + 1 and new - old == self._shifts[-1]:
            self._ends[-1] = old
            return
        self._starts.append(old)
        self._ends.append(old)
        self._shifts.append(new - old)

    def get(self, old: int) -> int | None:
        place = bisect_right(self._starts, old) - 1
        return old + self._shifts[place] if place >= 0 and old <= self._ends[place] else None


class Twins:
    """The rows of a table up to the key `last`, which were there before an import; looked for by the column `by`,
    and equal if they differ in `ignored` columns only."""

    def __init__(
        self, connection: Connection, table: Table, last: int, by: str, ignored: Collection[str] = ("id",)
    ) -> None:
        self._connection = connection
        self._table = table
        self._last = last
        self._by = by
        self._said = [column.name for column in table.columns if column.name not in ignored]
        self._taken: set[int] = set()

    def of(self, rows: Iterable[Row], *conditions: ColumnElement[bool]) -> list[int | None]:
        """The key of the row of the store that is equal to each of some rows, None where there is none left."""
        given, table = list(rows), self._table
        if not self._last:
            return [None] * len(given)
        found: dict[str, list[int]] = {}
        column = table.c[self._by]
        for some in batched(dict.fromkeys(row[self._by] for row in given), PAGE):
            query = select(table).where(column.in_(some), table.c.id <= self._last, *conditions)
            for stored in self._connection.execute(query.order_by(table.c.id)).mappings():
                if stored["id"] not in self._taken:
                    found.setdefault(self._content(stored), []).append(stored["id"])
        keys: list[int | None] = []
        for row in given:
            equal = found.get(self._content(row))
            keys.append(equal.pop(0) if equal else None)
        self._taken.update(key for key in keys if key is not None)
        return keys

    def _content(self, row: Any) -> str:
        return json.dumps([row[name] for name in self._said], sort_keys=True, default=str)


_SHOWN = 12
"""Clashes that a message lists at most."""

_CONFIGURATION = ("observer", "observer_version", "context", "parameters", "operating_points")
"""What runs of one name must share."""

_BY_TIME = "replies_by_time"


@dataclass(frozen=True, slots=True)
class Merged(Shown):
    """What an import of another store did: rows that are new and rows that were there already, by table."""

    source: str
    added: Mapping[str, int]
    already: Mapping[str, int]


class Merge:
    """One import, run once; setting `stopped` makes it fail at the next page, so that nothing is imported."""

    def __init__(self, source: Importable, target: str, stopped: Event) -> None:
        self._source = source
        self.name = source.name
        self._target = target
        self._stopped = stopped
        self._clashes: list[str] = []
        self._added: Counter[str] = Counter()
        self._already: Counter[str] = Counter()
        self._keys = {table.name: KeyMap() for table in TABLES}
        self._last: dict[str, int] = {}

    def run(self, connection: Connection) -> Merged:
        """Do it, in a transaction that writes, and that must be rolled back if this raises."""
        self._connection = connection
        keyed = [table for table in TABLES if "id" in table.c]
        self._last = {
            table.name: connection.scalar(select(func.coalesce(func.max(table.c.id), 0))) or 0 for table in keyed
        }
        try:
            self._merge_runs()
            self._merge_sequences()
            self._refuse_clashes()
            self._merge_provenances()
            self._refuse_clashes()
            self._merge_replies()
            self._merge_evaluations()
            self._refuse_clashes()
            self._merge_failures()
            self._merge_calls()
            for table in (schema.corrections, schema.human_scores, schema.reviews):
                self._merge_said(table, "sequence")
            self._merge_said(schema.audit_events, "time")
        except IntegrityError as error:
            reason = str(error.orig).split("\n", 1)[0]
            raise StoreCorruptError(
                f"{self.name} is damaged: its rows don't fit together ({reason}); nothing was imported; "
                "export it again"
            ) from error
        for table in (schema.evaluations, schema.failures, schema.human_scores):
            check_places(connection, self.name, table, table.c.id > self._last[table.name])
        for table in keyed:
            self._count_on(table)
        added = {table.name: self._added[table.name] for table in TABLES}
        return Merged(self.name, added, {table.name: self._already[table.name] for table in TABLES})

    # Tables in the order in which they name each other

    def _merge_runs(self) -> None:
        table = schema.runs
        for page in self.pages(table):
            rows = self._connection.execute(select(table).where(table.c.name.in_([row["name"] for row in page])))
            there = {row["name"]: row for row in rows.mappings()}
            for row in page:
                stored = there.get(row["name"], row)
                differing = [name.replace("_", " ") for name in _CONFIGURATION if stored[name] != row[name]]
                if differing:
                    self._clashes.append(f"run {row['name']!r} has other {' and '.join(differing)}")
            keys = {name: row["id"] for name, row in there.items()}
            self._merge_found(table, page, [keys.get(row["name"]) for row in page])

    def _merge_sequences(self) -> None:
        table = schema.sequences
        for page in conversations(self):
            query = select(table.c.sequence_id, table.c.id, table.c.content_sha256)
            rows = self._connection.execute(
                query.where(table.c.sequence_id.in_([row["sequence_id"] for row, _ in page]))
            )
            there = {name: found for name, *found in rows}
            fresh: list[dict[str, Any]] = []
            fresh_turns: list[dict[str, Any]] = []
            for row, mine in page:
                with self._fitting(f"sequence {row['sequence_id']!r}"):
                    check_content(row, mine)
                if row["sequence_id"] in there:
                    key, content = there[row["sequence_id"]]
                    self._keep(table, row, key)
                    self._already["turns"] += len(mine)
                    if content != row["content_sha256"]:
                        self._clashes.append(f"sequence {row['sequence_id']!r} has other content")
                    continue
                new = self._new(table, row)
                fresh.append(new)
                fresh_turns += ({**turn, "sequence": new["id"]} for turn in mine)
            self._insert(table, fresh)
            self._insert(schema.turns, fresh_turns)

    def _merge_provenances(self) -> None:
        table = schema.provenances
        for page in self.pages(table):
            named_rows, keys = [], []
            for row in page:
                named = self._named(table, row)
                query = select(table).where(table.c.run == named["run"], table.c.principle == row["principle"])
                query = query.where(table.c.id <= self._last[table.name])
                stored = self._connection.execute(query).mappings().all()
                for one in stored:
                    if one["principle_version"] != row["principle_version"]:
                        run = self._name(schema.runs.c.name, named["run"])
                        versions = f"version {row['principle_version']}, not {one['principle_version']}"
                        self._clashes.append(f"run {run!r}, principle {row['principle']!r}: {versions}")
                named_rows.append(named)
                equal = (one["id"] for one in stored if one["code_version"] == row["code_version"])
                keys.append(next(equal, None))
            self._merge_found(table, named_rows, keys)

    def _merge_replies(self) -> None:
        table, last = schema.replies, self._last["replies"]
        if last:  # those that no journal kept can be told by their time alone
            self._connection.execute(text(f"CREATE INDEX {_BY_TIME} ON replies (received_at)"))
        ignored = ("id", "reusable")  # whether one answers again is the store's own affair
        twins = {by: Twins(self._connection, table, last, by, ignored) for by in ("request_key", "received_at")}
        for page in self.pages(table):
            found: dict[int, int] = {}
            for by, unkeyed in (("request_key", False), ("received_at", True)):
                rows = [row for row in page if (row.get("request_key") is None) is unkeyed]
                keys = twins[by].of(rows, table.c.request_key.is_(None) if unkeyed else table.c.request_key != "")
                found |= {row["id"]: key for row, key in zip(rows, keys, strict=True) if key is not None}
            self._merge_found(table, page, [found.get(row["id"]) for row in page])
        if last:
            self._connection.execute(text(f"DROP INDEX {_BY_TIME}"))

    def _merge_evaluations(self) -> None:
        table = schema.evaluations
        about = ("run", "sequence", "principle", "turn", "side")
        said = [column.name for column in table.columns if column.name != "id"]
        for page in self.pages(table):
            rows = [self._named(table, row) for row in page]
            there = {tuple(row[name] for name in about): row for row in self._of_old_runs(table, rows)}
            stored = [there.get(tuple(row[name] for name in about)) for row in rows]
            for row, other in zip(rows, stored, strict=True):
                if other is not None and any(other[name] != row[name] for name in said):
                    self._clashes.append(self._differing_score(other, row))
            self._merge_found(table, rows, [None if other is None else other["id"] for other in stored])

    def _merge_failures(self) -> None:
        table = schema.failures
        twins = Twins(self._connection, table, self._last[table.name], "sequence")
        for page in self.pages(table):
            rows = [self._named(table, row) for row in page]
            old = [self._is_old("runs", row["run"]) and self._is_old("sequences", row["sequence"]) for row in rows]
            keys = iter(twins.of(row for row, may_be in zip(rows, old, strict=True) if may_be))
            self._merge_found(table, rows, [next(keys) if may_be else None for may_be in old])

    def _merge_calls(self) -> None:
        table = schema.calls
        for page in self.pages(table):
            fresh = []
            for row in page:
                new = self._named(table, row)
                outcomes = ("evaluations", new["evaluation"]), ("failures", new["failure"])
                if any(key and self._is_old(other, key) for other, key in outcomes):
                    self._already[table.name] += 1
                else:
                    fresh.append(self._new(table, new))
            self._insert(table, fresh)

    def _merge_said(self, table: Table, by: str) -> None:
        """Add what people said, or a guard's audit; rows are looked for by a column."""
        twins = Twins(self._connection, table, self._last[table.name], by)
        for page in self.pages(table):
            rows = [self._named(table, row) for row in page]
            self._merge_found(table, rows, twins.of(rows))

    # Rows

    def pages(self, table: Table) -> Iterator[list[Row]]:
        """Yield the rows of a table of what is imported; StoreError where it is damaged, or to be stopped."""
        for page in self._source.pages(table):
            if self._stopped.is_set():
                raise StoreError("the import was stopped and nothing was imported; the same command begins again")
            yield page

    def _merge_found(self, table: Table, rows: Iterable[Row], found: Iterable[int | None]) -> None:
        fresh = []
        for row, key in zip(rows, found, strict=True):
            if key is None:
                fresh.append(self._new(table, row))
            else:
                self._keep(table, row, key)
        self._insert(table, fresh)

    def _new(self, table: Table, row: Row) -> dict[str, Any]:
        """A row under its new key: as far above the last one in the store as it was above nothing."""
        key = self._last[table.name] + row["id"]
        with self._fitting(f"row {row['id']} of {table.name}"):
            if row["id"] < 1:
                raise ValueError("keys count from 1")
            self._keys[table.name].add(row["id"], key)
        return {**row, "id": key}

    def _keep(self, table: Table, row: Row, key: int) -> None:
        with self._fitting(f"row {row['id']} of {table.name}"):
            self._keys[table.name].add(row["id"], key)
        self._already[table.name] += 1

    def _insert(self, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
        names = [column.name for column in table.columns]
        given = [{name: row[name] for name in names if name in row} for row in rows]
        if given:
            self._connection.execute(insert(table), given)
            self._added[table.name] += len(given)

    def _named(self, table: Table, row: Row) -> dict[str, Any]:
        return {
            **row,
            **{name: self._key(table, row, name, other) for name, other in _named_tables(table).items()},
        }

    def _key(self, table: Table, row: Row, column: str, other: str) -> int | None:
        """The key in the store of what a row names in another table; None where it names nothing."""
        if row[column] is None:
            return None
        found = self._keys[other].get(row[column])
        if found is None:
            raise StoreCorruptError(
                f"{self.name} is damaged: row {row['id']} of {table.name} is about row {row[column]} of {other}, "
                "which is not there; nothing was imported: restore a copy"
            )
        return found

    def _is_old(self, table: str, key: int) -> bool:
        return key <= self._last[table]

    def _of_old_runs(self, table: Table, rows: list[dict[str, Any]]) -> Iterable[Any]:
        """What the store had of the runs and sequences of some rows, where it had both before the import."""
        runs = {row["run"] for row in rows if self._is_old("runs", row["run"])}
        sequences = {row["sequence"] for row in rows if self._is_old("sequences", row["sequence"])}
        if not (runs and sequences):
            return ()
        query = select(table).where(table.c.run.in_(runs), table.c.sequence.in_(sequences))
        return self._connection.execute(query.where(table.c.id <= self._last[table.name])).mappings()

    def _count_on(self, table: Table) -> None:
        """Let PostgreSQL number the next row behind those that were added under keys of their own."""
        if self._connection.dialect.name == "postgresql" and self._added[table.name]:
            serial = f"pg_get_serial_sequence('{table.name}', 'id')"
            self._connection.execute(text(f"SELECT setval({serial}, (SELECT max(id) FROM {table.name}))"))

    # Errors

    @contextmanager
    def _fitting(self, what: str) -> Iterator[None]:
        try:
            yield
        except UNFIT as error:
            reason = str(error).split("\n", 1)[0]
            raise StoreCorruptError(
                f"{self.name} is damaged: {what} can't be read ({reason}); nothing was imported; export it again"
            ) from error

    def _differing_score(self, stored: Row, row: Row) -> str:
        run = self._name(schema.runs.c.name, row["run"])
        name = self._name(schema.sequences.c.sequence_id, row["sequence"])
        what = "another score" if any(stored[part] != row[part] for part in "TIF") else "the same score, made anew"
        return f"run {run!r}, sequence {name!r}, turn {row['turn']}, {row['side']}, {row['principle']}: {what}"

    def _name(self, column: Column[str], key: int) -> str | None:
        return self._connection.scalar(select(column).where(column.table.c.id == key))

    def _refuse_clashes(self) -> None:
        if not self._clashes:
            return
        count = len(self._clashes)
        more = [f"and {count - _SHOWN} more"] if count > _SHOWN else []
        things = "1 thing clashes" if count == 1 else f"{count} things clash"
        first = (
            f"{self.name} can't be imported: {things} with what {self._target} holds. Nothing was "
            "imported; give the run another name with turnwise runs rename, or import into another store"
        )
        raise UsageError("\n  ".join([first, *self._clashes[:_SHOWN], *more]))


@cache
def _named_tables(table: Table) -> dict[str, str]:
    """The names of the tables whose keys a table has, by the column that has them."""
    return {column.name: key.column.table.name for column in table.columns for key in column.foreign_keys}


def import_record(database: Database, runs: Runs, location: str | Path) -> Merged:
    name = str(location)
    if "://" not in name and "\0" not in name and to_path(name).is_dir():
        return _merged(database, runs, ExportFolder(name))
    other = Database(name, create=False, clock=database.clock, busy_seconds=BUSY_SECONDS)
    try:
        return read_snapshot(other, lambda record: _merged(database, runs, record))
    finally:
        other.close()


def _merged(database: Database, runs: Runs, source: Importable) -> Merged:
    for page in source.pages(schema.runs):
        for row in page:
            runs.hold(row["name"])
    stopped = Event()
    job = database.write(lambda connection: Merge(source, database.where, stopped).run(connection))
    try:
        return job.result()
    except BaseException:  # somebody pressed Ctrl-C, and does not want it any more
        stopped.set()
        raise
