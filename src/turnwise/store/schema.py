"""The tables of the record, and the numbered migrations that bring those of older stores up to date.

sequences ─┬─ turns
           ├─ evaluations, failures ─┬─ provenances ─ runs
           │                         ├─ replies
           │                         └─ calls ─ replies
           └─ corrections, human_scores
audit_events
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Connection,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    cast,
    func,
    insert,
    inspect,
    select,
    text,
    true,
)
from sqlalchemy.schema import CreateColumn
from sqlalchemy.types import TypeEngine

from turnwise.clock import Clock
from turnwise.errors import StoreCorruptError, StoreVersionError
from turnwise.visible import shown

metadata = MetaData()


class UnreadableValueError(ValueError):
    """A stored value that can't be what its column holds: the file was changed by something else than turnwise.

    Args:
        value: the value.
        kind: what it should be, with its article.
    """

    def __init__(self, value: object, kind: str) -> None:
        super().__init__(f"{shown(value)} is not {kind}")


class UtcTime(TypeDecorator[datetime]):
    """An aware time, kept as ISO 8601 text in UTC; sorts as text as it does as time."""

    impl = String(32)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Keep it as PostgreSQL's own time where that holds the record, so that analysts can reckon with it."""
        return dialect.type_descriptor(self.impl if dialect.name == "sqlite" else DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | datetime | None:
        """Write a time; a naive one is refused, since nobody can tell what it means."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"the time {value} has no time zone")
        in_utc = value.astimezone(UTC)
        return in_utc.isoformat(timespec="microseconds") if dialect.name == "sqlite" else in_utc

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Read a time.

        Raises:
            UnreadableValueError: it is none, or has no zone.
        """
        if value is None:
            return None
        return value.astimezone(UTC) if isinstance(value, datetime) else read_time(value)


def read_time(text: str) -> datetime:
    """Return the aware time of a text.

    Raises:
        UnreadableValueError: it is none, or has no zone.
    """
    try:
        time = datetime.fromisoformat(text)
    except (ValueError, TypeError):
        raise UnreadableValueError(text, "a time") from None
    if time.tzinfo is None:
        raise UnreadableValueError(text, "a time with a zone")
    return time


class _PostgresqlText(TypeDecorator[str]):
    """Any text in PostgreSQL, which has no NUL: that is written as ``␀0``, and ``␀`` itself as ``␀␀``.

    Texts sort by their code points, as in SQLite, whatever the language of the database is.
    """

    impl = Text
    cache_ok = True

    def __init__(self) -> None:
        super().__init__(collation="C")

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Write a text."""
        if value is None or ("\0" not in value and "␀" not in value):
            return value
        return value.replace("␀", "␀␀").replace("\0", "␀0")

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Read a text."""
        if value is None or "␀" not in value:
            return value
        return "␀".join(part.replace("␀0", "\0") for part in value.split("␀␀"))


def _text(length: int | None = None) -> TypeEngine[str]:
    """Return the type of a text; SQLite is told a length and does not mind a longer one."""
    return (String(length) if length else Text()).with_variant(_PostgresqlText(), "postgresql")


def _count() -> TypeEngine[int]:
    """Return the type of whole numbers without a limit that is met: 64 bits."""
    return Integer().with_variant(BigInteger(), "postgresql")


def read_stored_json(text: str) -> Any:
    """Return the value of a column of JSON.

    Raises:
        UnreadableValueError: it is no JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        raise UnreadableValueError(text, "JSON") from None


def total(column: Column[int], condition: ColumnElement[bool] | None = None) -> ColumnElement[int]:
    """Return the sum of a column of whole numbers, 0 where there is none.

    Args:
        column: the column.
        condition: only of rows for which this holds.
    """
    added = func.sum(column) if condition is None else func.sum(column).filter(condition)
    return func.coalesce(cast(added, BigInteger), 0)  # sums of 64 bits are decimals in PostgreSQL


schema_migrations = Table(
    "schema_migrations",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("name", _text(), nullable=False),
    Column("applied_at", UtcTime, nullable=False),
)

sequences = Table(
    "sequences",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("sequence_id", _text(), nullable=False, unique=True),
    Column("label", _text(16), nullable=False),
    Column("source", _text(), nullable=False),
    Column("turns", Integer, nullable=False),
    Column("content_sha256", _text(64), nullable=False),
    Column("conversation", JSON, nullable=False),
    Column("metadata", JSON, nullable=False),
    Column("imported_at", UtcTime, nullable=False),
    Index("sequences_by_label", "label"),
)

turns = Table(
    "turns",
    metadata,
    Column("sequence", ForeignKey("sequences.id"), primary_key=True),
    Column("turn", Integer, primary_key=True),
    Column("prompt", _text(), nullable=False),
    Column("response", _text()),
    Column("prompt_chars", Integer, nullable=False),
    Column("response_chars", Integer, nullable=False),
    Column("timestamp", UtcTime),
    Column("response_timestamp", UtcTime),
    Column("metadata", JSON, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", _text(), nullable=False, unique=True),
    Column("observer", _text(), nullable=False),
    Column("observer_version", _text(), nullable=False),
    Column("context", _text(32), nullable=False),
    Column("parameters", JSON, nullable=False),
    Column("operating_points", JSON, nullable=False),
    Column("code_version", _text(), nullable=False),
    Column("created_at", UtcTime, nullable=False),
)

provenances = Table(
    "provenances",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run", ForeignKey("runs.id"), nullable=False),
    Column("principle", _text(), nullable=False),
    Column("principle_version", _text(), nullable=False),
    Column("code_version", _text(), nullable=False),
    UniqueConstraint("run", "principle", "principle_version", "code_version"),
)

replies = Table(
    "replies",
    metadata,
    Column("id", _count(), primary_key=True),
    Column("text", _text(), nullable=False),
    Column("received_at", UtcTime, nullable=False),
    # The rest is known only of replies that were bought, and so came through the journal.
    Column("request_key", _text(64)),
    Column("repeat", _count()),
    Column("model", _text()),
    Column("finish_reason", _text()),
    Column("refusal", _text()),
    Column("prompt_tokens", _count()),
    Column("completion_tokens", _count()),
    Column("cost_usd", Float),
    Column("latency_s", Float),
    Column("nonce", _text()),
    Column("reusable", Boolean, nullable=False, server_default=true()),
    Column("structured", String(16)),
    Index("replies_by_request", "request_key", "repeat"),
)


def _what_it_is_about() -> list[Column[object]]:
    return [
        Column("run", ForeignKey("runs.id"), nullable=False),
        Column("sequence", ForeignKey("sequences.id"), nullable=False),
        Column("principle", _text(), nullable=False),
        Column("turn", Integer, nullable=False),
        Column("side", _text(8), nullable=False),
        Column("provenance", ForeignKey("provenances.id"), nullable=False),
        Column("reply", ForeignKey("replies.id")),
        Column("latency_s", Float),
        Column("cost_usd", Float),
        Column("created_at", UtcTime, nullable=False),
    ]


evaluations = Table(
    "evaluations",
    metadata,
    Column("id", _count(), primary_key=True),
    *_what_it_is_about(),
    Column("T", Float, nullable=False),
    Column("I", Float, nullable=False),
    Column("F", Float, nullable=False),
    Column("reasoning", _text()),
    UniqueConstraint("run", "sequence", "principle", "turn", "side"),
    CheckConstraint('"T" BETWEEN 0 AND 1 AND "I" BETWEEN 0 AND 1 AND "F" BETWEEN 0 AND 1', name="in_range"),
    CheckConstraint("side IN ('prompt', 'response')", name="known_side"),
)

failures = Table(
    "failures",
    metadata,
    Column("id", _count(), primary_key=True),
    *_what_it_is_about(),
    Column("reason", _text(), nullable=False),
    Column("message", _text(), nullable=False),
    Index("failures_by_run", "run", "sequence"),
)

calls = Table(
    "calls",
    metadata,
    Column("id", _count(), primary_key=True),
    Column("evaluation", ForeignKey("evaluations.id")),
    Column("failure", ForeignKey("failures.id")),
    Column("repeat", _count(), nullable=False),
    Column("reply", ForeignKey("replies.id")),
    Column("T", Float),
    Column("I", Float),
    Column("F", Float),
    Column("reasoning", _text()),
    Column("reason", _text()),
    Column("message", _text()),
    Column("cached", Boolean, nullable=False),
    Column("attempts", _count(), nullable=False),
    Index("calls_by_evaluation", "evaluation"),
    Index("calls_by_failure", "failure"),
    CheckConstraint("(evaluation IS NULL) <> (failure IS NULL)", name="of_one_outcome"),
    CheckConstraint('"T" BETWEEN 0 AND 1 AND "I" BETWEEN 0 AND 1 AND "F" BETWEEN 0 AND 1', name="call_in_range"),
)

audit_events = Table(
    "audit_events",
    metadata,
    Column("id", _count(), primary_key=True),
    Column("time", UtcTime, nullable=False),
    Column("kind", _text(16), nullable=False),
    Column("conversation_id", _text()),
    Column("session_id", _text()),
    Column("blocked", Boolean),
    Column("record", JSON, nullable=False),
    Index("audit_events_by_time", "time"),
    # By hash in PostgreSQL: whoever talks chooses these names, and only a hash has no longest one.
    Index("audit_events_by_conversation", "conversation_id", postgresql_using="hash"),
    Index("audit_events_by_session", "session_id", postgresql_using="hash"),
)


for _table in (evaluations, failures, calls):
    # Who deletes a reply looks for it here. In SQLite such an index is made for the deletion alone.
    Index(f"{_table.name}_by_reply", "reply", _table=_table, postgresql_where=_table.c.reply.is_not(None)).ddl_if(
        dialect="postgresql"
    )

corrections = Table(
    "corrections",
    metadata,
    Column("id", _count(), primary_key=True),
    Column("sequence", ForeignKey("sequences.id"), nullable=False),
    Column("kind", _text(8), nullable=False),
    Column("label", _text(16)),
    Column("turn", Integer),
    Column("author", _text(), nullable=False),
    Column("note", _text(), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Index("corrections_by_sequence", "sequence"),
    CheckConstraint("kind IN ('label', 'turn')", name="known_kind"),
)

human_scores = Table(
    "human_scores",
    metadata,
    Column("id", _count(), primary_key=True),
    Column("sequence", ForeignKey("sequences.id"), nullable=False),
    Column("turn", Integer, nullable=False),
    Column("side", _text(8), nullable=False),
    Column("principle", _text(), nullable=False),
    Column("principle_version", _text(), nullable=False),
    Column("T", Float, nullable=False),
    Column("I", Float, nullable=False),
    Column("F", Float, nullable=False),
    Column("seen", _text(8), nullable=False),
    Column("digest", _text(64), nullable=False),
    Column("author", _text(), nullable=False),
    Column("note", _text(), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Index("human_scores_by_sequence", "sequence"),
    CheckConstraint('"T" BETWEEN 0 AND 1 AND "I" BETWEEN 0 AND 1 AND "F" BETWEEN 0 AND 1', name="human_in_range"),
    CheckConstraint("side IN ('prompt', 'response')", name="human_known_side"),
)


def may_be_store(tables: Collection[str]) -> bool:
    """Return whether a database with these tables is a store, or empty and so may become one.

    The table of migrations alone says little: other programs call theirs the same.

    >>> may_be_store([]), may_be_store(["schema_migrations", "users"])
    (True, False)
    """
    return not tables or {schema_migrations.name, sequences.name} <= set(tables)


class Migration(NamedTuple):
    """One step from an older schema to this one.

    A step adds what is not there yet: the first one makes the tables as this version has them, so that in a fresh
    store the later ones find nothing left to do.

    Args:
        version: counts from 1 without gaps.
        name: what it does, in a few words.
        apply: does it, inside the transaction that also records it.
    """

    version: int
    name: str
    apply: Callable[[Connection], None]


def _add_columns(connection: Connection, table: Table) -> None:
    """Add the columns and indexes that a table lacks."""
    inspector = inspect(connection)
    columns = {column["name"] for column in inspector.get_columns(table.name)}
    for column in table.columns:
        if column.name not in columns:
            definition = CreateColumn(column).compile(dialect=connection.dialect)
            connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {definition}"))
    indexes = {index["name"] for index in inspector.get_indexes(table.name)}
    for index in table.indexes:
        if index.name not in indexes:
            index.create(connection)


def _keep_calls(connection: Connection) -> None:
    _add_columns(connection, replies)
    calls.create(connection, checkfirst=True)


def _keep_audit(connection: Connection) -> None:
    audit_events.create(connection, checkfirst=True)


def _keep_structure(connection: Connection) -> None:
    _add_columns(connection, replies)


def _keep_people(connection: Connection) -> None:
    corrections.create(connection, checkfirst=True)
    human_scores.create(connection, checkfirst=True)


MIGRATIONS: tuple[Migration, ...] = (
    Migration(1, "the record", metadata.create_all),
    Migration(2, "calls to language models", _keep_calls),
    Migration(3, "the audit of a guard", _keep_audit),
    Migration(4, "how replies were asked for", _keep_structure),
    Migration(5, "corrections and scores of people", _keep_people),
)


def is_current(connection: Connection, migrations: Sequence[Migration] = MIGRATIONS) -> bool:
    """Return whether a store has had exactly these migrations; reads only, so that no writer is waited for."""
    tables = inspect(connection).get_table_names()
    if not tables or not may_be_store(tables):
        return False
    had = connection.scalars(select(schema_migrations.c.version))
    return set(had) == {migration.version for migration in migrations}


def migrate(
    connection: Connection, where: str, clock: Clock, migrations: Sequence[Migration] = MIGRATIONS
) -> tuple[int, ...]:
    """Apply the migrations that the store lacks, and return their versions.

    Args:
        connection: in a transaction that writes.
        where: name of the store, for messages.
        clock: gives the time that is recorded.
        migrations: all that this version knows, in order.

    Raises:
        StoreVersionError: the store has had a migration that this version does not know.
        StoreCorruptError: the database holds tables, but none of a turnwise store.
    """
    tables = inspect(connection).get_table_names()
    if not may_be_store(tables):
        raise StoreCorruptError(f"{where} is a database but not a turnwise store; name another one with --store")
    schema_migrations.create(connection, checkfirst=True)
    had = set(connection.scalars(select(schema_migrations.c.version)))
    newest = migrations[-1].version
    if had and max(had) > newest:
        raise StoreVersionError(
            f"{where} has schema version {max(had)}, this turnwise knows {newest}: "
            "upgrade with python -m pip install --upgrade turnwise"
        )
    missing = [migration for migration in migrations if migration.version not in had]
    for migration in missing:
        migration.apply(connection)
        connection.execute(
            insert(schema_migrations).values(version=migration.version, name=migration.name, applied_at=clock())
        )
    return tuple(migration.version for migration in missing)
