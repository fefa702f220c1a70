"""Erasure: conversations leave a record with all that was said of them, and a receipt stays.

One transaction deletes the rows and writes the receipt; then the files are written anew, so that no byte of the
texts is left in them. A receipt that is not `finished` belongs to an erasure that was killed in between.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Column, Connection, Table, delete, func, or_, select, update

from turnwise._support.notebook import Shown
from turnwise.errors import UnknownNameError
from turnwise.store import schema
from turnwise.store.damaged_rows import intact
from turnwise.store.database import Database, inserted, renew_edition
from turnwise.store.source import Source

_PAGE: Final = 400
"""Conversations that are deleted by one statement."""

WORDS: Final = "-words"
"""What the name of the index of words ends with, beside a record in a file."""

BEYOND_REACH: Final = (
    "backups, snapshots and exports that were made before",
    "a data set that is imported again: take them out of it as well",
    "models and heads that were taught from them, reports and sheets that quote them",
    "other systems that were told: traces, logs, providers of models",
)
"""What no receipt can vouch for."""


@dataclass(frozen=True, slots=True)
class Erasure(Shown):
    """The receipt of an erasure.

    Args:
        erased_at: when, in UTC.
        author: who did it; may be empty.
        reason: why; may be empty.
        counts: rows that were deleted, by table; of findings by their tables.
        subjects: a digest of the id of each conversation, with `salt`: whoever knows an id can tell that it was
            erased, and nobody else can tell which.
        salt: hexadecimal digits.
        finished: whether files were written anew, so that no byte of the texts is left in them.
        unreached: where texts may still be, in words.
    """

    erased_at: datetime
    author: str
    reason: str
    counts: Mapping[str, int]
    subjects: tuple[str, ...]
    salt: str
    finished: bool
    unreached: tuple[str, ...] = BEYOND_REACH

    def concerns(self, sequence_id: str) -> bool:
        """Whether a conversation was erased with it."""
        return digest_of(sequence_id, self.salt) in self.subjects


def digest_of(sequence_id: str, salt: str) -> str:
    """What a receipt has in place of an id."""
    return hashlib.sha256(f"{salt} {sequence_id}".encode()).hexdigest()


def new_receipt(ids: Iterable[str], now: datetime, author: str, reason: str) -> Erasure:
    salt = secrets.token_hex(16)
    return Erasure(now, author, reason, {}, tuple(sorted(digest_of(one, salt) for one in ids)), salt, False)


def erase_from_record(database: Database, source: Source, ids: Sequence[str], author: str, reason: str) -> Erasure:
    begun = matching(erasures(database), ids)
    try:
        keys = [head.number for page in source.pages(ids) for head in page]
    except UnknownNameError:
        if begun is None:
            raise
        return finish(database, *begun)
    return finish(database, *erase_rows(database, keys, new_receipt(ids, database.clock(), author, reason)))


def erase_rows(database: Database, keys: Sequence[int], receipt: Erasure) -> tuple[int, Erasure]:
    """Delete all rows of sequences by number and write the receipt, in one transaction; number and receipt."""

    def write(connection: Connection) -> tuple[int, Erasure]:
        counts: Counter[str] = Counter()
        for start in range(0, len(keys), _PAGE):
            counts += _deleted(connection, keys[start : start + _PAGE])
        renew_edition(connection)
        made = replace(receipt, counts={name: count for name, count in sorted(counts.items()) if count})
        names = ("erased_at", "author", "reason", "counts", "subjects", "salt", "finished")
        return inserted(connection, schema.erasures, {name: getattr(made, name) for name in names}), made

    return database.write(write).result()


def finish(database: Database, number: int, made: Erasure) -> Erasure:
    """Leave no byte of what was deleted in the files of the record, and close the receipt."""
    unreached = [place for table in _erasable(database) for place in database.scrub(table)]
    unreached += remove_words(database.where)
    if unowned := unowned_replies(database):
        unreached.append(
            f"{unowned:,} kept replies of language models on which no score rests: turnwise llm cache --clear"
        )
    done = not any("another process" in place for place in unreached)
    table = schema.erasures
    closed = update(table).where(table.c.id == number).values(finished=done, counts=dict(made.counts))
    database.write(lambda connection: connection.execute(closed)).result()
    return replace(made, finished=done, unreached=tuple(dict.fromkeys([*unreached, *BEYOND_REACH])))


def erasures(database: Database) -> Iterator[tuple[int, Erasure]]:
    """Yield the receipts of a record with their numbers, oldest first."""
    for row in database.read(select(schema.erasures).order_by(schema.erasures.c.id)):
        with intact(database.where, f"erasure {row['id']}"):
            yield row["id"], Erasure(
                row["erased_at"], row["author"], row["reason"], dict(row["counts"]), tuple(row["subjects"]),
                row["salt"], bool(row["finished"]),
            )  # fmt: skip


def remove_words(where: str) -> list[str]:
    """Remove the index of words beside a record, which is made anew; return where it can't be removed."""
    left = []
    for ending in (WORDS, f"{WORDS}-wal", f"{WORDS}-shm"):
        path = Path(f"{where}{ending}")
        try:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
        except OSError as error:
            left.append(f"{path}: {error.strerror}")
    return left


