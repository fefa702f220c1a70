"""Appends scores to a record: evaluations, failures and unread texts, with the calls and replies they rest on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Table, insert, select
from sqlalchemy.exc import IntegrityError

from turnwise._support.batches import batched
from turnwise.errors import UnknownNameError, UsageError
from turnwise.scoring import Call, Evaluation, Reply, Unread
from turnwise.store import schema
from turnwise.store.database import PAGE, Database, inserted
from turnwise.store.runs import Runs
from turnwise.store.score_rows import Outcome, call_row, reply_row, score_row, storable

_MOST_KEYS: Final = 20_000
"""Keys that are remembered at most; then remembering begins anew."""

_Keys = dict[tuple[object, ...], int]
"""Keys of rows by what names them."""


class Appender:
    """Appends to a record, and remembers keys that committed transactions have seen.

    Rows of sequences are never deleted; those of runs and provenances only where no store holds a lock on the run
    (`turnwise.store.backend.RunLocks`).
    """

    def __init__(self, database: Database, runs: Runs) -> None:
        self._db = database
        self._runs = runs
        self._known: _Keys = {}

    def forget_keys(self) -> None:
        """Look up all keys anew, after a run was renamed or deleted."""
        self._known.clear()

    def append(self, scored: Iterable[Outcome]) -> Future[None]:
        """Queue evaluations, failures and unread texts for one transaction; see `Store.append_soon`."""
        given = list(scored)
        fresh = {self._runs.hold(run) for run in {one.key.run for one in given}}
        if True in fresh:
            self.forget_keys()
        learned: _Keys = {}

        def write(connection: Connection) -> None:
            learned.clear()  # of a transaction that came to nothing
            _append(connection, given, _KeyLookup(connection, self._known, learned))

        def remember(done: Future[None]) -> None:
            if not done.cancelled() and done.exception() is None:
                if len(self._known) + len(learned) > _MOST_KEYS:
                    self._known.clear()
                self._known.update(learned)

        future = self._db.write(write)
        future.add_done_callback(remember)
        return future


def _append(connection: Connection, scored: Sequence[Outcome], keys: _KeyLookup) -> None:
    """Write evaluations, failures and unread texts inside a transaction; UsageError where one is there already."""
    runs = keys.of(schema.runs, "name", {one.key.run for one in scored}, "run")
    ids = {one.key.sequence_id for one in scored}
    sequences = keys.of(schema.sequences, "sequence_id", ids, "sequence")
    replies = _reply_keys(connection, [call.reply for one in scored for call in _calls(one) if call.reply])
    rows: dict[Table, list[dict[str, Any]]] = {schema.evaluations: [], schema.failures: []}
    calls: dict[Table, list[tuple[Call, ...]]] = {schema.evaluations: [], schema.failures: []}
    for one in scored:
        run = runs[one.key.run]
        principle = one.key.principle, one.provenance.principle_version
        provenance = keys.of_provenance(run, *principle, one.provenance.code_version)
        table = schema.evaluations if isinstance(one, Evaluation) else schema.failures
        about = run, sequences[one.key.sequence_id], provenance
        rows[table].append(score_row(one, *about, _raw_reply_key(connection, one, replies)))
        calls[table].append(_calls(one))
    try:
        for table, some in rows.items():
            _insert_with_calls(connection, table, some, calls[table], replies)
    except IntegrityError as error:
        raise UsageError(
            f"an evaluation of run {scored[0].key.run!r} is in the store already: it was given "
            "twice, or another process scores the same run; the same command continues"
        ) from error


def _insert_with_calls(
    connection: Connection,
    table: Table,
    rows: Sequence[dict[str, Any]],
    calls: Sequence[tuple[Call, ...]],
    replies: Mapping[_Identity, int],
) -> None:
    """Write rows of evaluations or failures, and the calls that each rests on."""
    if not any(calls):
        if rows:
            connection.execute(insert(table), rows)
        return
    statement = insert(table).returning(table.c.id, sort_by_parameter_order=True)
    column = "failure" if table is schema.failures else "evaluation"
    made = [
        call_row(call, reply=replies[_identity(call.reply)] if call.reply else None, **{column: key})
        for key, of_row in zip(connection.scalars(statement, rows), calls, strict=True)
        for call in of_row
    ]
    connection.execute(insert(schema.calls), made)


def _reply_keys(connection: Connection, given: Sequence[Reply]) -> dict[_Identity, int]:
    """The keys of replies; those that no journal has kept are written now."""
    table = schema.replies
    columns = [table.c[name] for name in ("id", "request_key", "repeat", "nonce", "received_at")]
    found: dict[_Identity, int] = {}
    for some in batched(dict.fromkeys(storable(reply.request_key) for reply in given), PAGE):
        for row in connection.execute(select(*columns).where(table.c.request_key.in_(some))):
            found[_Identity(*row[1:])] = row[0]
    for reply in given:
        if _identity(reply) not in found:
            found[_identity(reply)] = inserted(connection, table, reply_row(reply))
    return found


def _identity(reply: Reply) -> _Identity:
    return _Identity(storable(reply.request_key), reply.repeat, storable(reply.nonce), reply.received_at)


def _calls(one: Outcome) -> tuple[Call, ...]:
    return () if isinstance(one, Unread) else one.calls


def _raw_reply_key(connection: Connection, one: Outcome, replies: Mapping[_Identity, int]) -> int | None:
    """The key of the raw reply of a score: that of a call, where it came with one."""
    if isinstance(one, Unread) or one.raw_reply is None:
        return None
    for call in one.calls:
        if call.reply is not None and call.reply.text == one.raw_reply:
            return replies[_identity(call.reply)]
    values = {"text": storable(one.raw_reply), "received_at": one.created_at}
    return inserted(connection, schema.replies, values)


class _KeyLookup:
    """Looks up keys inside one transaction, and makes those of provenances that are new.

    `known` is what committed transactions have seen; `learned` takes what this one sees.
    """

    def __init__(self, connection: Connection, known: _Keys, learned: _Keys) -> None:
        self._connection = connection
        self._known = known
        self._learned = learned

    def of(self, table: Table, column: str, names: set[str], kind: str) -> dict[str, int]:
        """The keys of the rows with these names; UnknownNameError where one is not there."""
        found = {name: key for name in names if (key := self._known.get((table.name, name))) is not None}
        for some in batched(names - found.keys(), PAGE):
            rows = self._connection.execute(select(table.c[column], table.c.id).where(table.c[column].in_(some)))
            found.update((row[0], row[1]) for row in rows)
        for name in names:
            if name not in found:
                raise UnknownNameError(kind, name, found)
            self._learned[table.name, name] = found[name]
        return found

    def of_provenance(self, run: int, principle: str, version: str, code_version: str) -> int:
        """The key of a provenance, made now where there is none; UsageError where the run has another version."""
        origin = run, principle, version, code_version
        key = self._known.get(origin)
        if key is None:
            key = self._learned.get(origin)
        if key is None:
            key = self._learned[origin] = self._stored_provenance(*origin)
        return key

    def _stored_provenance(self, run: int, principle: str, version: str, code_version: str) -> int:
        table = schema.provenances
        query = select(table).where(table.c.run == run, table.c.principle == principle)
        for row in self._connection.execute(query).mappings():
            if row["principle_version"] != version:
                raise UsageError(
                    f"principle {principle!r} was scored in version {row['principle_version']}, not {version}, in "
                    "this run: use another --run"
                )
            if row["code_version"] == code_version:
                stored: int = row["id"]
                return stored
        values = {
            "run": run,
            "principle": principle,
            "principle_version": version,
            "code_version": code_version,
        }
        return inserted(self._connection, table, values)


class _Identity(NamedTuple):
    """What tells a reply from all others; its text may not."""

    request_key: str
    repeat: int
    nonce: str
    received_at: datetime
