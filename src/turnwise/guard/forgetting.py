"""What an operator asks for: a session is shown, released or reset; a person or conversation is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from turnwise.conversation.participants import ParticipantType
from turnwise.errors import StateError
from turnwise.guard.audit.chain import Wanted
from turnwise.guard.audit.reader import names_of, spellings_of
from turnwise.guard.audit.record import time_text
from turnwise.guard.audit.sinks import Erased
from turnwise.guard.check_text import checked_session
from turnwise.guard.guardrails.drift_judging import sessions_of
from turnwise.guard.identity.chain import LINK, owner_of
from turnwise.guard.identity.names import canonical_name, checked_name
from turnwise.guard.key_limits import LIMIT
from turnwise.guard.request import digest_of, short_id
from turnwise.guard.setup import Setup
from turnwise.guard.state.conversations import conversation_key, note_forgotten, person_key
from turnwise.guard.state.payloads import STORED, StoredConversation
from turnwise.guard.state.views import key_of
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
    store = None if setup.keeper is None else setup.keeper.store
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


BEYOND_REACH: Final = (
    "backups, snapshots and exports that were made before",
    "other systems that were told: traces and logs of OpenTelemetry, logs of servers, providers of models",
    "lists of messages that callers keep: one that is sent again is a new conversation",
    "events that another process has not yet written to the audit: forget again where one was busy",
)
"""What no receipt can vouch for."""

_NO_PERSON: Final = (ParticipantType.AI_MODEL, ParticipantType.BOT, ParticipantType.AGENT)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The receipt of what was forgotten; true where anything was.

    Args:
        what: ``person`` or ``conversation``.
        time: when, ISO 8601 in UTC.
        sessions: session memories.
        conversations: conversations with their turns, verdicts and guardrail states.
        records: what spoke against a person over conversations, by guardrail.
        limits: names under which prompts were counted.
        audit: events of the audit whose personal parts were erased, by file or table.
        unreached: where texts may still be: what could not be read or written, and what is beyond reach.
    """

    what: Literal["person", "conversation"]
    time: str
    sessions: int = 0
    conversations: int = 0
    records: int = 0
    limits: int = 0
    audit: Mapping[str, int] = field(default_factory=dict)
    unreached: tuple[str, ...] = BEYOND_REACH

    def __bool__(self) -> bool:
        return bool(self.sessions or self.conversations or self.records or self.limits or self.audit)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**asdict(self), "unreached": list(self.unreached)}


@dataclass(slots=True)
class _Removed:
    """What was removed from a state store so far; `old` says whether something past its time was."""

    sessions: int = 0
    records: int = 0
    limits: int = 0
    names: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)
    old: bool = False

    def add(self, other: _Removed) -> None:
        self.sessions += other.sessions
        self.records += other.records
        self.limits += other.limits
        self.names += other.names
        self.unreached += other.unreached


def forget_person(setup: Setup, name: str) -> Forgotten:
    """Forget a person; see `GuardrailPipeline.forget`."""
    now = setup.clock()
    checked_name(name, "the name")
    limits = setup.limits.forget(name)
    if setup.keeper is None:
        ids = [beside for one in ids_of(name) for beside in sessions_of(one)]
        removed = _Removed(records=len(session_in(setup, name).persons))
        for session in (session_in(setup, one, [one]) for one in ids):
            is_record = not session.states and bool(session.persons)  # and no session
            removed.sessions += session.reset() and not is_record
        note_forgotten(setup.forgotten, [person_key(name)], now)
    else:
        removed = _person_in(setup.keeper.store, name, now)
    removed.limits = int(limits or removed.limits)
    erased = _erased(setup, whose(removed.names, [name], setup.tenant))
    return _receipt("person", now, removed, erased)


def forget_conversation(setup: Setup, conversation_id: str) -> Forgotten:
    """Forget a conversation; see `GuardrailPipeline.forget_conversation`."""
    now = setup.clock()
    removed = _Removed()
    if setup.lists is not None and setup.lists.forget(conversation_id):
        removed.names.append(conversation_id)
    note_forgotten(setup.forgotten, [conversation_key(conversation_id)], now)
    if setup.keeper is not None:
        removed.add(_conversation_in(setup.keeper.store, conversation_id, now))
        removed.names = list(dict.fromkeys(removed.names))
    if not setup.by_person:
        removed.sessions += _reset(setup, sessions_of(short_id(conversation_id)))
    erased = _erased(setup, whose([conversation_id, *removed.names], (), setup.tenant))
    return _receipt("conversation", now, removed, erased)


def forget_in(
    stores: Sequence[StateStore],
    audits: Iterable[str],
    *,
    persons: Sequence[str] = (),
    conversations: Sequence[str] = (),
    tenant: str | None,
    now: datetime,
    why: str = "forgotten",
) -> Forgotten:
    """Forget people, conversations, or both in stores and audits that no pipeline has open.

    `persons` are names or digests of sessions. Only the events of `tenant` count, or everybody's where it is
    None.
    """
    from turnwise.guard.audit.reader import erase_audit

    removed, names = _Removed(), list(conversations)
    for store in stores:
        for person in persons:
            removed.add(_person_in(store, person, now))
        for one in conversations:
            removed.add(_conversation_in(store, one, now))
    found: dict[str, int] = {}
    for location in audits:
        erased = erase_audit(location, whose([*names, *removed.names], persons, tenant), why, lambda: now)
        found |= erased.events
        removed.unreached += erased.unreached
    return _receipt("person" if persons else "conversation", now, removed, Erased(found))


