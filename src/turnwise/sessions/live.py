"""Live sessions: memory, store and clock together, as a guard uses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from turnwise.clock import Clock
from turnwise.scoring import TurnScores
from turnwise.sessions.breaker import BreakerState
from turnwise.sessions.memory import SessionMemory
from turnwise.sessions.stance import Stance
from turnwise.sessions.state import SESSION, SessionState
from turnwise.sessions.state_store import ChangesStates, StateStore


class Sessions:
    """Takes turns of many sessions, from several threads if need be.

    Args:
        store: where states are kept.
        clock: gives the present time, aware.
        memory: the rules; the default ones where None.

    >>> from datetime import UTC, datetime
    >>> from turnwise.scoring import Score
    >>> from turnwise.sessions import MemoryStateStore
    >>> sessions = Sessions(MemoryStateStore(), lambda: datetime(2025, 1, 1, tzinfo=UTC))
    >>> stance = sessions.take("user-1", TurnScores(1, {"reciprocity": Score(T=0.1, I=0.2, F=0.9)}))
    >>> stance.mode.value, stance.processing
    ('guarded', False)
    """

    def __init__(self, store: StateStore, clock: Clock, memory: SessionMemory | None = None) -> None:
        self._store: ChangesStates = store
        self._keeper = store
        self._clock = clock
        self._memory = memory or SessionMemory()

    def ruled_by(self, memory: SessionMemory) -> Sessions:
        """Return the same sessions under other rules, from their next turn on."""
        return Sessions(self._keeper, self._clock, memory)

    def take(
        self,
        session_id: str,
        scores: TurnScores,
        *,
        response: str | None = None,
        conversation_id: str | None = None,
        now: datetime | None = None,
        key: str = "",
    ) -> Stance:
        """Take a turn into its session, which begins with its first turn, and return the stance after it.

        Args:
            session_id: id of the session, at most 64 bytes.
            scores: scores of the turn, blocked or not.
            response: text of the response, if there is one yet; else see `answered`.
            conversation_id: the conversation that the turn is part of.
            now: when the turn came, aware; by default what the clock says.
            key: names the turn for `correct`, where its scores may still be corrected.

        Raises:
            SessionError: an id that is empty or too long, or a store that can't keep it.
        """
        at = self._clock() if now is None else now

        def change(state: SessionState | None) -> tuple[SessionState, Stance]:
            before = state or self._memory.start(session_id, at)
            return self._memory.update(
                before, scores, at, response=response, conversation_id=conversation_id, key=key
            )

        return self._store.change(SESSION, session_id, change)

    def answered(self, session_id: str, response: str) -> Stance:
        """Take the response to the latest turn of a session, and return the stance after it; no turn is counted.

        Args:
            session_id: id of the session.
            response: text of the response; only whether it refuses is kept.
        """
        now = self._clock()

        def change(state: SessionState | None) -> tuple[SessionState, Stance]:
            after = self._memory.answered(state or self._memory.start(session_id, now), response)
            return after, self._memory.assess(after)

        return self._store.change(SESSION, session_id, change)

    def correct(self, session_id: str, key: str, scores: TurnScores, answer: Mapping[str, Any]) -> Stance | None:
        """Give a turn other scores, as though it had had them from the beginning; return the stance after it.

        Args:
            session_id: id of the session.
            key: names the turn, as `take` was given it.
            scores: its scores.
            answer: JSON values that are kept with the turn until `settle`, for another process.

        Returns:
            None where the turn can't be corrected any more, or the session is not known.
        """
        if self._store.get(SESSION, session_id) is None:
            return None
        now = self._clock()

        def change(state: SessionState | None) -> tuple[SessionState, Stance | None]:
            before = state or self._memory.start(session_id, now)
            after = self._memory.correct(before, key, scores, answer)
            return (before, None) if after is None else (after, self._memory.assess(after))

        return self._store.change(SESSION, session_id, change)

    def settle(self, session_id: str, key: str) -> None:
        """Let go of what `correct` needs of a turn: it won't be corrected any more."""
        state = self._store.get(SESSION, session_id)
        if state is None or state.open is None:
            return
        now = self._clock()

        def change(state: SessionState | None) -> tuple[SessionState, None]:
            return self._memory.settle(state or self._memory.start(session_id, now), key), None

        self._store.change(SESSION, session_id, change)

    def stance(self, session_id: str) -> Stance | None:
        """Return the stance towards a session as it is, or None for one that is not known."""
        state = self._store.get(SESSION, session_id)
        return None if state is None else self._memory.assess(state)

    def state(self, session_id: str) -> SessionState | None:
        """Return the state of a session, or None for one that is not known."""
        return self._store.get(SESSION, session_id)

    def release(self, session_id: str) -> Stance | None:
        """Close the circuit breaker of a session, even a terminated one, and return the stance after it.

        Trust and what is known of its turns stay; their scores are not corrected any more. None for a session that
        is not known.
        """
        if self._store.get(SESSION, session_id) is None:
            return None
        now = self._clock()

        def change(state: SessionState | None) -> tuple[SessionState, Stance]:
            before = state or self._memory.start(session_id, now)
            fresh = BreakerState(trust=self._memory.settings.breaker.initial)
            after = replace(before, breaker=fresh, open=None)
            return after, self._memory.assess(after)

        return self._store.change(SESSION, session_id, change)

    def over(self, states: ChangesStates | None = None, *, clock: Clock | None = None) -> Sessions:
        """Return sessions by the same rules with another store for changes, or another clock.

        Args:
            states: what reads and changes states, such as what holds changes back until a check has ended.
                `forget` and `purge` still go to the store of before.
            clock: gives the present time, aware.
        """
        other = Sessions(self._keeper, clock or self._clock, self._memory)
        other._store = states or other._store
        return other

    def forget(self, session_id: str) -> bool:
        """Forget a session, even a terminated one, and return whether it was known."""
        return self._keeper.remove(SESSION, session_id)

    def purge(self) -> int:
        """Have the store drop expired sessions, and return how many; none where sessions don't expire."""
        limit = self._memory.settings.expires_after
        return 0 if limit is None else self._keeper.purge(self._clock() - limit)
