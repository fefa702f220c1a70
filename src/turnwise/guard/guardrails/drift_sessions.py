"""The sessions of ``drift``: which each speaker has, what they are told of turns, and what a stance asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from turnwise.conversation import Conversation
from turnwise.guard.guardrail import Action, Check
from turnwise.guard.identity.names import UNNAMED, canonical_name
from turnwise.guard.request import digest_of, short_id
from turnwise.guard.state.views import Prefixed, key_of
from turnwise.scoring import Score, TurnScores
from turnwise.scoring.score import HOSTILE_F
from turnwise.sessions import EngagementMode, Sessions, Stance
from turnwise.sessions.state_store import ChangesStates

_RESPONDER_MARK = "/responder"
"""Follows a session id in the id of the responder's session."""

_ALARMS = 2
"""Turns of a session's last 10 that broke trust, from which an open circuit breaker blocks: one may be wrong."""


@dataclass(frozen=True, slots=True)
class DriftSessions:
    """The sessions that a drift guardrail takes turns into, and what it does about their stances.

    Where a check has a state store, changes are kept back in it, and a session is known by the digest of its name.
    `point` is the F that breaks trust, in (0, 1]: the observer's operating point of ``any_turn``, where it
    publishes one, or the number that was given; None leaves scores as they are. `by_mode` leaves out the modes in
    which nothing is done.
    """

    sessions: Sessions
    point: float | None
    by_mode: Mapping[EngagementMode, Action]
    breaker: Literal["block", "warn", "ignore"]
    name: str = "drift"

    def over(self, states: ChangesStates) -> Sessions:
        """The sessions as they stand in a state store."""
        return self.sessions.over(Prefixed(states, key_of(self.name, "")))

    def stance(self, check: Check, session_id: str) -> Stance | None:
        """The stance towards a session; None for one that is not known."""
        sessions, kept_id = self._of(check, session_id)
        return sessions.stance(kept_id)

    def take(
        self, check: Check, session_id: str, told: TurnScores, conversation_id: str, now: datetime | None
    ) -> Stance:
        """Take a turn into its session, and return the stance after it; `now` is None for the present."""
        sessions, kept_id = (self.sessions, session_id) if check.state is None else self._of(check, session_id)
        if self.point is not None:
            told = TurnScores(told.turn, scaled_scores(told.scores, self.point), told.length)
        return sessions.take(kept_id, told, conversation_id=conversation_id, now=now)

    def answered(self, check: Check, session_id: str, text: str) -> Stance | None:
        """Tell a session of the reply to its latest turn; return the stance, None for a session not known."""
        sessions, kept_id = self._of(check, session_id)
        return None if sessions.stance(kept_id) is None else sessions.answered(kept_id, text)

    def asks(self, stance: Stance) -> tuple[str, Action | None]:
        """Why a stance asks for something, and for what; None for nothing."""
        action = self.by_mode.get(stance.mode)
        if action is not Action.BLOCK and not stance.processing and self.breaker != "ignore":
            opened = Action(self.breaker) if stance.alarms >= _ALARMS else Action.WARN
            return f"circuit breaker open: {stance.rationale}", opened
        return ("", None) if action is None else (f"session {stance.mode}: {stance.rationale}", action)

    def _of(self, check: Check, session_id: str) -> tuple[Sessions, str]:
        if check.state is None:
            return self.sessions, session_id
        return self.over(check.state), digest_of(session_id)


def sessions_of(session_id: str) -> tuple[str, str]:
    """A session and that of the responder beside it, which are forgotten together.

    >>> sessions_of("c1")
    ('c1', 'c1/responder')
    """
    return session_id, short_id(f"{session_id}{_RESPONDER_MARK}")


def responder_session(session_id: str, conversation: Conversation) -> str:
    """The id of the responder's session, which is never the initiator's.

    A session that is the named initiator's own has its like in the named responder's. Any other is of one
    conversation or was named by the caller; then the responder has one beside it.

    >>> responder_session("ann", Conversation.human_to_human("ann", "ben"))
    'ben'
    >>> responder_session("c1", Conversation.human_to_human("ann", "ben", conversation_id="c1"))
    'c1/responder'
    """
    initiator, responder = (canonical_name(one) for one in (conversation.initiator, conversation.responder))
    if initiator not in UNNAMED and session_id == short_id(initiator):
        if responder in UNNAMED:
            # Nobody's name is not one person's: the session ends with the conversation.
            return sessions_of(conversation.conversation_id)[1]
        if responder != initiator:
            return short_id(responder)
    return sessions_of(session_id)[1]


def actions_by_mode(block_from: str, warn_from: str) -> dict[EngagementMode, Action]:
    """The action by engagement mode, from the two given modes on; ``never`` stands for none."""
    actions: dict[EngagementMode, Action] = {}
    for first, action in ((warn_from, Action.WARN), (block_from, Action.BLOCK)):
        if first != "never":
            modes = tuple(EngagementMode)
            actions |= dict.fromkeys(modes[modes.index(EngagementMode(first)) :], action)
    return actions


def scaled_scores(scores: Mapping[str, Score], point: float) -> dict[str, Score]:
    """Scores on the scale of the session memory: the F that breaks trust becomes its limit.

    The memory's rules were written for observers whose F means a breach from 0.65 on. `point` is in (0, 1]; at 1
    nothing breaks trust.
    """
    scaled = {}
    for name, score in scores.items():
        if point > score.F or point == 1.0:
            F = score.F * HOSTILE_F / point
        else:
            # Just above the limit, which itself is no breach yet.
            F = min(1.0, HOSTILE_F + 1e-6 + (score.F - point) / (1.0 - point) * (1.0 - HOSTILE_F))
        scaled[name] = Score(score.T, score.I, F)
    return scaled