def whose(conversations: Iterable[str], persons: Iterable[str], tenant: str | None) -> Wanted:
    """A test whether an audit event is about these conversations, their forks, or people in any spelling."""
    chats = frozenset(written for name in conversations for written in names_of(name))
    forks = tuple(f"{name}~" for name in chats)
    people = frozenset(written for name in persons for written in spellings_of(name))

    def wanted(record: Mapping[str, Any]) -> bool:
        if record.get("kind") != "check" or (tenant is not None and record.get("tenant", "") != tenant):
            return False
        chat = str(record.get("conversation_id"))
        if chat in chats or chat.startswith(forks) or record.get("session_id") in people:
            return True
        sides = record.get("participants")
        return bool(people) and isinstance(sides, Mapping) and bool(people.intersection(people_in(sides)))

    return wanted


def people_in(sides: Mapping[str, Any]) -> list[str]:
    """Names of the participants who are people, as they are and in the form of all spellings."""
    named = [
        str(sides.get(side) or "")
        for side in ("initiator", "responder")
        if side == "initiator" or sides.get("responder_type") not in _NO_PERSON
    ]
    return [*named, *map(canonical_name, named)]


def _person_in(store: StateStore, name: str, now: datetime) -> _Removed:
    note_forgotten(store, [person_key(name)], now)
    removed, person = _Removed(), canonical_name(name)
    digests = {digest_of(one) for one in ids_of(name)} | {name}
    of_session = {key for digest in digests for key in store.keys(STORED, owner=digest)}
    for key in store.keys(STORED):
        try:
            stored = store.get(STORED, key)
        except StateError as error:
            stored = None
            if key not in of_session:
                removed.unreached.append(f"{error}; whose it is can't be read")
                continue
        if key in of_session or (stored is not None and person in people_in(stored.data["participants"])):
            _remove(store, key, stored, now, removed)
        elif stored is None:  # past its time: nobody can read whose it is, and nobody is to
            removed.old |= store.remove(STORED, key)
    for one in {beside for each in ids_of(name) for beside in map(digest_of, sessions_of(each))} | {name}:
        removed.sessions += _sessions(store, one)
    for one in digests:
        removed.records += sum(store.remove(PERSON, key) for key in store.keys(PERSON, owner=one))
    removed.limits = sum(store.remove(LIMIT, digest) for digest in {digest_of(person), name})
    return _scrubbed(store, removed)


def _conversation_in(store: StateStore, conversation_id: str, now: datetime) -> _Removed:
    note_forgotten(store, [conversation_key(conversation_id)], now)
    removed, own = _Removed(), short_id(conversation_id)
    for key in store.keys(STORED):
        if key == own or key.startswith(f"{conversation_id}~"):
            try:
                stored = store.get(STORED, key)
            except StateError:
                stored = None
            _remove(store, key, stored, now, removed)
    if not removed.names:
        _remove_links(store, conversation_id)
    return _scrubbed(store, removed)


def _remove(
    store: StateStore, key: str, stored: StoredConversation | None, now: datetime, removed: _Removed
) -> None:
    """Remove a conversation, its places in lists of messages, and its session where that is its own."""
    name = key if stored is None else str(stored.data["conversation_id"])
    note_forgotten(store, [conversation_key(name)], now)
    store.remove(STORED, key)
    _remove_links(store, name)
    removed.names.append(name)
    if stored is not None and stored.owner == digest_of(short_id(name)):
        removed.sessions += sum(_sessions(store, digest_of(one)) for one in sessions_of(short_id(name)))


def _remove_links(store: StateStore, conversation_id: str) -> None:
    for key in store.keys(LINK, owner=owner_of(short_id(conversation_id))):
        store.remove(LINK, key)


def _sessions(store: StateStore, owner: str) -> int:
    from turnwise.guard.guardrails.probing import PROBING

    return sum(store.remove(kind, key) for kind in (SESSION, PROBING) for key in store.keys(kind, owner=owner))


def _scrubbed(store: StateStore, removed: _Removed) -> _Removed:
    if removed.names or removed.sessions or removed.records or removed.limits or removed.old:
        removed.unreached += store.scrub()
    return removed


def _reset(setup: Setup, sessions: Iterable[str]) -> int:
    return sum(session_in(setup, one, [one]).reset() for one in sessions)


def _erased(setup: Setup, wanted: Wanted) -> Erased:
    if setup.audit is None:
        return Erased({})
    erase = getattr(setup.audit, "erase", None)
    if erase is None:
        return Erased({}, (f"the audit, a {type(setup.audit).__name__}, which can't erase",))
    erased: Erased = erase(wanted, "forgotten")
    return erased


def _receipt(
    what: Literal["person", "conversation"], now: datetime, removed: _Removed, erased: Erased
) -> Forgotten:
    return Forgotten(
        what,
        time_text(now),
        removed.sessions,
        len(removed.names),
        removed.records,
        removed.limits,
        erased.events,
        (*dict.fromkeys([*removed.unreached, *erased.unreached]), *BEYOND_REACH),
    )
