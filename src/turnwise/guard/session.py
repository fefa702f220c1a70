"""Sessions as the operator of a pipeline sees them: what they amount to, and how they are reset or forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from turnwise.guard.guardrails.drift_sessions import sessions_of
from turnwise.guard.identity.chain import LINK, owner_of
from turnwise.guard.request import digest_of, short_id
from turnwise.guard.setup import Setup
from turnwise.guard.state.payloads import STORED
from turnwise.guard.state.work import key_of
from turnwise.guard.texts import checked_session
from turnwise.sessions import SESSION, EngagementMode, Phase, Sessions, SessionState, Stance, StateKind, StateStore

_MODES = tuple(EngagementMode)


class Memory(NamedTuple):
    """The session memory of one guardrail, and how a session is called there.

    Args:
        sessions: the memory.
        session_id: id of the session in it.
        key: its key in the state store; None without one.
    """

    sessions: Sessions
    session_id: str
    key: str | None


class GuardSession:
    """One session of a pipeline, as `GuardrailPipeline.session` gives it. It shows what is known at each look.

    Where several guardrails have a session memory, the strictest of their stances counts.

    Args:
        session_id: the session, as checks name it.
        memories: the session memory of each guardrail that has one, by its name.
        store: the state store; None where sessions live in this process alone.
    """

    def __init__(self, session_id: str, memories: Mapping[str, Memory], store: StateStore | None) -> None:
        self.session_id = session_id
        self._memories = memories
        self._store = store

    @property
    def stances(self) -> dict[str, Stance]:
        """The stance of every guardrail that knows the session, by its name.

        Raises:
            StateError: the state store can't be read.
        """
        found = {name: memory.sessions.stance(memory.session_id) for name, memory in self._memories.items()}
        return {name: stance for name, stance in found.items() if stance is not None}

    @property
    def stance(self) -> Stance | None:
        """The stance towards the session, the strictest of several; None for one that is not known."""
        return max(self.stances.values(), key=lambda stance: _MODES.index(stance.mode), default=None)

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
        found = {name: memory.sessions.state(memory.session_id) for name, memory in self._memories.items()}
        return {name: state for name, state in found.items() if state is not None}

    def release(self) -> Stance | None:
        """Close the circuit breaker, of a terminated session as well; trust and turns stay. Return the stance.

        Raises:
            StateError: the state store can't be written.
        """
        for memory in self._memories.values():
            memory.sessions.release(memory.session_id)
        return self.stance

    def reset(self) -> bool:
        """Let the session begin anew, a terminated one as well, and return whether it was known.

        Conversations and rate limits stay; see `GuardrailPipeline.forget`.

        Raises:
            StateError: the state store can't be written.
        """
        known = False
        for memory in self._memories.values():
            if self._store is None or memory.key is None:
                known |= memory.sessions.forget(memory.session_id)
            else:
                known |= self._store.remove(SESSION, memory.key)
        return known

    def __repr__(self) -> str:
        stance = self.stance
        return f"GuardSession({self.session_id!r}, {'not known' if stance is None else stance.rationale!r})"


class Forgotten(NamedTuple):
    """What `GuardrailPipeline.forget` forgot.

    Args:
        sessions: session memories.
        conversations: conversations with their turns, verdicts and guardrail states.
        limits: whether prompts were counted under that name.
    """

    sessions: int
    conversations: int
    limits: bool


def session_in(setup: Setup, session_id: str) -> GuardSession:
    """Return a session; see `GuardrailPipeline.session`."""
    store, name = None if setup.keeper is None else setup.keeper.store, checked_session(session_id)
    digest = digest_of(name)
    memories: dict[str, Memory] = {}
    for step in setup.steps:
        sessions = step.guardrail.sessions(store)
        if sessions is not None:
            known = (name, None) if store is None else (digest, key_of(step.name, digest))
            memories[step.name] = Memory(sessions, *known)
    return GuardSession(session_id, memories, store)


def forget_session(setup: Setup, session_id: str) -> Forgotten:
    """Forget all that is known of a session; see `GuardrailPipeline.forget`."""
    limits = setup.limits.forget(session_id)
    names = sessions_of(session_id)
    if setup.keeper is None:
        return Forgotten(sum(session_in(setup, name).reset() for name in names), 0, limits)
    store, digests = setup.keeper.store, [digest_of(checked_session(name)) for name in names]

    def removed(kind: StateKind[Any], digest: str) -> int:
        return sum(store.remove(kind, key) for key in store.keys(kind, owner=digest))

    limits = setup.keeper.limits.forget(session_id) or limits
    sessions = sum(removed(SESSION, digest) for digest in digests)
    for conversation_id in store.keys(STORED, owner=digests[0]):
        _forget_links(store, conversation_id)
    return Forgotten(sessions, removed(STORED, digests[0]), limits)


def forget_conversation(setup: Setup, conversation_id: str) -> bool:
    """Forget a conversation, and return whether it was known; see `GuardrailPipeline.forget_conversation`."""
    known = setup.lists is not None and setup.lists.forget(conversation_id)
    if setup.keeper is not None:
        store = setup.keeper.store
        known |= store.remove(STORED, short_id(conversation_id))
        _forget_links(store, conversation_id)
    if not setup.by_person:
        for name in sessions_of(conversation_id):
            known |= session_in(setup, name).reset()
    return known


def _forget_links(store: StateStore, conversation_id: str) -> None:
    """Forget the places of a conversation, by which lists of messages are recognised."""
    for key in store.keys(LINK, owner=owner_of(short_id(conversation_id))):
        store.remove(LINK, key)
