"""Evaluations, failures, unread texts, calls and replies as rows of a record, and back."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from sqlalchemy import RowMapping, Select, Table, select

from turnwise._support.batches import batched
from turnwise.conversation import Side
from turnwise.scoring import (
    NOT_READ,
    Call,
    Evaluation,
    EvaluationKey,
    Failure,
    Provenance,
    Reply,
    Score,
    Unread,
)
from turnwise.store import schema
from turnwise.store.database import PAGE
from turnwise.store.runs import Run

OF_REPLY = "reply_"
"""What stands before the columns of a reply where a row holds a call too."""

Outcome = Evaluation | Failure | Unread
"""What scoring gave: a score, or none and why. What was not read is a row of failures with its own reason."""


def calls_of(table: Table, keys: Collection[int]) -> Iterator[Select[Any]]:
    """Yield queries for the calls of evaluations or failures, joined with their replies, in order of repeats."""
    calls, replies = schema.calls, schema.replies
    column = calls.c.failure if table is schema.failures else calls.c.evaluation
    of_reply = [replies.c[name].label(OF_REPLY + name) for name in Reply.__slots__]
    query = select(calls, column.label("outcome"), *of_reply).outerjoin(replies, replies.c.id == calls.c.reply)
    for some in batched(keys, PAGE):
        yield query.where(column.in_(some)).order_by(calls.c.repeat, calls.c.id)


def storable(text: str) -> str:
    """A text with unpaired surrogates, which UTF-8 does not have, spelled out.

    A score is not to be lost because the words beside it are broken.

    >>> storable("fine"), storable("cut off \\ud83d")
    ('fine', 'cut off \\\\ud83d')
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def reply_row(reply: Reply) -> dict[str, Any]:
    """The row of a reply."""
    row = {name: getattr(reply, name) for name in Reply.__slots__}
    return {name: storable(value) if isinstance(value, str) else value for name, value in row.items()}


def reply_of_row(row: RowMapping) -> Reply:
    """The reply in a row."""
    return Reply(**{name: row[name] for name in Reply.__slots__})


def call_row(
    call: Call, *, reply: int | None, evaluation: int | None = None, failure: int | None = None
) -> dict[str, Any]:
    """The row of a call, with the keys of its reply and of the evaluation or failure that rests on it."""
    score = call.score.to_dict() if call.score else {"T": None, "I": None, "F": None}
    words = {"reasoning": call.reasoning, "reason": call.reason, "message": call.message}
    return {
        "evaluation": evaluation,
        "failure": failure,
        "repeat": call.repeat,
        "reply": reply,
        **score,
        **{name: None if text is None else storable(text) for name, text in words.items()},
        "cached": call.cached,
        "attempts": call.attempts,
    }


def read_call(row: RowMapping) -> Call:
    """The call in a row that was joined with its reply."""
    return Call(
        repeat=row["repeat"],
        reply=None if row["reply"] is None else Reply(**{name: row[OF_REPLY + name] for name in Reply.__slots__}),
        score=None if row["T"] is None else Score(row["T"], row["I"], row["F"]),
        reasoning=row["reasoning"],
        reason=row["reason"],
        message=row["message"],
        cached=row["cached"],
        attempts=row["attempts"],
    )


def score_row(scored: Outcome, run: int, sequence: int, provenance: int, reply: int | None) -> dict[str, Any]:
    """The row of an evaluation, a failure or an unread text."""
    row = {
        "run": run,
        "sequence": sequence,
        "principle": scored.key.principle,
        "turn": scored.key.turn,
        "side": str(scored.key.side),
        "provenance": provenance,
        "reply": reply,
        "latency_s": None if isinstance(scored, Unread) else scored.latency_s,
        "cost_usd": None if isinstance(scored, Unread) else scored.cost_usd,
        "created_at": scored.created_at,
    }
    if isinstance(scored, Unread):
        return {**row, "reason": NOT_READ, "message": storable(scored.language)}
    if isinstance(scored, Failure):
        return {**row, "reason": scored.reason, "message": storable(scored.message)}
    reasoning = None if scored.reasoning is None else storable(scored.reasoning)
    return {**row, **scored.score.to_dict(), "reasoning": reasoning}


def read_evaluation(row: RowMapping, run: Run, sequence_id: str, calls: tuple[Call, ...]) -> Evaluation:
    """The evaluation in a row that was joined with its provenance and reply, and the calls that it rests on."""
    score = Score(row["T"], row["I"], row["F"])
    return Evaluation(score=score, reasoning=row["reasoning"], **_common(row, run, sequence_id, calls))


def read_failure(row: RowMapping, run: Run, sequence_id: str, calls: tuple[Call, ...]) -> Failure:
    """The failure in a row that was joined with its provenance and reply, and the calls that it rests on."""
    return Failure(reason=row["reason"], message=row["message"], **_common(row, run, sequence_id, calls))


def read_unread(row: RowMapping, run: Run, sequence_id: str) -> Unread:
    """The unread text in a row that was joined with its provenance."""
    about = _common(row, run, sequence_id, ())
    return Unread(about["key"], row["message"], about["provenance"], about["created_at"])


def _common(row: RowMapping, run: Run, sequence_id: str, calls: tuple[Call, ...]) -> dict[str, Any]:
    provenance = Provenance(
        observer=run.observer,
        observer_version=run.observer_version,
        principle_version=row["principle_version"],
        context=run.context,
        parameters=run.parameters,
        code_version=row["code_version"],
    )
    kept = {name: row[name] for name in ("created_at", "raw_reply", "latency_s", "cost_usd")}
    key = EvaluationKey(run.name, sequence_id, row["turn"], Side(row["side"]), row["principle"])
    return {"key": key, "provenance": provenance, "calls": calls, **kept}
