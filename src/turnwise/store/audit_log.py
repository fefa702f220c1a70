"""The audit of a guard in a store: what it was asked and what it said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection, Select, insert, select, text, update

from turnwise.store import schema
from turnwise.store.database import PAGE, Database

Seal = Callable[[Mapping[str, Any] | None], Sequence[Mapping[str, Any]]]
"""Gives records to append from the last one that is there; None for none."""


class AuditLog:
    """The events of a guard's audit: appended, and never changed except for texts that are erased."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def append(self, records: Sequence[Mapping[str, Any]], seal: Seal | None = None) -> None:
        """Append records in one transaction; they are durable when this returns.

        Args:
            records: JSON values with ``time`` (ISO 8601, with its zone) and ``kind``. Where they have
                ``conversation_id``, ``session_id`` or ``blocked``, they can be asked for by it.
            seal: is given the last record there is, while nobody else can append, and returns what is appended
                instead of `records`. It may be called again.

        Raises:
            StoreError: they can't be written; none of them is.
        """
        if records:
            seal = seal or (lambda _: records)
            self._db.write(partial(self._append, seal)).result()

    def rewrite(
        self, change: Callable[[Mapping[str, Any]], Mapping[str, Any] | None], seal: Seal
    ) -> tuple[int, tuple[str, ...]]:
        """Replace records and append others that say so, in one transaction; leave nothing of the old ones.

        Args:
            change: returns what replaces a record; None where it stays.
            seal: returns what is appended, as for `append`, if a record was replaced.

        Returns:
            How many records were replaced, and where something of the old ones may still be.

        Raises:
            StoreError: they can't be written; then nothing has changed.
        """
        count = self._db.write(partial(self._rewrite, change, seal)).result()
        return count, self._db.scrub(schema.audit_events) if count else ()

    def rows(self, row: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the records after a row, by default all, oldest first, each with its row number."""
        while page := self._db.read(_page_after(row)):
            yield from ((found["id"], found["record"]) for found in page)
            row = page[-1]["id"]

    @staticmethod
    def _append(seal: Seal, connection: Connection) -> None:
        if connection.dialect.name != "sqlite":  # where one writer at a time is the rule anyway
            connection.execute(text("LOCK TABLE audit_events IN EXCLUSIVE MODE"))
        table = schema.audit_events
        last = connection.execute(select(table.c.record).order_by(table.c.id.desc()).limit(1)).scalar()
        connection.execute(insert(table), [_row_of(record) for record in seal(last)])

    @classmethod
    def _rewrite(
        cls, change: Callable[[Mapping[str, Any]], Mapping[str, Any] | None], seal: Seal, connection: Connection
    ) -> int:
        table, count, row = schema.audit_events, 0, 0
        while page := connection.execute(_page_after(row)).all():
            for number, record in page:
                changed = change(record)
                if changed is not None:
                    connection.execute(update(table).where(table.c.id == number).values(_row_of(changed)))
                    count += 1
            row = page[-1][0]
        if count:
            cls._append(seal, connection)
        return count

    def after(self, row: int, most: int = PAGE) -> list[tuple[int, dict[str, Any]]]:
        """Return the records after a row, oldest first, each with its row number; of many, the latest.

        Args:
            row: number of the last row that is known; 0 for none.
            most: how many at most.
        """
        table = schema.audit_events
        query = select(table.c.id, table.c.record).where(table.c.id > row).order_by(table.c.id.desc()).limit(most)
        return [(found["id"], found["record"]) for found in reversed(self._db.read(query))]

    def events(
        self,
        *,
        conversation_ids: Sequence[str] = (),
        session_ids: Sequence[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield records, the latest first. Those of a kind without a conversation are always among them.

        Args:
            conversation_ids: only of these conversations; all where it is empty.
            session_ids: only of these sessions; all where it is empty.
            since: only from this time on, aware.
            until: only before this time, aware.
        """
        table = schema.audit_events
        query = select(table.c.id, table.c.record).order_by(table.c.id.desc()).limit(PAGE)
        for column, wanted in ((table.c.conversation_id, conversation_ids), (table.c.session_id, session_ids)):
            if wanted:
                query = query.where(column.in_(wanted) | column.is_(None))
        if since is not None:
            query = query.where(table.c.time >= since)
        if until is not None:
            query = query.where(table.c.time < until)
        page = self._db.read(query)
        while page:
            yield from (row["record"] for row in page)
            page = self._db.read(query.where(table.c.id < page[-1]["id"]))


def _page_after(row: int) -> Select[Any]:
    table = schema.audit_events
    return select(table.c.id, table.c.record).where(table.c.id > row).order_by(table.c.id).limit(PAGE)


def _row_of(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "time": datetime.fromisoformat(record["time"]),
        "kind": record["kind"],
        "conversation_id": record.get("conversation_id"),
        "session_id": record.get("session_id"),
        "blocked": record.get("blocked"),
        "record": dict(record),
    }
