"""Writing evaluations and failures: with what they are about, where they come from, and what they rest on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, Table, insert, select
from sqlalchemy.exc import IntegrityError

from turnwise.batches import batched
from turnwise.errors import UsageError
from turnwise.scoring import Call, Evaluation, Failure, Reply
from turnwise.store import schema
from turnwise.store.call_records import OF_REPLY, call_row, reply_row
from turnwise.store.database import PAGE
from turnwise.store.keys import KeyLookup, inserted
from turnwise.store.records import outcome_row, storable

Outcome = Evaluation | Failure


class _Identity(NamedTuple):
    """What tells a reply from all others; its text need not."""

    request_key: str
    repeat: int
    nonce: str
    received_at: datetime


def append(connection: Connection, outcomes: Sequence[Outcome], keys: KeyLookup) -> None:
    """Write outcomes inside a transaction.

    Args:
        connection: in a transaction that writes.
        outcomes: what is to be written.
        keys: looks up runs, sequences and provenances in the same transaction.

    Raises:
        UsageError: an evaluation is there already, or its principle was scored in another version.
        UnknownNameError: a run or sequence that the store does not have.
    """
    runs = keys.of(schema.runs, "name", {outcome.key.run for outcome in outcomes}, "run")
    ids = {outcome.key.sequence_id for outcome in outcomes}
    sequences = keys.of(schema.sequences, "sequence_id", ids, "sequence")
    replies = _reply_keys(connection, [call.reply for outcome in outcomes for call in outcome.calls if call.reply])
    rows: dict[Table, list[dict[str, Any]]] = {schema.evaluations: [], schema.failures: []}
    calls: dict[Table, list[tuple[Call, ...]]] = {schema.evaluations: [], schema.failures: []}
    for outcome in outcomes:
        run = runs[outcome.key.run]
        principle = outcome.key.principle, outcome.provenance.principle_version
        provenance = keys.of_provenance(run, *principle, outcome.provenance.code_version)
        table = schema.failures if isinstance(outcome, Failure) else schema.evaluations
        about = run, sequences[outcome.key.sequence_id], provenance
        rows[table].append(outcome_row(outcome, *about, _raw_reply_key(connection, outcome, replies)))
        calls[table].append(outcome.calls)
    try:
        for table, some in rows.items():
            _insert_with_calls(connection, table, some, calls[table], replies)
    except IntegrityError as error:
        raise UsageError(
            f"an evaluation of run {outcomes[0].key.run!r} is in the store already: it was given "
            "twice, or another process scores the same run; the same command continues"
        ) from error


def calls_of(table: Table, keys: Collection[int]) -> Iterator[Select[Any]]:
    """Yield queries for the calls of evaluations or failures, joined with their replies, in order of repeats.

    Args:
        table: the table of evaluations or of failures.
        keys: theirs.
    """
    calls, replies = schema.calls, schema.replies
    column = calls.c.failure if table is schema.failures else calls.c.evaluation
    of_reply = [replies.c[name].label(OF_REPLY + name) for name in Reply.__slots__]
    query = select(calls, column.label("outcome"), *of_reply).outerjoin(replies, replies.c.id == calls.c.reply)
    for some in batched(keys, PAGE):
        yield query.where(column.in_(some)).order_by(calls.c.repeat, calls.c.id)


def _insert_with_calls(
    connection: Connection,
    table: Table,
    rows: Sequence[dict[str, Any]],
    calls: Sequence[tuple[Call, ...]],
    replies: Mapping[_Identity, int],
) -> None:
    """Write rows of evaluations or failures, and behind each the calls that it rests on."""
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
    """Return the keys of replies, written now where no journal has kept them."""
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


def _raw_reply_key(connection: Connection, outcome: Outcome, replies: Mapping[_Identity, int]) -> int | None:
    """Return the key of the raw reply of an outcome, which is that of a call where it came with one."""
    if outcome.raw_reply is None:
        return None
    for call in outcome.calls:
        if call.reply is not None and call.reply.text == outcome.raw_reply:
            return replies[_identity(call.reply)]
    values = {"text": storable(outcome.raw_reply), "received_at": outcome.created_at}
    return inserted(connection, schema.replies, values)
