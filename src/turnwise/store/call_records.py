"""Between calls to language models, the replies to them, and their rows."""

from __future__ import annotations

from typing import Any

from sqlalchemy import RowMapping

from turnwise.scoring import Call, Reply, Score
from turnwise.store.records import storable

OF_REPLY = "reply_"
"""What stands before the columns of a reply where a row holds a call too."""


def reply_row(reply: Reply) -> dict[str, Any]:
    """Return the row of a reply."""
    row = {name: getattr(reply, name) for name in Reply.__slots__}
    return {name: storable(value) if isinstance(value, str) else value for name, value in row.items()}


def read_reply(row: RowMapping) -> Reply:
    """Return the reply of a row."""
    return Reply(**{name: row[name] for name in Reply.__slots__})


def call_row(
    call: Call, *, reply: int | None, evaluation: int | None = None, failure: int | None = None
) -> dict[str, Any]:
    """Return the row of a call to which that reply came, and on which that evaluation or failure rests."""
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
    """Return the call of a row joined with its reply."""
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
