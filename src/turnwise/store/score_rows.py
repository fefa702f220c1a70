"""Between evaluations, failures, calls and replies, and their rows."""

from __future__ import annotations

from typing import Any

from sqlalchemy import RowMapping

from turnwise.conversation import Side
from turnwise.scoring import Call, Evaluation, EvaluationKey, Failure, Provenance, Reply, Score
from turnwise.store.runs import Run

OF_REPLY = "reply_"
"""What stands before the columns of a reply where a row holds a call too."""


def storable(text: str) -> str:
    """Return what an observer said with half surrogates spelled out, which UTF-8 does not have.

    A score is not to be lost because the words beside it are broken.

    >>> storable("fine"), storable("cut off \\ud83d")
    ('fine', 'cut off \\\\ud83d')
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


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


def score_row(
    scored: Evaluation | Failure, run: int, sequence: int, provenance: int, reply: int | None
) -> dict[str, Any]:
    """Return the row of an evaluation or failure."""
    row = {
        "run": run,
        "sequence": sequence,
        "principle": scored.key.principle,
        "turn": scored.key.turn,
        "side": str(scored.key.side),
        "provenance": provenance,
        "reply": reply,
        "latency_s": scored.latency_s,
        "cost_usd": scored.cost_usd,
        "created_at": scored.created_at,
    }
    if isinstance(scored, Failure):
        return {**row, "reason": scored.reason, "message": storable(scored.message)}
    reasoning = None if scored.reasoning is None else storable(scored.reasoning)
    return {**row, **scored.score.to_dict(), "reasoning": reasoning}


def read_evaluation(row: RowMapping, run: Run, sequence_id: str, calls: tuple[Call, ...]) -> Evaluation:
    """Return the evaluation of a row joined with its provenance and reply, and the calls that it rests on."""
    score = Score(row["T"], row["I"], row["F"])
    return Evaluation(score=score, reasoning=row["reasoning"], **_common(row, run, sequence_id, calls))


def read_failure(row: RowMapping, run: Run, sequence_id: str, calls: tuple[Call, ...]) -> Failure:
    """Return the failure of a row joined with its provenance and reply, and the calls that it rests on."""
    return Failure(reason=row["reason"], message=row["message"], **_common(row, run, sequence_id, calls))


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
