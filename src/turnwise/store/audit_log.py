"""The part of a store that holds what a guard was asked and said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select

from turnwise.store import schema
from turnwise.store.database import PAGE, Database


class AuditLog:
    """The events of an audit: appended, never changed.

    Args:
        database: where they are.
    """

    def __init__(self, database: Database) -> None:
        self._db = database

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Append records in one transaction; they are durable when this returns.

        Args:
            records: JSON values with ``time`` (ISO 8601, with its zone) and ``kind``; where there are
                ``conversation_id``, ``session_id`` and ``blocked``, they can be asked for.

        Raises:
            StoreError: they can't be written; none of them is.
        """
        rows = [
            {
                "time": datetime.fromisoformat(record["time"]),
                "kind": record["kind"],
                "conversation_id": record.get("conversation_id"),
                "session_id": record.get("session_id"),
                "blocked": record.get("blocked"),
                "record": dict(record),
            }
            for record in records
        ]
        if rows:
            self._db.write(lambda connection: connection.execute(insert(schema.audit_events), rows)).result()

    def after(self, row: int, most: int = PAGE) -> list[tuple[int, dict[str, Any]]]:
        """Return the records that came after a row, oldest first, each with its row; the latest so many.

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
        """Yield records, the latest first; those of a kind without a conversation are always among them.

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
