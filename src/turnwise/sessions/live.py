"""Live sessions: where their states are kept, and memory, store and clock together, as a guard uses them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import NamedTuple, Protocol, TypeVar

from turnwise.clock import Clock
from turnwise.errors import SessionError
from turnwise.scoring import TurnScores
from turnwise.sessions.breaker import BreakerState
from turnwise.sessions.memory import SessionMemory
from turnwise.sessions.settings import whole
from turnwise.sessions.stance import Stance
from turnwise.sessions.state import SessionState

Result = TypeVar("Result")

Change = Callable[[SessionState | None], tuple[SessionState, Result]]
"""Takes the state of a session, or None for one that is not known, and returns the next state and a result.

It must be pure: a store that many processes share may call it again when another was faster."""


class StateStore(Protocol):
    """Keeps states by session id. Safe to use from several threads."""

    def get(self, session_id: str) -> SessionState | None:
        """Return the state of a session, or None for one that is not known."""

    def change(self, session_id: str, change: Change[Result]) -> Result:
        """Replace the state of a session in one step, so that no turn is lost; return the result."""

    def remove(self, session_id: str) -> bool:
        """Forget a session, terminated or not, and return whether it was known."""

    def purge(self, before: datetime) -> int:
        """Let go of sessions without a turn since a time, as for want of room, and return how many."""

    def __len__(self) -> int:
        """Return how many sessions are known."""


@dataclass(frozen=True, slots=True)
class Evicted:
    """A session that a store let go of.

    Args:
        session_id: its id.
        last_at: time of its latest turn.
        terminated: whether it was terminated.
        remembered: whether the store still knows that it was terminated. Where a terminated session is not
            remembered, it would come back as a new one: ban it elsewhere, or give the store more room.
    """

    session_id: str
    last_at: datetime
    terminated: bool
    remembered: bool


class _Ended(NamedTuple):
    """What is left of a terminated session for which there was no room."""

    started_at: datetime
    last_at: datetime
    interactions: int
    trust: float
    breaker: BreakerState

    @classmethod
    def of(cls, state: SessionState) -> _Ended:
        return cls(state.started_at, state.last_at, state.interactions, state.trust, state.breaker)

    def state(self, session_id: str) -> SessionState:
        return SessionState(
            session_id, self.started_at, self.last_at, self.interactions, self.trust, breaker=self.breaker
        )


class MemoryStateStore:
    """Keeps states in this process, at most so many; the one least recently used makes room.

    A terminated session stays terminated: of one that had to make room the end is remembered, without its
    signals. Only when there is no room for that either is it forgotten, and never silently: `on_evict` is
    told, and without it the turn that would have needed the room is an error.

    Args:
        limit: live sessions that are kept, at least 1. 200,000 take about 300 MB.
        ended_limit: ends of terminated sessions that are remembered beside them, at least 0.
        on_evict: is told of every session that had to make room; called outside the lock of the store.

    Raises:
        SessionError: a limit out of its range.
    """

    def __init__(
        self,
        limit: int = 200_000,
        ended_limit: int = 1_000_000,
        on_evict: Callable[[Evicted], None] | None = None,
    ) -> None:
        whole("limit", limit, 1)
        whole("ended_limit", ended_limit, 0)
        self._limit = limit
        self._ended_limit = ended_limit
        self._on_evict = on_evict
        self._live: OrderedDict[str, SessionState] = OrderedDict()
        self._ended: OrderedDict[str, _Ended] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._live) + len(self._ended)

    def get(self, session_id: str) -> SessionState | None:
        """Return the state of a session, or None for one that is not known. Reading counts as use."""
        with self._lock:
            return self._read(session_id)

    def change(self, session_id: str, change: Change[Result]) -> Result:
        """Replace the state of a session in one step, and return the result of the change.

        Args:
            session_id: id of the session.
            change: gives the next state and a result; it must not use the store.

        Raises:
            SessionError: the change gave a state of another session; or a terminated session would be
                forgotten and nobody would be told.
        """
        with self._lock:
            live = self._live.get(session_id)
            state, result = change(self._read(session_id) if live is None else live)
            if state.session_id != session_id:
                raise SessionError(
                    f"an update of session {session_id!r} returned the state of session {state.session_id!r}"
                )
            if live is not None:
                self._live[session_id] = state
                self._live.move_to_end(session_id)
                return result
            let_go = self._keep(session_id, state)
        self._tell(let_go)
        return result

    def remove(self, session_id: str) -> bool:
        """Forget a session, terminated or not, and return whether it was known."""
        with self._lock:
            live = self._live.pop(session_id, None) is not None
            return self._ended.pop(session_id, None) is not None or live

    def purge(self, before: datetime) -> int:
        """Let go of live sessions without a turn since a time, and return how many; ends are remembered as ever.

        Raises:
            SessionError: a terminated session would be forgotten and nobody would be told.
        """
        let_go: list[Evicted] = []
        with self._lock:
            old = [session_id for session_id, state in self._live.items() if state.last_at < before]
            for session_id in old:
                let_go += self._release(session_id)
        self._tell(let_go)
        return len(old)

    def _read(self, session_id: str) -> SessionState | None:
        state = self._live.get(session_id)
        if state is not None:
            self._live.move_to_end(session_id)
            return state
        ended = self._ended.get(session_id)
        if ended is None:
            return None
        self._ended.move_to_end(session_id)
        return ended.state(session_id)

    def _keep(self, session_id: str, state: SessionState) -> list[Evicted]:
        if state.terminated and session_id in self._ended:
            # It is not let in again: else the ended could push the living out.
            self._ended[session_id] = _Ended.of(state)
            return []
        let_go = self._release(next(iter(self._live))) if len(self._live) >= self._limit else []
        self._ended.pop(session_id, None)
        self._live[session_id] = state
        return let_go

    def _release(self, session_id: str) -> list[Evicted]:
        """Let go of a live session; of a terminated one the end is remembered, which may cost another its end."""
        state = self._live[session_id]
        if not state.terminated:
            del self._live[session_id]
            return [Evicted(session_id, state.last_at, terminated=False, remembered=False)]
        forgotten: list[Evicted] = []
        if len(self._ended) >= self._ended_limit:
            if self._on_evict is None:
                raise SessionError(
                    f"the end of {self._ended_limit + 1} terminated sessions can't be remembered within "
                    f"ended_limit={self._ended_limit}: raise it, or pass on_evict and ban them elsewhere"
                )
            if self._ended_limit:
                oldest, ended = self._ended.popitem(last=False)
                forgotten.append(Evicted(oldest, ended.last_at, terminated=True, remembered=False))
        del self._live[session_id]
        if self._ended_limit:
            self._ended[session_id] = _Ended.of(state)
        event = Evicted(session_id, state.last_at, terminated=True, remembered=self._ended_limit > 0)
        return [*forgotten, event]

    def _tell(self, events: list[Evicted]) -> None:
        if self._on_evict is not None:
            for event in events:
                self._on_evict(event)


class Sessions:
    """Takes turns of many sessions, from several threads if need be.

    Args:
        store: where states are kept.
        clock: gives the present time, aware.
        memory: the rules.

    >>> from datetime import UTC, datetime
    >>> from turnwise.scoring import Score
    >>> from turnwise.sessions import MemoryStateStore
    >>> sessions = Sessions(MemoryStateStore(), lambda: datetime(2025, 1, 1, tzinfo=UTC))
    >>> stance = sessions.take("user-1", TurnScores(1, {"reciprocity": Score(T=0.1, I=0.2, F=0.9)}))
    >>> stance.mode.value, stance.processing
    ('guarded', False)
    """

    def __init__(self, store: StateStore, clock: Clock, memory: SessionMemory | None = None) -> None:
        self._store = store
        self._clock = clock
        self._memory = memory or SessionMemory()

    def ruled_by(self, memory: SessionMemory) -> Sessions:
        """Return the same sessions under other rules, from their next turn on.

        Args:
            memory: the rules.
        """
        return Sessions(self._store, self._clock, memory)

    def take(
        self,
        session_id: str,
        scores: TurnScores,
        *,
        response: str | None = None,
        conversation_id: str | None = None,
        now: datetime | None = None,
    ) -> Stance:
        """Take a turn into its session, which begins with its first turn, and return the stance after it.

        Args:
            session_id: id of the session, at most 64 bytes.
            scores: scores of the turn, blocked or not.
            response: text of the response, if there is one yet; else see `answered`.
            conversation_id: the conversation that the turn is part of.
            now: when the turn came, aware; by default what the clock says.

        Raises:
            SessionError: an id that is empty or too long, or a store that can't keep it.
        """
        at = self._clock() if now is None else now

        def change(state: SessionState | None) -> tuple[SessionState, Stance]:
            before = state or self._memory.start(session_id, at)
            return self._memory.update(before, scores, at, response=response, conversation_id=conversation_id)

        return self._store.change(session_id, change)

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

        return self._store.change(session_id, change)

    def stance(self, session_id: str) -> Stance | None:
        """Return the stance towards a session as it is, or None for one that is not known."""
        state = self._store.get(session_id)
        return None if state is None else self._memory.assess(state)

    def forget(self, session_id: str) -> bool:
        """Forget a session, a terminated one as well, and return whether it was known."""
        return self._store.remove(session_id)

    def purge(self) -> int:
        """Let the store go of expired sessions, and return how many; none where sessions don't expire."""
        limit = self._memory.settings.expires_after
        return 0 if limit is None else self._store.purge(self._clock() - limit)
