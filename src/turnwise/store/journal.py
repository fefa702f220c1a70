"""Replies that were paid for: each kept before anybody reads it, and found again instead of bought twice."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection, RowMapping, bindparam, delete, func, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from turnwise._support.notebook import Shown
from turnwise.errors import StoreError
from turnwise.scoring import Reply
from turnwise.store import schema
from turnwise.store.column_types import UtcTime
from turnwise.store.database import Database
from turnwise.store.score_rows import reply_of_row, reply_row

_NEWEST = (  # made once: it is asked before every call, by many threads
    select(*(schema.replies.c[name] for name in Reply.__slots__))
    .where(
        schema.replies.c.request_key == bindparam("request_key"),
        schema.replies.c.repeat == bindparam("repeat"),
        schema.replies.c.reusable,
    )
    .order_by(schema.replies.c.id.desc())
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class KeptReplies(Shown):
    """The replies of one model, and what they cost.

    Args:
        model: the model, as the provider names it.
        replies: how many are kept.
        reusable: how many of them answer the same request again, at no cost.
        prompt_tokens: tokens of their requests, as far as they were counted.
        completion_tokens: tokens of the replies, as far as they were counted.
        cost_usd: what they cost, as far as it is known; None where no price is known.
        oldest: when the first came, in UTC.
        newest: when the last came, in UTC.
    """

    model: str
    replies: int
    reusable: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    oldest: datetime
    newest: datetime


class Journal:
    """The `ReplyJournal` of a store; `Store.journal` has it. Several threads and processes may use it at once."""

    final = False

    def __init__(self, database: Database) -> None:
        self._db = database
        self._lock = threading.Lock()
        self._waiting: list[dict[str, Any]] = []
        self._job: Future[None] | None = None
        # Replies are looked for over one connection: opening it would take most of the time of a call.
        self._finding = threading.Lock()
        self._connection: Connection | None = None
        self._closed = False

    def find(self, request_key: str, repeat: int) -> Reply | None:
        """Return the newest reply to this repeat of a request, or None.

        Args:
            request_key: hash of everything that the reply may depend on.
            repeat: which of several askings, from 1.
        """
        with self._finding:
            if self._closed:
                raise StoreError("the store is closed; open it again")
            row = self._db.until_reached(lambda: self._newest(request_key, repeat))
        return None if row is None else reply_of_row(row)

    def _newest(self, request_key: str, repeat: int) -> RowMapping | None:
        with self._db.translated():
            if self._connection is None:
                self._connection = self._db.standalone()
            try:
                asked = {"request_key": request_key, "repeat": repeat}
                return self._connection.execute(_NEWEST, asked).mappings().first()
            except SQLAlchemyError:
                if self._connection.invalidated:  # the server was lost: another one next time
                    self._connection.close()
                    self._connection = None
                raise

    def record(self, reply: Reply) -> None:
        """Keep a reply; durable when this returns. Replies that come at the same moment are written together.

        Raises:
            StoreError: it can't be written.
        """
        row = reply_row(reply)
        with self._lock:
            if self._job is None:
                self._waiting = []
                self._job = self._db.write(partial(self._write, self._waiting))
            job = self._job
            self._waiting.append(row)
        job.result()

    def _write(self, rows: list[dict[str, Any]], connection: Connection) -> None:
        with self._lock:
            if rows is self._waiting:  # who comes now waits for the next job
                self._job = None
        connection.execute(insert(schema.replies), rows)

    def close(self) -> None:
        """Stop finding replies."""
        with self._finding:
            self._closed = True
            if self._connection is not None:
                self._connection.close()

    def stats(self) -> tuple[KeptReplies, ...]:
        """Return what is kept of each model, sorted by its name."""
        table = schema.replies
        query = (
            select(
                table.c.model,
                func.count().label("replies"),
                func.count().filter(table.c.reusable).label("reusable"),
                schema.total(table.c.prompt_tokens).label("prompt_tokens"),
                schema.total(table.c.completion_tokens).label("completion_tokens"),
                func.sum(table.c.cost_usd).label("cost_usd"),
                func.min(table.c.received_at, type_=UtcTime).label("oldest"),
                func.max(table.c.received_at, type_=UtcTime).label("newest"),
            )
            .where(table.c.request_key.is_not(None))
            .group_by(table.c.model)
            .order_by(table.c.model)
        )
        return tuple(KeptReplies(**row) for row in self._db.read(query))

    def clear(self) -> int:
        """Let no reply answer a request again, and return how many did until now.

        Replies that a score or failure rests on stay in the record as its evidence; the others are deleted.
        """
        table = schema.replies

        def write(connection: Connection) -> int:
            bought = table.c.request_key.is_not(None), table.c.reusable
            deleted = connection.execute(delete(table).where(*bought, *schema.unused_reply())).rowcount
            retired = connection.execute(update(table).where(*bought).values(reusable=False)).rowcount
            return deleted + retired

        return self._db.write(write).result()
