"""Live sessions: memory, store and clock together, as a guard uses them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from turnwise.clock import Clock
from turnwise.scoring import TurnScores
from turnwise.sessions.breaker import BreakerState
from turnwise.sessions.evidence import NO_EVIDENCE, NO_PRIOR, PERSON, PersonRecord, Prior, faded
from turnwise.sessions.memory import SessionMemory
from turnwise.sessions.stance import Stance
from turnwise.sessions.state import SESSION, SessionState
from turnwise.sessions.state_store import ChangesStates, Result, StateStore

Taken = tuple[SessionState, Stance]

_LEAST = 1e-3
"""Weight below which two amounts of evidence are the same."""


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

    @property
    def memory(self) -> SessionMemory:
        """The rules."""
        return self._memory

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
        person: str = "",
    ) -> Stance:
        """Take a turn into its session, which begins with its first turn, and return the stance after it.

        Args:
            session_id: id of the session, at most 64 bytes.
            scores: scores of the turn, blocked or not.
            response: text of the response, if there is one yet; else see `answered`.
            conversation_id: the conversation that the turn is part of.
            now: when the turn came, aware; by default what the clock says.
            key: names the turn for `correct`, where its scores may still be corrected.
            person: who said it, at most 64 bytes, as `turnwise.guard` has names in canonical form: what speaks
                against a person counts in all sessions of that person. Empty for nobody known.

        Raises:
            SessionError: an id that is empty or too long, or a store that can't keep it.
        """
        at = self._clock() if now is None else now

        def change(state: SessionState, prior: Prior) -> Taken:
            about: dict[str, Any] = {"response": response, "conversation_id": conversation_id, "key": key}
            return self._memory.update(state, scores, at, prior=prior, **about)

        return self._with_person(session_id, person, at, change)

    def note(self, session_id: str, weight: float, *, person: str = "") -> Stance:
        """Take an event that is no evaluated turn into a session and the record of its person.

        Args:
            session_id: id of the session.
            weight: what it weighs, at least 0, such as `turnwise.sessions.evidence.BLOCKED`.
            person: as for `take`.
        """
        now = self._clock()

        def change(state: SessionState, prior: Prior) -> Taken:
            return self._assessed(self._memory.noted(state, weight, now, prior))

        return self._with_person(session_id, person, now, change)

    def _assessed(self, state: SessionState) -> Taken:
        return state, self._memory.assess(state)

    def _change(
        self, session_id: str, at: datetime, apply: Callable[[SessionState], tuple[SessionState, Result]]
    ) -> Result:
        """Change a session, which begins at this time where it is not known."""
        return self._store.change(
            SESSION, session_id, lambda state: apply(state or self._memory.start(session_id, at))
        )

    def _with_person(
        self, session_id: str, person: str, at: datetime, change: Callable[[SessionState, Prior], Taken]
    ) -> Stance:
        """Change a session, and the record of its person by as much as the session's own evidence changed."""
        rules = self._memory.settings.evidence
        record = self._store.get(PERSON, person) if person and rules is not None else None
        more = 0.0, 0

        def change_session(before: SessionState) -> Taken:
            nonlocal more
            prior = NO_PRIOR if record is None or rules is None else _prior(record, before, at, rules.half_life)
            after, stance = change(before, prior)
            more = self._memory.added(before, after)
            return after, stance

        stance = self._change(session_id, at, change_session)
        if person and rules is not None and (abs(more[0]) >= _LEAST or more[1]):
            # `more` is that of the session as it was changed last, where a store changes it again.
            self._change_person(person, at, lambda: more)
        return stance

    def _change_person(self, person: str, at: datetime, more: Callable[[], tuple[float, int]]) -> None:
        rules = self._memory.settings.evidence
        half_life = None if rules is None else rules.half_life

        def change(record: PersonRecord | None) -> tuple[PersonRecord, None]:
            known = record or PersonRecord(person, at, at)
            return known.changed(*more(), at, half_life), None

        self._store.change(PERSON, person, change)

    def person(self, person: str) -> PersonRecord | None:
        """Return what speaks against a person, or None for nothing."""
        return self._store.get(PERSON, person)

    def answered(self, session_id: str, response: str) -> Stance:
        """Take the response to the latest turn of a session, and return the stance after it; no turn is counted.

        Args:
            session_id: id of the session.
            response: text of the response; only whether it refuses is kept.
        """
        return self._change(
            session_id, self._clock(), lambda state: self._assessed(self._memory.answered(state, response))
        )

    def correct(
        self, session_id: str, key: str, scores: TurnScores, answer: Mapping[str, Any], *, person: str = ""
    ) -> Stance | None:
        """Give a turn other scores, as though it had had them from the beginning; return the stance after it.

        Args:
            session_id: id of the session.
            key: names the turn, as `take` was given it.
            scores: its scores.
            answer: JSON values that are kept with the turn until `settle`, for another process.
            person: as for `take`; their record changes by as much.

        Returns:
            None where the turn can't be corrected any more, or the session is not known.
        """
        if self._store.get(SESSION, session_id) is None:
            return None
        at, more = self._clock(), (0.0, 0)

        def change(before: SessionState) -> tuple[SessionState, Stance | None]:
            nonlocal at, more
            after = self._memory.correct(before, key, scores, answer)
            if after is None:
                more = 0.0, 0
                return before, None
            at, more = after.last_at, self._memory.added(before, after)
            return self._assessed(after)

        stance = self._change(session_id, at, change)
        if person and stance is not None and (more[0] > 0.0 or self._store.get(PERSON, person) is not None):
            self._change_person(person, at, lambda: more)
        return stance

    def settle(self, session_id: str, key: str) -> None:
        """Drop what `correct` needs of a turn, which won't be corrected any more."""
        state = self._store.get(SESSION, session_id)
        if state is not None and state.open is not None:
            self._change(session_id, self._clock(), lambda state: (self._memory.settle(state, key), None))

    def stance(self, session_id: str) -> Stance | None:
        """Return the stance towards a session as it is, or None for one that is not known."""
        state = self._store.get(SESSION, session_id)
        return None if state is None else self._memory.assess(state)

    def state(self, session_id: str) -> SessionState | None:
        """Return the state of a session, or None for one that is not known."""
        return self._store.get(SESSION, session_id)

    def release(self, session_id: str) -> Stance | None:
        """Close the circuit breaker of a session, even a terminated one, and return the stance after it.

        What adds up in it, or speaks against a person of that id, is gone. Trust and what is known of its turns
        stay; their scores are not corrected any more. None for a session that is not known.
        """
        now = self._clock()
        if self._store.get(PERSON, session_id) is not None:
            self._store.change(PERSON, session_id, lambda _: (PersonRecord(session_id, now, now), None))
        if self._store.get(SESSION, session_id) is None:
            return None
        fresh = BreakerState(trust=self._memory.settings.breaker.initial)
        return self._change(
            session_id,
            now,
            lambda state: self._assessed(replace(state, breaker=fresh, evidence=NO_EVIDENCE, open=None)),
        )

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
        """Forget a session, even a terminated one, and a person of that id; return whether either was known."""
        known = self._keeper.remove(PERSON, session_id)
        return self._keeper.remove(SESSION, session_id) or known

    def purge(self) -> int:
        """Have the store drop expired sessions, and return how many; none where sessions don't expire."""
        limit = self._memory.settings.expires_after
        return 0 if limit is None else self._keeper.purge(self._clock() - limit)


def _prior(record: PersonRecord, session: SessionState, now: datetime, half_life: timedelta | None) -> Prior:
    own = session.evidence
    left = faded(own.weight, now - session.last_at, half_life)
    return record.prior(now, own._replace(weight=left), half_life)
