"""A session as an operator sees it: shown, released or reset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from turnwise.guard.names import digest_of, short_id
from turnwise.guard.setup import Setup
from turnwise.guard.state.stores import key_of
from turnwise.guard.texts import checked_session
from turnwise.sessions import (
    PERSON,
    SESSION,
    EngagementMode,
    PersonRecord,
    Phase,
    Sessions,
    SessionState,
    Stance,
    StateStore,
)

_MODES = tuple(EngagementMode)


def _strictness(stance: Stance) -> int:
    return _MODES.index(stance.mode)


class Memory(NamedTuple):
    """The session memory of one guardrail, the session's id in it, and its key in the state store, if any."""

    sessions: Sessions
    session_id: str
    key: str | None


class GuardSession:
    """One session of a pipeline, from `GuardrailPipeline.session`; every attribute is read anew from its state.

    Where several guardrails have a session memory, the strictest of their stances counts.

    Args:
        session_id: the session, as checks name it.
        memories: the session memories of guardrails that have one, each with the guardrail's name.
        store: the state store; None where sessions live in this process alone.
        forgets: forgets what guardrails remember of the session beside that.
    """

    def __init__(
        self,
        session_id: str,
        memories: Sequence[tuple[str, Memory]],
        store: StateStore | None,
        forgets: Sequence[Callable[[], bool]] = (),
    ) -> None:
        self.session_id = session_id
        self._memories = memories
        self._store = store
        self._forgets = forgets

    @property
    def stances(self) -> dict[str, Stance]:
        """The stance of every guardrail that knows the session, by its name.

        Raises:
            StateError: the state store can't be read.
        """
        found: dict[str, Stance] = {}
        for name, memory in self._memories:
            stance = memory.sessions.stance(memory.session_id)
            if stance is not None:
                found[name] = max(found.get(name, stance), stance, key=_strictness)
        return found

    @property
    def stance(self) -> Stance | None:
        """The stance towards the session, the strictest of several; None for one that is not known."""
        return max(self.stances.values(), key=_strictness, default=None)

    @property
    def trust(self) -> float | None:
        """The session's trust, in [0, 1], the least of several; None for one that is not known."""
        return min((stance.trust for stance in self.stances.values()), default=None)

    @property
    def breaker(self) -> Phase | None:
        """Where the circuit breaker stands; None for a session that is not known."""
        stance = self.stance
        return None if stance is None else stance.phase

    @property
    def terminated(self) -> bool:
        """Whether the session was ended; this is final until it is released, reset or forgotten."""
        return any(stance.phase is Phase.TERMINATED for stance in self.stances.values())

    @property
    def states(self) -> dict[str, SessionState]:
        """What each guardrail remembers of the session, by its name."""
        found = {name: memory.sessions.state(memory.session_id) for name, memory in reversed(self._memories)}
        return {name: state for name, state in found.items() if state is not None}

    @property
    def persons(self) -> dict[str, PersonRecord]:
        """What each guardrail has against the person of this name over conversations, by the guardrail's name."""
        found = {name: memory.sessions.person(memory.session_id) for name, memory in reversed(self._memories)}
        return {name: record for name, record in found.items() if record is not None and record.weight}

    def release(self) -> Stance | None:
        """Close the circuit breaker, of a terminated session as well; trust and turns stay. Return the stance.

        What adds up in the session is gone, what speaks against the person of this name, and the blocked tries
        that `probing` counts.

        Raises:
            StateError: the state store can't be written.
        """
        self._forget_tries()
        for _, memory in self._memories:
            memory.sessions.release(memory.session_id)
        return self.stance

    def reset(self) -> bool:
        """Reset the session, even a terminated one, and return whether it was known.

        What speaks against the person of this name is forgotten, too.

        Conversations and rate limits stay; see `GuardrailPipeline.forget`.

        Raises:
            StateError: the state store can't be written.
        """
        known = self._forget_tries()
        for _, memory in self._memories:
            if self._store is None or memory.key is None:
                known |= memory.sessions.forget(memory.session_id)
            else:
                known |= self._store.remove(PERSON, memory.key)
                known |= self._store.remove(SESSION, memory.key)
        return known

    def _forget_tries(self) -> bool:
        return sum(forget() for forget in self._forgets) > 0  # all of them

    def __repr__(self) -> str:
        stance = self.stance
        return f"GuardSession({self.session_id!r}, {'not known' if stance is None else stance.rationale!r})"


def session_in(setup: Setup, session_id: str, ids: Iterable[str] = ()) -> GuardSession:
    """A session; see `GuardrailPipeline.session`. `ids` are those it may have, by default `ids_of` its name."""
    store = None if setup.state is None else setup.state.store
    memories: list[tuple[str, Memory]] = []
    forgets: list[Callable[[], bool]] = []
    for known in ids or ids_of(session_id):
        digest = digest_of(known)
        for step in setup.steps:
            forgets.append(partial(step.guardrail.forget, known, store))
            sessions = step.guardrail.sessions(store)
            if sessions is not None:
                place = (known, None) if store is None else (digest, key_of(step.name, digest))
                memories.append((step.name, Memory(sessions, *place)))
    return GuardSession(session_id, memories, store, forgets)


def ids_of(session_id: str) -> tuple[str, ...]:
    """The ids that a session may have: that of a name in any spelling, and that of a conversation as it is."""
    return tuple(dict.fromkeys((checked_session(session_id), short_id(session_id))))
