"""What is kept of one scoring: an evaluation where it worked, a failure where it did not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from turnwise.conversation.turn import Side
from turnwise.scoring.call import Call, Spread, spread
from turnwise.scoring.score import Score


class EvaluationKey(NamedTuple):
    """What one stored score is about. Sorts by run, sequence, turn, side, principle.

    Args:
        run: name of the run.
        sequence_id: id of the sequence.
        turn: number of the turn, from 1.
        side: the half of the turn that was judged.
        principle: name of the principle that it was judged against.
    """

    run: str
    sequence_id: str
    turn: int
    side: Side
    principle: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a score came about; the same for all evaluations of a principle in one run.

    Args:
        observer: specification of the observer, such as ``"local"`` or ``"replay:scores.jsonl"``.
        observer_version: its version; for trained weights with the hash of the weights.
        principle_version: version of the principle.
        context: what the observer could see, such as ``"history"`` or ``"window:3"``.
        parameters: settings of the observer, JSON values.
        code_version: version and revision of turnwise.
    """

    observer: str
    observer_version: str
    principle_version: str
    context: str
    parameters: Mapping[str, object]
    code_version: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One stored score.

    Args:
        key: what it is about.
        score: the score.
        provenance: how it came about.
        created_at: when it was made, aware and in UTC.
        reasoning: the observer's reason in words, where it gives one.
        raw_reply: the observer's unparsed answer, where it has one.
        latency_s: seconds from request to score.
        cost_usd: what it cost, in US dollars.
        calls: the calls to a language model that it rests on; empty for other observers.
    """

    key: EvaluationKey
    score: Score
    provenance: Provenance
    created_at: datetime
    reasoning: str | None = None
    raw_reply: str | None = None
    latency_s: float | None = None
    cost_usd: float | None = None
    calls: tuple[Call, ...] = ()

    @property
    def spread(self) -> Spread | None:
        """How far the scores of its calls lie apart; None where fewer than two calls gave one."""
        return spread(call.score for call in self.calls if call.score is not None)


@dataclass(frozen=True, slots=True)
class Failure:
    """One scoring that did not work. It has no score, and none is ever made up for it.

    Args:
        key: what was to be scored.
        reason: one word for the kind of failure, such as ``"malformed"``, ``"refused"`` or ``"error"``.
        message: what happened, for a person.
        provenance: how it was tried.
        created_at: when it was tried, aware and in UTC.
        raw_reply: the observer's unparsed answer, where it has one.
        latency_s: seconds from request to failure.
        cost_usd: what it cost all the same, in US dollars.
        calls: the calls to a language model that were made for it; empty for other observers.
    """

    key: EvaluationKey
    reason: str
    message: str
    provenance: Provenance
    created_at: datetime
    raw_reply: str | None = None
    latency_s: float | None = None
    cost_usd: float | None = None
    calls: tuple[Call, ...] = ()