def tables_of_sequences() -> list[tuple[Table, Column[Any]]]:
    """The tables that say something of a sequence, each with the column that names it."""
    return [
        (table, column)
        for table in reversed(schema.metadata.sorted_tables)
        for column in table.columns
        if any(key.column.table is schema.sequences for key in column.foreign_keys)
    ]


def _erasable(database: Database) -> list[Table]:
    """The tables whose space is to be written anew: a file is one, in PostgreSQL each is by itself."""
    if "://" not in database.where:
        return [schema.sequences]
    return [schema.sequences, schema.calls, schema.replies, *(table for table, _ in tables_of_sequences())]


def _deleted(connection: Connection, keys: Sequence[int]) -> Counter[str]:
    """Delete what there is of some sequences, and replies that rest on nothing else; count rows by table."""
    counts: Counter[str] = Counter()
    outcomes = ((schema.calls.c.evaluation, schema.evaluations), (schema.calls.c.failure, schema.failures))
    of_these = [column.in_(select(t.c.id).where(t.c.sequence.in_(keys))) for column, t in outcomes]
    replies = {row[0] for row in connection.execute(select(schema.calls.c.reply).where(or_(*of_these)))}
    for _, table in outcomes:
        query = select(table.c.reply).where(table.c.sequence.in_(keys))
        replies |= {row[0] for row in connection.execute(query)}
    counts["calls"] = connection.execute(delete(schema.calls).where(or_(*of_these))).rowcount
    for table, column in tables_of_sequences():
        counts[table.name] += connection.execute(delete(table).where(column.in_(keys))).rowcount
    counts["sequences"] = connection.execute(
        delete(schema.sequences).where(schema.sequences.c.id.in_(keys))
    ).rowcount
    counts["replies"] = _replies_deleted(connection, sorted(replies - {None}))
    return counts


def _replies_deleted(connection: Connection, replies: Sequence[int]) -> int:
    """Delete those of some replies on which nothing rests any more, whether a journal kept them or not."""
    count = 0
    for start in range(0, len(replies), _PAGE):
        page = replies[start : start + _PAGE]
        held: set[int] = set()
        for table in schema.RESTING_ON_REPLIES:
            held |= {row[0] for row in connection.execute(select(table.c.reply).where(table.c.reply.in_(page)))}
        free = [one for one in page if one not in held]
        count += connection.execute(delete(schema.replies).where(schema.replies.c.id.in_(free))).rowcount
    return count


def unowned_replies(database: Database) -> int:
    """How many replies of language models are kept on which no score rests: nobody can tell whose they are."""
    query = select(func.count()).select_from(schema.replies).where(*schema.unused_reply())
    return database.ask(lambda connection: connection.scalar(query) or 0)


def matching(receipts: Iterable[tuple[int, Erasure]], ids: Collection[str]) -> tuple[int, Erasure] | None:
    """The unfinished receipt that concerns one of some ids, if any, with its number."""
    begun = ((number, one) for number, one in receipts if not one.finished)
    return next((found for found in begun if any(map(found[1].concerns, ids))), None)
