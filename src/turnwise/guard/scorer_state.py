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

    Args:
        scores: score by principle; one that the observer says nothing about is not there.
        failures: what it tried to score and could not.
        reasonings: the reason in words by principle, where the observer gives one.
        unread: language of the text where the observer does not read it, so that there is no score; else None.
    """

    scores: Mapping[str, Score]
    failures: tuple[ObservationFailure, ...] = ()
    reasonings: Mapping[str, str] = field(default_factory=dict)
    unread: str | None = None

    def score(self, principle: str) -> Score | None:
        """Return the score of one principle, or None where the observer has nothing to say of it.

        Raises:
            ObserverError: the observer tried to score it and could not.
        """
        for failure in self.failures:
            if failure.principle == principle:
                raise ObserverError(_told(failure))
        return self.scores.get(principle)

    def settle(self, finding: Finding) -> Finding:
        """Return what was found in the scores, unless a principle without one could make it graver.

        A finding in full stands, and says what could not be scored.

        Args:
            finding: what the scores say.

        Raises:
            ObserverError: a principle could not be scored, and nothing was found in full.
        """
        if not self.failures:
            return finding
        told = "; ".join(map(_told, self.failures))
        if not finding.in_full:
            raise ObserverError(told)
        return replace(finding, reason=f"{finding.reason}; {told}")


@dataclass(slots=True)
class Taken:
    """A turn as it was taken in, with the sessions before it.

    Args:
        turn: the turn, whose texts may change.
        before: the observer's session before it.
        passed: the same without blocked texts; None where there were none.
        prompt: its prompt as it was taken; None where that was elsewhere, so that it is read again.
        response: its response likewise.
        left_out: whether its judged text was blocked and reached nobody.
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

    Args:
        session: the observer's, after the latest turn, with everything that the speaker tried to say.
        trajectory: whose texts are judged.
        passed: the same without the texts that were blocked; None where nothing was blocked of late.
        blocked_at: number of the latest turn with a blocked text, while `passed` is there.
        recent: the last `KEPT` turns by number, as they were taken.
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

    Args:
        recent: the turns that may still change and are read again, in the order in which they were taken.
        blocked_at: number of the latest turn with a blocked text, while `passed` is there.
        session: the observer's state before those turns.
        passed: the same without the texts that were blocked; None where nothing was blocked of late.
        whole: whether this is all; else the observer's state can't become bytes, and every turn is read again.
    """

    recent: tuple[int, ...] = ()
    blocked_at: int = 0
    session: bytes = b""
    passed: bytes | None = None
    whole: bool = True


def _told(failure: ObservationFailure) -> str:
    return f"{failure.principle} could not be scored: {failure.reason}: {failure.message}"
