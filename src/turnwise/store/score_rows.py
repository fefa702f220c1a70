"""Evaluations, failures, unread texts, calls and replies as rows of a record: appended, and read back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, RowMapping, Select, Table, insert, select
from sqlalchemy.exc import IntegrityError

from turnwise._support.batches import batched
from turnwise.conversation import Side
from turnwise.errors import UnknownNameError, UsageError
from turnwise.scoring import NOT_READ, Call, Evaluation, EvaluationKey, Failure, Reply, Score, Unread
from turnwise.store import schema
from turnwise.store.database import PAGE, Database, inserted
from turnwise.store.runs import Run, Runs

OF_REPLY = "reply_"
"""What stands before the columns of a reply where a row holds a call too."""

Outcome = Evaluation | Failure | Unread
"""What scoring gave: a score, or none and why. What was not read is a row of failures with its own reason."""


def calls_of(table: Table, keys: Collection[int]) -> Iterator[Select[Any]]:
    """Yield queries for the calls of evaluations or failures, joined with their replies, in order of repeats."""
    calls, replies = schema.calls, schema.replies
    column = calls.c.failure if table is schema.failures else calls.c.evaluation
    of_reply = [replies.c[name].label(OF_REPLY + name) for name in Reply.__slots__]
    query = select(calls, column.label("outcome"), *of_reply).outerjoin(replies, replies.c.id == calls.c.reply)
    for some in batched(keys, PAGE):
        yield query.where(column.in_(some)).order_by(calls.c.repeat, calls.c.id)


def storable(text: str) -> str:
    """A text with unpaired surrogates, which UTF-8 does not have, spelled out: no score is lost because of them.

    >>> storable("fine"), storable("cut off \\ud83d")
    ('fine', 'cut off \\\\ud83d')
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def reply_row(reply: Reply) -> dict[str, Any]:
    row = {name: getattr(reply, name) for name in Reply.__slots__}
    return {name: storable(value) if isinstance(value, str) else value for name, value in row.items()}


def reply_of_row(row: RowMapping, prefix: str = "") -> Reply:
    return Reply(**{name: row[prefix + name] for name in Reply.__slots__})


def call_row(
    call: Call, *, reply: int | None, evaluation: int | None = None, failure: int | None = None
) -> dict[str, Any]:
    """The row of a call, with the keys of its reply and of the evaluation or failure that rests on it."""
    score = call.score.to_dict() if call.score else {"T": None, "I": None, "F": None}
    words = {"reasoning": call.reasoning, "reason": call.reason, "message": call.message}
    return {
        "evaluation": evaluation,
        "failure": failure,
        "repeat": call.repeat,
        "reply": reply,
        **score,
        **{name: None if text is None else storable(text) for name, text in words.items()},
        "cached": call.cached,
        "attempts": call.attempts,
    }


def read_call(row: RowMapping) -> Call:
    return Call(
        repeat=row["repeat"],
        reply=None if row["reply"] is None else reply_of_row(row, OF_REPLY),
        score=None if row["T"] is None else Score(row["T"], row["I"], row["F"]),
        reasoning=row["reasoning"],
        reason=row["reason"],
        message=row["message"],
        cached=row["cached"],
        attempts=row["attempts"],
    )


def score_row(scored: Outcome, run: int, sequence: int, provenance: int, reply: int | None) -> dict[str, Any]:
    row = {
        "run": run,
        "sequence": sequence,
        "principle": scored.key.principle,
        "turn": scored.key.turn,
        "side": str(scored.key.side),
        "provenance": provenance,
        "reply": reply,
        "latency_s": None if isinstance(scored, Unread) else scored.latency_s,
        "cost_usd": None if isinstance(scored, Unread) else scored.cost_usd,
        "created_at": scored.created_at,
    }
    if isinstance(scored, Unread):
        return {**row, "reason": NOT_READ, "message": storable(scored.language)}
    if isinstance(scored, Failure):
        return {**row, "reason": scored.reason, "message": storable(scored.message)}
    reasoning = None if scored.reasoning is None else storable(scored.reasoning)
    return {**row, **scored.score.to_dict(), "reasoning": reasoning}


def read_evaluation(row: RowMapping, run: Run, sequence_id: str, calls: tuple[Call, ...]) -> Evaluation:
    score = Score(row["T"], row["I"], row["F"])
    return Evaluation(score=score, reasoning=row["reasoning"], **_common(row, run, sequence_id, calls))


def read_failure(row: RowMapping, run: Run, sequence_id: str, calls: tuple[Call, ...]) -> Failure:
    return Failure(reason=row["reason"], message=row["message"], **_common(row, run, sequence_id, calls))


def read_unread(row: RowMapping, run: Run, sequence_id: str) -> Unread:
    about = _common(row, run, sequence_id, ())
    return Unread(about["key"], row["message"], about["provenance"], about["created_at"])


def _common(row: RowMapping, run: Run, sequence_id: str, calls: tuple[Call, ...]) -> dict[str, Any]:
    provenance = run.provenance(row["principle_version"], row["code_version"])
    kept = {name: row[name] for name in ("created_at", "raw_reply", "latency_s", "cost_usd")}
    key = EvaluationKey(run.name, sequence_id, row["turn"], Side(row["side"]), row["principle"])
    return {"key": key, "provenance": provenance, "calls": calls, **kept}


_MOST_KEYS: Final = 20_000
"""Keys that are remembered at most; then remembering begins anew."""

_Keys = dict[tuple[object, ...], int]
"""Keys of rows by what names them."""


class Appender:
    """Appends to a record, and remembers keys that committed transactions have seen."""

    # Rows of runs and provenances are deleted only where no store holds a lock on the run (`RunLocks`).

    def __init__(self, database: Database, runs: Runs) -> None:
        self._db = database
        self._runs = runs
        self._known: _Keys = {}

    def forget_keys(self) -> None:
        """Look up all keys anew, after a run was renamed or deleted."""
        self._known.clear()

    def append(self, scored: Iterable[Outcome]) -> Future[None]:
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
    """Looks up keys inside one transaction, which `learned` takes; `known` are those of committed ones."""

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
        key = self._known.get(origin) or self._learned.get(origin)
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
        values = {"run": run, "principle": principle, "principle_version": version, "code_version": code_version}
        return inserted(self._connection, table, values)


class _Identity(NamedTuple):
    """What tells a reply from all others; its text may not."""

    request_key: str
    repeat: int
    nonce: str
    received_at: datetime
