"""Numbered migrations: every store knows which it has had, and gets the missing ones when it is opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, Table, insert, inspect, select, text
from sqlalchemy.schema import CreateColumn

from turnwise.clock import Clock
from turnwise.errors import StoreCorruptError, StoreVersionError
from turnwise.store import schema


class Migration(NamedTuple):
    """One step of the schema.

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
    _add_columns(connection, schema.replies)
    schema.calls.create(connection, checkfirst=True)


def _keep_audit(connection: Connection) -> None:
    schema.audit_events.create(connection, checkfirst=True)


MIGRATIONS: tuple[Migration, ...] = (
    Migration(1, "the record", schema.metadata.create_all),
    Migration(2, "calls to language models", _keep_calls),
    Migration(3, "the audit of a guard", _keep_audit),
)


def is_current(connection: Connection, migrations: Sequence[Migration] = MIGRATIONS) -> bool:
    """Return whether a store has had exactly these migrations; reads only, so that no writer is waited for."""
    tables = inspect(connection).get_table_names()
    if not tables or not schema.may_be_store(tables):
        return False
    had = connection.scalars(select(schema.schema_migrations.c.version))
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
    if not schema.may_be_store(tables):
        raise StoreCorruptError(f"{where} is a database, but no turnwise store; name another file with --store")
    schema.schema_migrations.create(connection, checkfirst=True)
    had = set(connection.scalars(select(schema.schema_migrations.c.version)))
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
            insert(schema.schema_migrations).values(
                version=migration.version, name=migration.name, applied_at=clock()
            )
        )
    return tuple(migration.version for migration in missing)
