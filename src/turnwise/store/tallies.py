"""What runs have come to: how much was scored, what failed, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Select, Table, exists, func, literal, null, select, union_all

from turnwise.store import schema
from turnwise.store.database import Read


@dataclass(frozen=True, slots=True)
class RunTally:
    """What a run has come to.

    Args:
        run: name of the run.
        sequences: sequences of which something was scored or tried.
        evaluations: scores.
        failed: scores that were tried, failed, and have not come since.
        failures: tries that failed in all, those that were mended later among them.
        calls: calls to a language model, those answered at no cost among them.
        cached: calls that were answered by a reply that had been paid for before.
        prompt_tokens: tokens of the requests that were paid for, as far as they were counted.
        completion_tokens: tokens of their replies, as far as they were counted.
        cost_usd: the sum of what the rows of evaluations and failures cost; None where none has a known cost.
        seconds: the sum of the seconds that the rows took; with parallel workers more than has passed.
        first: when the first outcome was made, in UTC; None where there is none.
        last: when the last outcome was made, in UTC; None where there is none.
    """

    run: str
    sequences: int = 0
    evaluations: int = 0
    failed: int = 0
    failures: int = 0
    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0
    first: datetime | None = None
    last: datetime | None = None


def tally(read: Read) -> dict[str, RunTally]:
    """Return what every run has come to, by its name; a run without an outcome is absent.

    Args:
        read: answers queries.
    """
    found: dict[str, dict[str, Any]] = {}
    for query in (_outcomes(), _open_failures(), _calls()):
        for row in read(query):
            values = dict(row)
            found.setdefault(values.pop("name"), {}).update(values)
    return {name: RunTally(name, **values) for name, values in found.items()}


def still_failed() -> Select[Any]:
    """Return a query for the distinct things that failed and have no evaluation since, of all runs."""
    failed, scored = schema.failures, schema.evaluations
    about = ("run", "sequence", "principle", "turn", "side")
    mended = exists().where(*(scored.c[name] == failed.c[name] for name in about))
    return select(*(failed.c[name] for name in about)).where(~mended).distinct()


def _outcomes() -> Select[Any]:
    def rows(table: Table) -> Select[Any]:
        score = literal(1) if table is schema.evaluations else null()
        columns = (table.c[name] for name in ("run", "sequence", "cost_usd", "latency_s", "created_at"))
        return select(*columns, score.label("scored"))

    both = union_all(rows(schema.evaluations), rows(schema.failures)).subquery()
    return (
        select(
            schema.runs.c.name,
            func.count(both.c.sequence.distinct()).label("sequences"),
            func.count(both.c.scored).label("evaluations"),
            (func.count() - func.count(both.c.scored)).label("failures"),
            func.sum(both.c.cost_usd).label("cost_usd"),
            func.coalesce(func.sum(both.c.latency_s), 0.0).label("seconds"),
            func.min(both.c.created_at, type_=schema.UtcTime).label("first"),
            func.max(both.c.created_at, type_=schema.UtcTime).label("last"),
        )
        .select_from(both)
        .join(schema.runs, schema.runs.c.id == both.c.run)
        .group_by(schema.runs.c.name)
    )


def _open_failures() -> Select[Any]:
    some = still_failed().subquery()
    return (
        select(schema.runs.c.name, func.count().label("failed"))
        .select_from(some)
        .join(schema.runs, schema.runs.c.id == some.c.run)
        .group_by(schema.runs.c.name)
    )


def _calls() -> Select[Any]:
    calls, replies = schema.calls, schema.replies

    def rows(table: Table, column: Column[int]) -> Select[Any]:
        return select(table.c.run, calls.c.cached, calls.c.reply).join(table, table.c.id == column)

    both = union_all(
        rows(schema.evaluations, calls.c.evaluation), rows(schema.failures, calls.c.failure)
    ).subquery()
    paid = ~both.c.cached
    return (
        select(
            schema.runs.c.name,
            func.count().label("calls"),
            func.count().filter(both.c.cached).label("cached"),
            func.coalesce(func.sum(replies.c.prompt_tokens).filter(paid), 0).label("prompt_tokens"),
            func.coalesce(func.sum(replies.c.completion_tokens).filter(paid), 0).label("completion_tokens"),
        )
        .select_from(both)
        .join(schema.runs, schema.runs.c.id == both.c.run)
        .outerjoin(replies, replies.c.id == both.c.reply)
        .group_by(schema.runs.c.name)
    )
