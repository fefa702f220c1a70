"""What a scorer gives of a turn, and what it remembers of a conversation."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from turnwise.conversation import Side, Turn
from turnwise.errors import ObserverError
from turnwise.guard.guardrail import Finding
from turnwise.observers import ObservationFailure, ObserverSession
from turnwise.scoring import Score

KEPT = 4
"""Turns whose beginning a state remembers, so that a response may arrive after later prompts."""


class Trajectory(StrEnum):
    """Whose texts make a trajectory, and as what they are read."""

    INITIATOR = "initiator"
    """The initiator's prompts; the replies to them are heard."""

    RESPONDER = "responder"
    """The responder's texts, read as prompts to the initiator, whose texts are heard as the replies."""

    REPLIES = "replies"
    """The responder's texts, read as replies: whether they carry harm on."""

    @property
    def side(self) -> Side:
        """The side of a turn that has the texts."""
        return Side.PROMPT if self is Trajectory.INITIATOR else Side.RESPONSE


@dataclass(frozen=True, slots=True)
class SideScores:
    """What an observer says of one side of a turn.

    A principle that the observer says nothing about has no score, and failures are what it tried to score and
    could not. `unread` is the language of a text that it does not read, so that there is no score.
    """

    scores: Mapping[str, Score]
    failures: tuple[ObservationFailure, ...] = ()
    reasonings: Mapping[str, str] = field(default_factory=dict)
    unread: str | None = None

    def score(self, principle: str) -> Score | None:
        """The score of a principle; None where there is nothing to say of it. A failure is an `ObserverError`."""
        for failure in self.failures:
            if failure.principle == principle:
                raise ObserverError(_told(failure))
        return self.scores.get(principle)

    def settle(self, finding: Finding) -> Finding:
        """The finding, or an `ObserverError` where a principle that could not be scored might make it graver.

        A finding in full stands, and says what could not be scored.
        """
        if not self.failures:
            return finding
        told = "; ".join(map(_told, self.failures))
        if not finding.in_full:
            raise ObserverError(told)
        return replace(finding, reason=f"{finding.reason}; {told}")


@dataclass(slots=True)
class Taken:
    """A turn as it was taken in, with the observer's sessions before it.

    The texts of `turn` may change; `prompt` and `response` are as they were taken, None where that was elsewhere,
    so that they are read again. `passed` is the session without blocked texts, None where there were none.
    `left_out` says whether the judged text was blocked and reached nobody.
    """

    turn: Turn
    before: ObserverSession
    passed: ObserverSession | None
    prompt: str | None
    response: str | None
    left_out: bool = False


@dataclass(slots=True)
class ScorerState:
    """What a scorer remembers of one speaker in one conversation.

    `session` is the observer's after the latest turn, with everything that the speaker tried to say; `passed` is
    the same without blocked texts, None where nothing was blocked of late. `blocked_at` is the latest turn with a
    blocked text, while `passed` is there. `recent` has the last `KEPT` turns by number.
    """

    session: ObserverSession
    trajectory: Trajectory = Trajectory.INITIATOR
    passed: ObserverSession | None = None
    blocked_at: int = 0
    recent: dict[int, Taken] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)


@dataclass(frozen=True, slots=True)
class Parked:
    """Where a speaker stands in a conversation, as it can be kept.

    `recent` are the turns that may still change and are read again, in the order in which they were taken; the
    observer's states are those before them, `passed` without blocked texts. Where `whole` is false these can't
    become bytes, and every turn is read again.
    """

    recent: tuple[int, ...] = ()
    blocked_at: int = 0
    session: bytes = b""
    passed: bytes | None = None
    whole: bool = True


def _told(failure: ObservationFailure) -> str:
    return f"{failure.principle} could not be scored: {failure.reason}: {failure.message}"
