"""The tables of the record, and the numbered migrations that bring those of older stores up to date.

sequences ─┬─ turns
           ├─ evaluations, failures ─┬─ provenances ─ runs
           │                         ├─ replies
           │                         └─ calls ─ replies
           └─ corrections, human_scores, reviews
audit_events, erasures
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Connection,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    UniqueConstraint,
    cast,
    func,
    insert,
    inspect,
    select,
    text,
    true,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from turnwise.clock import Clock
from turnwise.conversation import Label, Side
from turnwise.errors import StoreCorruptError, StoreVersionError
from turnwise.store.column_types import Share, UtcTime, Whole, Word, amount_type, count_type, text_type

metadata = MetaData()


def total(column: Column[int], condition: ColumnElement[bool] | None = None) -> ColumnElement[int]:
    """The sum of a column of whole numbers, over the rows where `condition` holds; 0 where there are none."""
    added = func.sum(column) if condition is None else func.sum(column).filter(condition)
    return func.coalesce(cast(added, BigInteger), 0)  # sums of 64 bits are decimals in PostgreSQL


schema_migrations = Table(
    "schema_migrations",
    metadata,
    Column("version", Whole(1), primary_key=True, autoincrement=False),
    Column("name", text_type(), nullable=False),
    Column("applied_at", UtcTime, nullable=False),
)

sequences = Table(
    "sequences",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("sequence_id", text_type(), nullable=False, unique=True),
    Column("label", Word(Label, 16), nullable=False),
    Column("source", text_type(), nullable=False),
    Column("turns", Whole(1), nullable=False),
    Column("content_sha256", text_type(64), nullable=False),
    Column("conversation", JSON, nullable=False),
    Column("metadata", JSON, nullable=False),
    Column("imported_at", UtcTime, nullable=False),
    Index("sequences_by_label", "label"),
)

turns = Table(
    "turns",
    metadata,
    Column("sequence", ForeignKey("sequences.id"), primary_key=True),
    Column("turn", Whole(1), primary_key=True),
    Column("prompt", text_type(), nullable=False),
    Column("response", text_type()),
    Column("prompt_chars", Whole(0), nullable=False),
    Column("response_chars", Whole(0), nullable=False),
    Column("timestamp", UtcTime),
    Column("response_timestamp", UtcTime),
    Column("metadata", JSON, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", text_type(), nullable=False, unique=True),
    Column("observer", text_type(), nullable=False),
    Column("observer_version", text_type(), nullable=False),
    Column("context", text_type(32), nullable=False),
    Column("parameters", JSON, nullable=False),
    Column("operating_points", JSON, nullable=False),
    Column("code_version", text_type(), nullable=False),
    Column("created_at", UtcTime, nullable=False),
)

provenances = Table(
    "provenances",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run", ForeignKey("runs.id"), nullable=False),
    Column("principle", text_type(), nullable=False),
    Column("principle_version", text_type(), nullable=False),
    Column("code_version", text_type(), nullable=False),
    UniqueConstraint("run", "principle", "principle_version", "code_version"),
)

replies = Table(
    "replies",
    metadata,
    Column("id", count_type(), primary_key=True),
    Column("text", text_type(), nullable=False),
    Column("received_at", UtcTime, nullable=False),
    # The rest is known only of replies that were bought, and so came through the journal.
    Column("request_key", text_type(64)),
    Column("repeat", count_type()),
    Column("model", text_type()),
    Column("finish_reason", text_type()),
    Column("refusal", text_type()),
    Column("prompt_tokens", count_type()),
    Column("completion_tokens", count_type()),
    Column("cost_usd", amount_type()),
    Column("latency_s", amount_type()),
    Column("nonce", text_type()),
    Column("reusable", Boolean, nullable=False, server_default=true()),
    Column("structured", text_type(16)),
    Column("logprobs", text_type()),
    Index("replies_by_request", "request_key", "repeat"),
)


def _in_range(name: str) -> CheckConstraint:
    return CheckConstraint('"T" BETWEEN 0 AND 1 AND "I" BETWEEN 0 AND 1 AND "F" BETWEEN 0 AND 1', name=name)


def _what_it_is_about() -> list[Column[object]]:
    return [
        Column("run", ForeignKey("runs.id"), nullable=False),
        Column("sequence", ForeignKey("sequences.id"), nullable=False),
        Column("principle", text_type(), nullable=False),
        Column("turn", Whole(1), nullable=False),
        Column("side", Word(Side, 8), nullable=False),
        Column("provenance", ForeignKey("provenances.id"), nullable=False),
        Column("reply", ForeignKey("replies.id")),
        Column("latency_s", amount_type()),
        Column("cost_usd", amount_type()),
        Column("created_at", UtcTime, nullable=False),
    ]


evaluations = Table(
    "evaluations",
    metadata,
    Column("id", count_type(), primary_key=True),
    *_what_it_is_about(),
    Column("T", Share(), nullable=False),
    Column("I", Share(), nullable=False),
    Column("F", Share(), nullable=False),
    Column("reasoning", text_type()),
    UniqueConstraint("run", "sequence", "principle", "turn", "side"),
    _in_range("in_range"),
    CheckConstraint("side IN ('prompt', 'response')", name="known_side"),
)

failures = Table(
    "failures",
    metadata,
    Column("id", count_type(), primary_key=True),
    *_what_it_is_about(),
    Column("reason", text_type(), nullable=False),
    Column("message", text_type(), nullable=False),
    Index("failures_by_run", "run", "sequence"),
)

calls = Table(
    "calls",
    metadata,
    Column("id", count_type(), primary_key=True),
    Column("evaluation", ForeignKey("evaluations.id")),
    Column("failure", ForeignKey("failures.id")),
    Column("repeat", count_type(), nullable=False),
    Column("reply", ForeignKey("replies.id")),
    Column("T", Share(optional=True)),
    Column("I", Share(optional=True)),
    Column("F", Share(optional=True)),
    Column("reasoning", text_type()),
    Column("reason", text_type()),
    Column("message", text_type()),
    Column("cached", Boolean, nullable=False),
    Column("attempts", count_type(), nullable=False),
    Index("calls_by_evaluation", "evaluation"),
    Index("calls_by_failure", "failure"),
    CheckConstraint("(evaluation IS NULL) <> (failure IS NULL)", name="of_one_outcome"),
    _in_range("call_in_range"),
)

audit_events = Table(
    "audit_events",
    metadata,
    Column("id", count_type(), primary_key=True),
    Column("time", UtcTime, nullable=False),
    Column("kind", text_type(16), nullable=False),
    Column("conversation_id", text_type()),
    Column("session_id", text_type()),
    Column("blocked", Boolean),
    Column("record", JSON, nullable=False),
    Index("audit_events_by_time", "time"),
    # By hash in PostgreSQL: whoever talks chooses these names, and only a hash has no longest one.
    Index("audit_events_by_conversation", "conversation_id", postgresql_using="hash"),
    Index("audit_events_by_session", "session_id", postgresql_using="hash"),
)


RESTING_ON_REPLIES = (evaluations, failures, calls)
"""Tables whose rows may name a reply."""

for _table in RESTING_ON_REPLIES:
    # Who deletes a reply looks for it here. In SQLite such an index is made for the deletion alone.
    Index(f"{_table.name}_by_reply", "reply", _table=_table, postgresql_where=_table.c.reply.is_not(None)).ddl_if(
        dialect="postgresql"
    )


def _said(name: str, *what: Column[Any], checks: Collection[CheckConstraint]) -> Table:
    """A table of what people say of sequences: each row with its author, note and time."""
    return Table(
        name,
        metadata,
        Column("id", count_type(), primary_key=True),
        Column("sequence", ForeignKey("sequences.id"), nullable=False),
        *what,
        Column("author", text_type(), nullable=False),
        Column("note", text_type(), nullable=False),
        Column("created_at", UtcTime, nullable=False),
        Index(f"{name}_by_sequence", "sequence"),
        *checks,
    )


corrections = _said(
    "corrections",
    Column("kind", text_type(8), nullable=False),
    Column("label", Word(Label, 16, optional=True)),
    Column("turn", Whole(0, optional=True)),
    checks=[CheckConstraint("kind IN ('label', 'turn')", name="known_kind")],
)

human_scores = _said(
    "human_scores",
    Column("turn", Whole(1), nullable=False),
    Column("side", Word(Side, 8), nullable=False),
    Column("principle", text_type(), nullable=False),
    Column("principle_version", text_type(), nullable=False),
    Column("T", Share(), nullable=False),
    Column("I", Share(), nullable=False),
    Column("F", Share(), nullable=False),
    Column("seen", text_type(8), nullable=False),
    Column("digest", text_type(64), nullable=False),
    checks=[
        _in_range("human_in_range"),
        CheckConstraint("side IN ('prompt', 'response')", name="human_known_side"),
    ],
)

reviews = _said(
    "reviews",
    # Nothing where it stays what somebody said before.
    Column("status", text_type(16)),
    Column("assignee", text_type()),
    checks=[
        CheckConstraint("status IN ('new', 'read', 'confirmed', 'dismissed', 'unsure')", name="known_status"),
    ],
)


erasures = Table(
    "erasures",
    metadata,
    Column("id", count_type(), primary_key=True),
    Column("erased_at", UtcTime, nullable=False),
    Column("author", text_type(), nullable=False),
    Column("reason", text_type(), nullable=False),
    Column("counts", JSON, nullable=False),
    Column("subjects", JSON, nullable=False),
    Column("salt", text_type(64), nullable=False),
    Column("finished", Boolean, nullable=False),
)


def unused_reply() -> list[ColumnElement[bool]]:
    """What holds of a reply on which no score, failure or call rests."""
    named = (select(table.c.reply).where(table.c.reply.is_not(None)) for table in RESTING_ON_REPLIES)
    return [~replies.c.id.in_(query) for query in named]


def may_be_store(tables: Collection[str]) -> bool:
    """Whether a database with these tables is a store, or is empty and so may become one.

    A table of migrations alone says little: other programs call theirs the same.

    >>> may_be_store([]), may_be_store(["schema_migrations", "users"])
    (True, False)
    """
    return not tables or {schema_migrations.name, sequences.name} <= set(tables)


class Migration(NamedTuple):
    """One step from an older schema to this one; `version` counts from 1 without gaps."""

    # A step adds only what is missing: the first makes the tables as this version has them, so in a fresh store
    # the later ones find nothing to do.
    version: int
    name: str
    apply: Callable[[Connection], None]


def _step(*new: Table, wider: Table | None = None) -> Callable[[Connection], None]:
    """What makes tables that are missing, and the columns and indexes that one lacks."""

    def apply(connection: Connection) -> None:
        for table in new:
            table.create(connection, checkfirst=True)
        if wider is None:
            return
        inspector = inspect(connection)
        columns = {column["name"] for column in inspector.get_columns(wider.name)}
        for column in wider.columns:
            if column.name not in columns:
                definition = CreateColumn(column).compile(dialect=connection.dialect)
                connection.execute(text(f"ALTER TABLE {wider.name} ADD COLUMN {definition}"))
        indexes = {index["name"] for index in inspector.get_indexes(wider.name)}
        for index in wider.indexes:
            if index.name not in indexes:
                index.create(connection)

    return apply


MIGRATIONS: tuple[Migration, ...] = (
    Migration(1, "the record", metadata.create_all),
    Migration(2, "calls to language models", _step(calls, wider=replies)),
    Migration(3, "the audit of a guard", _step(audit_events)),
    Migration(4, "how replies were asked for", _step(wider=replies)),
    Migration(5, "corrections and scores of people", _step(corrections, human_scores)),
    Migration(6, "log-probabilities of replies", _step(wider=replies)),
    Migration(7, "reviews of conversations", _step(reviews)),
    Migration(8, "receipts of erasures", _step(erasures)),
)


def versions(connection: Connection, where: str) -> set[int]:
    """The versions that a store has had; refuses one of a later turnwise, and a database of something else."""
    inspector = inspect(connection)
    tables = inspector.get_table_names()
    if not may_be_store(tables) and not may_be_store([*tables, *inspector.get_view_names()]):
        raise StoreCorruptError(f"{where} is a database but not a turnwise store; name another one with --store")
    if schema_migrations.name not in tables:
        return set()
    had = set(connection.scalars(select(schema_migrations.c.version)))
    newest = MIGRATIONS[-1].version
    if had and max(had) > newest:
        raise StoreVersionError(
            f"{where} has schema version {max(had)}, this turnwise knows {newest}: "
            "upgrade with python -m pip install --upgrade turnwise"
        )
    return had


def migrate(connection: Connection, where: str, clock: Clock) -> None:
    """Apply the migrations that are missing, in a transaction that writes."""
    had = versions(connection, where)
    schema_migrations.create(connection, checkfirst=True)
    for migration in MIGRATIONS:
        if migration.version not in had:
            migration.apply(connection)
            values = {"version": migration.version, "name": migration.name, "applied_at": clock()}
            connection.execute(insert(schema_migrations), values)


@cache
def statements() -> tuple[str, ...]:
    dialect = sqlite.dialect()
    made = [str(CreateTable(table).compile(dialect=dialect)) for table in metadata.sorted_tables]
    indexes = [index for table in metadata.sorted_tables for index in table.indexes]
    return (*made, *(str(CreateIndex(index).compile(dialect=dialect)) for index in indexes))
