"""The record by row number: what is copied from it, or indexed beside it, is fed from this.

Texts are added and never changed, so what is new lies above the number that was reached before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select

from turnwise.scoring import NOT_READ
from turnwise.store import schema
from turnwise.store.bulk import rows
from turnwise.store.database import Database, edition


@dataclass(frozen=True, slots=True)
class Newest:
    """How far a store has come: the number of the last row of each table, and when the last score was made.

    `edition` changes whenever a sequence gets another label, or a run is renamed or deleted.
    """

    evaluations: int
    failures: int
    sequences: int
    last: datetime | None
    edition: int = 0


class NumberedTexts(NamedTuple):
    """The texts of a sequence, by its row number, above 0: prompts and responses, joined by line ends.

    `digest` tells it from another sequence of that number.
    """

    number: int
    texts: str
    digest: str


class Numbered:
    """Reads the sequences of a record by their row numbers."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def newest(self) -> Newest:
        """How far the record has come; it takes next to no time."""
        evaluations, failures, sequences = schema.evaluations.c, schema.failures.c, schema.sequences.c
        latest = select(func.max(evaluations.id)).scalar_subquery()
        last = select(evaluations.created_at).where(evaluations.id == latest).scalar_subquery()
        columns = [
            func.coalesce(select(func.max(one)).scalar_subquery(), 0)
            for one in (evaluations.id, failures.id, sequences.id)
        ]

        def read(record: Connection) -> Newest:
            *numbers, made = record.execute(select(*columns, last)).one()
            return Newest(numbers[0], numbers[1], numbers[2], made, edition(record))

        return self._db.ask(read)

    def tries(self, paid: Sequence[str]) -> dict[str, tuple[int, int, float | None]]:
        """Failed tries, unread texts and cost in US dollars, if known, by name of the run.

        Only the runs in `paid` may have scores that cost something: the scores of others are not read.
        """
        name, failures, scores = schema.runs.c.name, schema.failures, schema.evaluations
        unread = func.count().filter(failures.c.reason == NOT_READ)
        failed = select(name, func.count() - unread, unread, func.sum(failures.c.cost_usd)).join_from(
            schema.runs, failures
        )
        scored = select(name, func.sum(scores.c.cost_usd)).join_from(schema.runs, scores).where(name.in_(paid))

        def read(record: Connection) -> dict[str, tuple[int, int, float | None]]:
            found = {run: (*counts, cost) for run, *counts, cost in record.execute(failed.group_by(name))}
            for run, cost in record.execute(scored.group_by(name)):
                count, left, lost = found.get(run, (0, 0, None))
                found[run] = count, left, None if cost is None and lost is None else (cost or 0.0) + (lost or 0.0)
            return found

        return self._db.ask(read)

    def count(self, after: int = 0) -> int:
        """How many sequences there are above a row number."""
        query = select(func.count()).select_from(schema.sequences).where(schema.sequences.c.id > after)
        return self._db.ask(lambda record: record.scalar(query) or 0)

    def digest(self, number: int) -> str | None:
        """What tells the sequence of a row number from another; None where there is none."""
        query = select(schema.sequences.c.content_sha256).where(schema.sequences.c.id == number)
        return self._db.ask(lambda record: record.scalar(query))

    def texts(self, after: int, most: int) -> list[NumberedTexts]:
        """The texts of the next sequences above a row number, at most so many."""

        def read(record: Connection) -> list[NumberedTexts]:
            heads, turns = schema.sequences.c, schema.turns.c
            wanted = select(heads.id, heads.content_sha256).where(heads.id > after).order_by(heads.id).limit(most)
            digests = {row[0]: row[1] for row in record.execute(wanted)}
            texts: dict[int, list[str]] = {key: [] for key in digests}
            said = select(turns.sequence, turns.prompt, turns.response).where(turns.sequence.in_(list(digests)))
            for key, prompt, response in record.execute(said.order_by(turns.sequence, turns.turn)):
                texts[key] += [prompt, response or ""]
            return [NumberedTexts(key, "\n".join(texts[key]), digest) for key, digest in digests.items()]

        return self._db.ask(read)

    def metadata(self, after: int, most: int) -> list[tuple[int, Any]]:
        """Row number and metadata, as an object or its JSON, of the next sequences above a row number."""
        table = schema.sequences.c
        query = select(table.id, table.metadata).where(table.id > after).order_by(table.id).limit(most)
        return self._db.ask(lambda record: [(key, value) for key, value in rows(record, query)])
