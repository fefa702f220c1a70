"""Keys of what a row is about, by name; those that are surely in the file are looked up once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from sqlalchemy import Connection, Table, insert, select

from turnwise.batches import batched
from turnwise.errors import UnknownNameError, UsageError
from turnwise.store import schema
from turnwise.store.database import PAGE

_MOST = 20_000
"""Keys that are remembered at most; then remembering begins anew."""


class KnownKeys:
    """Keys that a committed transaction has seen. Rows of runs, sequences and provenances are never deleted."""

    def __init__(self) -> None:
        self._keys: dict[Hashable, int] = {}

    def get(self, name: Hashable) -> int | None:
        """Return the key of that name, or None where it is not known."""
        return self._keys.get(name)

    def learn(self, keys: dict[Hashable, int]) -> None:
        """Remember keys; only for those of a transaction that has been committed."""
        if len(self._keys) + len(keys) > _MOST:
            self._keys.clear()
        self._keys.update(keys)


class KeyLookup:
    """Looks up keys inside one transaction, and makes those of provenances that are new.

    Args:
        connection: in a transaction that writes.
        known: what earlier transactions saw.
        learned: takes what this one sees, for `KnownKeys.learn` once it is committed.
    """

    def __init__(self, connection: Connection, known: KnownKeys, learned: dict[Hashable, int]) -> None:
        self._connection = connection
        self._known = known
        self._learned = learned

    def of(self, table: Table, column: str, names: set[str], kind: str) -> dict[str, int]:
        """Return the keys of the rows of a table with these names.

        Raises:
            UnknownNameError: there is no row of one of the names.
        """
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
        """Return the key of a provenance, made now where there is none.

        Raises:
            UsageError: the principle was scored in another version in this run.
        """
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


def inserted(connection: Connection, table: Table, values: dict[str, Any]) -> int:
    """Insert one row and return its key."""
    key: int = connection.execute(insert(table), values).inserted_primary_key[0]  # type: ignore[index]
    return key
