"""What runs have come to: scores, failures, unread texts, calls and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Column,
    Select,
    Subquery,
    Table,
    and_,
    case,
    exists,
    func,
    literal,
    null,
    select,
    union,
    union_all,
)

from turnwise._support.notebook import Shown
from turnwise.scoring import NOT_READ, FailureReason, FailureReasons
from turnwise.store import schema
from turnwise.store.column_types import UtcTime
from turnwise.store.database import Database


@dataclass(frozen=True, slots=True)
class RunTally(Shown):
    """Counts, cost and time of a run.

    Args:
        sequences: sequences of which something was scored or tried.
        evaluations: how many scores there are.
        failed: scores that were tried, failed, and have not been made since.
        failures: all tries that failed, including those that were mended later.
        unread: scores that are missing because the observer does not read the text, by language of the text.
        calls: calls to a language model, including those that cost nothing.
        cached: calls that were answered by a reply that had been paid for before.
        prompt_tokens: tokens of the requests that were paid for, as far as they were counted.
        completion_tokens: tokens of their replies, as far as they were counted.
        cost_usd: what evaluations and failures cost together; None where no cost is known.
        seconds: what evaluations and failures took together; with parallel workers more than the time that passed.
        first: when the first outcome was made, in UTC; None where there is none.
        last: when the last outcome was made, in UTC; None where there is none.
        structured: replies by how their request asked for JSON: ``json_schema``, ``json_object`` or ``none``;
            weaker than the run's setting where the server refused that.
        commonest_failure: the reason that most of the `failed` have, with an example; None where nothing failed.
    """

    run: str
    sequences: int = 0
    evaluations: int = 0
    failed: int = 0
    failures: int = 0
    unread: Mapping[str, int] = field(default_factory=dict)
    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0
    first: datetime | None = None
    last: datetime | None = None
    structured: Mapping[str, int] = field(default_factory=dict)
    commonest_failure: FailureReason | None = None


def tallies(database: Database) -> dict[str, RunTally]:
    """What each run of a record has come to, by name; a run without outcomes may be absent."""
    found: dict[str, dict[str, Any]] = {}
    for query in (_scored(), _open_failures(), _calls()):
        for row in database.read(query):
            values = dict(row)
            found.setdefault(values.pop("name"), {}).update(values)
    for row in database.read(_structures()):
        found[row["name"]].setdefault("structured", {})[row["structured"]] = row["replies"]
    for row in database.read(_unread()):
        found[row["name"]].setdefault("unread", {})[row["language"]] = row["scores"]
    reasons: dict[str, FailureReasons] = {}
    for row in database.read(_open_reasons()):
        reasons.setdefault(row["name"], FailureReasons()).add(row["reason"], row["message"], row["failed"])
    for name, given in reasons.items():
        found[name]["commonest_failure"] = given.commonest
    return {name: RunTally(name, **values) for name, values in found.items()}


_ABOUT = ("run", "sequence", "principle", "turn", "side")
"""What a score is about, by column."""


def still_failed() -> Select[Any]:
    """A query for what failed, in any run, and was neither scored nor found unreadable; each thing once."""
    failed, scored, unread = schema.failures, schema.evaluations, schema.failures.alias()
    mended = exists().where(*(scored.c[name] == failed.c[name] for name in _ABOUT))
    settled = exists().where(*(unread.c[name] == failed.c[name] for name in _ABOUT), unread.c.reason == NOT_READ)
    open_ = (failed.c.reason != NOT_READ, ~mended, ~settled)
    return select(*(failed.c[name] for name in _ABOUT)).where(*open_).distinct()


def _unread() -> Select[Any]:
    """A query for how many scores are missing because texts were not read, by run and language."""
    table = schema.failures
    columns = [table.c[name] for name in _ABOUT]
    some = select(*columns, table.c.message).where(table.c.reason == NOT_READ).distinct().subquery()
    return (
        select(schema.runs.c.name, some.c.message.label("language"), func.count().label("scores"))
        .select_from(some)
        .join(schema.runs, schema.runs.c.id == some.c.run)
        .group_by(schema.runs.c.name, some.c.message)
        .order_by(schema.runs.c.name, func.count().desc(), some.c.message)
    )


def _scored() -> Select[Any]:
    def rows(table: Table) -> Select[Any]:
        scores = table is schema.evaluations
        failed = null() if scores else case((table.c.reason != NOT_READ, 1))
        columns = (table.c[name] for name in ("run", "sequence", "cost_usd", "latency_s", "created_at"))
        return select(*columns, (literal(1) if scores else null()).label("scored"), failed.label("failed"))

    both = union_all(rows(schema.evaluations), rows(schema.failures)).subquery()
    return (
        select(
            schema.runs.c.name,
            func.count(both.c.sequence.distinct()).label("sequences"),
            func.count(both.c.scored).label("evaluations"),
            func.count(both.c.failed).label("failures"),
            func.sum(both.c.cost_usd).label("cost_usd"),
            func.coalesce(func.sum(both.c.latency_s), 0.0).label("seconds"),
            func.min(both.c.created_at, type_=UtcTime).label("first"),
            func.max(both.c.created_at, type_=UtcTime).label("last"),
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


def _open_reasons() -> Select[Any]:
    """A query for why scores failed that are still missing: each reason, how often, its last message."""
    failed, about = schema.failures, _ABOUT
    some = still_failed().subquery()
    newest = (
        select(func.max(failed.c.id).label("id"))
        .join(some, and_(*(failed.c[name] == some.c[name] for name in about)))
        .group_by(*(failed.c[name] for name in about))
        .subquery()
    )
    last = (
        select(failed.c.run, failed.c.reason, func.count().label("failed"), func.max(failed.c.id).label("id"))
        .join(newest, newest.c.id == failed.c.id)
        .group_by(failed.c.run, failed.c.reason)
        .subquery()
    )
    return (
        select(schema.runs.c.name, last.c.reason, last.c.failed, failed.c.message)
        .join(last, last.c.run == schema.runs.c.id)
        .join(failed, failed.c.id == last.c.id)
        .order_by(last.c.id)
    )


def _structures() -> Select[Any]:
    both, replies = _all_calls(), schema.replies
    return (
        select(schema.runs.c.name, replies.c.structured, func.count().label("replies"))
        .select_from(both)
        .join(schema.runs, schema.runs.c.id == both.c.run)
        .join(replies, replies.c.id == both.c.reply)
        .where(replies.c.structured.is_not(None))
        .group_by(schema.runs.c.name, replies.c.structured)
        .order_by(schema.runs.c.name, replies.c.structured)
    )


def _all_calls() -> Subquery:
    """A query for the calls of all runs, those of scores and those of failures.

    A call that asked for several principles is a row of `calls` for each, and one here.
    """
    calls = schema.calls

    def rows(table: Table, column: Column[int]) -> Select[Any]:
        about = (table.c[name] for name in ("run", "sequence", "turn", "side", "created_at"))
        lost = case((calls.c.reply.is_(None), calls.c.id)).label("lost")  # nothing tells which were one
        return select(*about, calls.c.cached, calls.c.reply, lost).join(table, table.c.id == column)

    return union(rows(schema.evaluations, calls.c.evaluation), rows(schema.failures, calls.c.failure)).subquery()


def _calls() -> Select[Any]:
    both, replies = _all_calls(), schema.replies
    paid = ~both.c.cached
    return (
        select(
            schema.runs.c.name,
            func.count().label("calls"),
            func.count().filter(both.c.cached).label("cached"),
            schema.total(replies.c.prompt_tokens, paid).label("prompt_tokens"),
            schema.total(replies.c.completion_tokens, paid).label("completion_tokens"),
        )
        .select_from(both)
        .join(schema.runs, schema.runs.c.id == both.c.run)
        .outerjoin(replies, replies.c.id == both.c.reply)
        .group_by(schema.runs.c.name)
    )
