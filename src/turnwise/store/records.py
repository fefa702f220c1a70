"""Between the words of turnwise and the rows of the record."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping

from turnwise.conversation import Conversation, Label, Sequence, Side, Turn
from turnwise.scoring import Call, Evaluation, EvaluationKey, Failure, Provenance, Score


@dataclass(frozen=True, slots=True)
class Run:
    """One observer with one configuration, over some sequences.

    Args:
        name: unique in a store.
        observer: specification of the observer.
        observer_version: its version.
        context: what it could see.
        parameters: its settings.
        operating_points: calibrated threshold by detector, in the unit of the detector's score.
        code_version: version and revision of turnwise that started the run.
        created_at: when it was started, in UTC.
    """

    name: str
    observer: str
    observer_version: str
    context: str
    parameters: Mapping[str, object]
    operating_points: Mapping[str, float]
    code_version: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class SequenceHead:
    """A sequence without its texts.

    Args:
        sequence_id: its id.
        label: ground truth.
        source: the data set that it comes from.
        turns: number of turns.
    """

    sequence_id: str
    label: Label
    source: str
    turns: int


def content_hash(sequence: Sequence) -> str:
    """Return the SHA-256 of what makes a sequence that sequence: label, source, metadata and turns.

    The metadata of the conversation counts too: that is where a system message is kept.
    """
    known = dict(sequence.metadata), sequence.conversation.metadata
    content: list[object] = [sequence.label, sequence.source, *known]
    content += ([turn.prompt, turn.response, turn.metadata] for turn in sequence.conversation)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def sequence_row(sequence: Sequence, digest: str, imported_at: datetime) -> dict[str, Any]:
    """Return the row of a sequence."""
    header = sequence.conversation.to_dict()
    del header["turns"]
    return {
        "sequence_id": sequence.sequence_id,
        "label": str(sequence.label),
        "source": sequence.source,
        "turns": sequence.conversation.get_turn_count(),
        "content_sha256": digest,
        "conversation": header,
        "metadata": dict(sequence.metadata),
        "imported_at": imported_at,
    }


def turn_row(sequence: int, turn: Turn) -> dict[str, Any]:
    """Return the row of a turn of the sequence with that key."""
    return {
        "sequence": sequence,
        "turn": turn.number,
        "prompt": turn.prompt,
        "response": turn.response,
        "prompt_chars": len(turn.prompt),
        "response_chars": len(turn.response or ""),
        "timestamp": turn.timestamp,
        "response_timestamp": turn.response_timestamp,
        "metadata": turn.metadata,
    }


def read_turn(row: RowMapping) -> Turn:
    """Return the turn of a row."""
    return Turn(
        number=row["turn"],
        prompt=row["prompt"],
        response=row["response"],
        timestamp=row["timestamp"],
        response_timestamp=row["response_timestamp"],
        metadata=row["metadata"],
    )


def check_turns(turns: int, found: Collection[object]) -> None:
    """Refuse a sequence of which turns are missing.

    Args:
        turns: how many it has.
        found: those that were found.

    Raises:
        ValueError: they are fewer, or more.
    """
    if len(found) != turns:
        raise ValueError(f"{len(found)} of its {turns} turns are there")


def turns_within(turns: range, last: int) -> range:
    """Return those of some turns that a sequence has.

    Args:
        turns: numbers of turns, one after the other.
        last: how many turns the sequence has.

    >>> turns_within(range(3, 9), 5), len(turns_within(range(3, 9), 2))
    (range(3, 6), 0)
    """
    return range(max(turns.start, 1), min(turns.stop, last + 1))


def read_sequence(row: RowMapping, turns: Iterable[Turn]) -> Sequence:
    """Return the sequence of a row and its turns."""
    conversation = Conversation.from_dict({**row["conversation"], "turns": [turn.to_dict() for turn in turns]})
    return Sequence(
        sequence_id=row["sequence_id"],
        label=Label(row["label"]),
        source=row["source"],
        conversation=conversation,
        metadata=row["metadata"],
    )


def read_head(row: RowMapping) -> SequenceHead:
    """Return the head of a sequence from its row."""
    return SequenceHead(row["sequence_id"], Label(row["label"]), row["source"], row["turns"])


def read_run(row: RowMapping) -> Run:
    """Return the run of a row."""
    return Run(
        name=row["name"],
        observer=row["observer"],
        observer_version=row["observer_version"],
        context=row["context"],
        parameters=row["parameters"],
        operating_points=row["operating_points"],
        code_version=row["code_version"],
        created_at=row["created_at"],
    )


def storable(text: str) -> str:
    """Return what an observer said with half surrogates spelled out, which UTF-8 does not have.

    A score is not to be lost because the words beside it are broken.

    >>> storable("fine"), storable("cut off \\ud83d")
    ('fine', 'cut off \\\\ud83d')
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def outcome_row(
    outcome: Evaluation | Failure, run: int, sequence: int, provenance: int, reply: int | None
) -> dict[str, Any]:
    """Return the row of an evaluation or failure."""
    row = {
        "run": run,
        "sequence": sequence,
        "principle": outcome.key.principle,
        "turn": outcome.key.turn,
        "side": str(outcome.key.side),
        "provenance": provenance,
        "reply": reply,
        "latency_s": outcome.latency_s,
        "cost_usd": outcome.cost_usd,
        "created_at": outcome.created_at,
    }
    if isinstance(outcome, Failure):
        return {**row, "reason": outcome.reason, "message": storable(outcome.message)}
    reasoning = None if outcome.reasoning is None else storable(outcome.reasoning)
    return {**row, **outcome.score.to_dict(), "reasoning": reasoning}


def _key_and_provenance(row: RowMapping, run: Run, sequence_id: str) -> tuple[EvaluationKey, Provenance]:
    key = EvaluationKey(run.name, sequence_id, row["turn"], Side(row["side"]), row["principle"])
    provenance = Provenance(
        observer=run.observer,
        observer_version=run.observer_version,
        principle_version=row["principle_version"],
        context=run.context,
        parameters=run.parameters,
        code_version=row["code_version"],
    )
    return key, provenance


def read_evaluation(row: RowMapping, run: Run, sequence_id: str, calls: tuple[Call, ...]) -> Evaluation:
    """Return the evaluation of a row joined with its provenance and reply, and the calls that it rests on."""
    key, provenance = _key_and_provenance(row, run, sequence_id)
    return Evaluation(
        key=key,
        score=Score(row["T"], row["I"], row["F"]),
        provenance=provenance,
        created_at=row["created_at"],
        reasoning=row["reasoning"],
        raw_reply=row["raw_reply"],
        latency_s=row["latency_s"],
        cost_usd=row["cost_usd"],
        calls=calls,
    )


def read_failure(row: RowMapping, run: Run, sequence_id: str, calls: tuple[Call, ...]) -> Failure:
    """Return the failure of a row joined with its provenance and reply, and the calls that it rests on."""
    key, provenance = _key_and_provenance(row, run, sequence_id)
    return Failure(
        key=key,
        reason=row["reason"],
        message=row["message"],
        provenance=provenance,
        created_at=row["created_at"],
        raw_reply=row["raw_reply"],
        latency_s=row["latency_s"],
        cost_usd=row["cost_usd"],
        calls=calls,
    )
