"""A person or a conversation is forgotten: by a guard, or everywhere, with one receipt."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from turnwise.clock import Clock, utc_now
from turnwise.conversation.participants import ParticipantType
from turnwise.errors import StateError, UsageError
from turnwise.guard.audit.chain import Wanted
from turnwise.guard.audit.reader import erase_audit, names_of, spellings_of
from turnwise.guard.audit.record import time_text
from turnwise.guard.audit.sinks import Erased
from turnwise.guard.guard_session import ids_of, session_in
from turnwise.guard.guardrails.drift_judging import sessions_of
from turnwise.guard.messages.chain import LINK, owner_of
from turnwise.guard.names import canonical_name, checked_name, digest_of, short_id
from turnwise.guard.rate_limits import LIMIT
from turnwise.guard.setup import Setup
from turnwise.guard.state.conversations import (
    STORED,
    StoredConversation,
    conversation_key,
    note_forgotten,
    person_key,
)
from turnwise.sessions import PERSON, SESSION, StateStore

if TYPE_CHECKING:
    from turnwise.store import Erasure, Store

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
    if setup.state is None:
        ids = [beside for one in ids_of(name) for beside in sessions_of(one)]
        removed = _Removed(records=len(session_in(setup, name).persons))
        for session in (session_in(setup, one, [one]) for one in ids):
            is_record = not session.states and bool(session.persons)  # and no session
            removed.sessions += session.reset() and not is_record
        note_forgotten(setup.forgotten, [person_key(name)], now)
    else:
        removed = _person_in(setup.state.store, name, now)
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
    if setup.state is not None:
        removed.add(_conversation_in(setup.state.store, conversation_id, now))
        removed.names = list(dict.fromkeys(removed.names))
    if not setup.by_person:
        ids = sessions_of(short_id(conversation_id))
        removed.sessions += sum(session_in(setup, one, [one]).reset() for one in ids)
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
    """Forget people (names or digests of sessions) and conversations where no pipeline is; tenant None is all."""
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


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was erased."""

    erased_at: datetime  # in UTC
    store: Erasure | None  # the store's receipt; None where it had nothing
    forgotten: Forgotten | None = None  # by audits and states; None where there are none
    unreached: tuple[str, ...] = ()  # where texts may still be, in words

    def __bool__(self) -> bool:
        return self.store is not None or bool(self.forgotten)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "erased_at": self.erased_at.isoformat(),
            "store": None if self.store is None else self.store.to_dict(),
            "forgotten": None if self.forgotten is None else self.forgotten.to_dict(),
            "unreached": list(self.unreached),
        }


def conversations_of(store: Store, *persons: str) -> tuple[str, ...]:
    """The conversations in which one of some people speaks, in any spelling, in the order of import."""
    for person in persons:
        checked_name(person, "the name")
    wanted = frozenset(map(canonical_name, persons))
    known: dict[str, bool] = {}
    found = []
    for sequence_id, participants in store.source.participants() if wanted else ():
        sides = json.dumps(participants, sort_keys=True)
        if sides not in known:
            known[sides] = not wanted.isdisjoint(people_in(participants))
        if known[sides]:
            found.append(sequence_id)
    return tuple(found)


def erase(
    store: Store,
    ids: Collection[str] = (),
    *,
    persons: Sequence[str] = (),
    audits: Iterable[str] = (),
    states: Sequence[StateStore] = (),
    author: str = "",
    reason: str = "",
    clock: Clock = utc_now,
) -> Receipt:
    """Erase conversations, and all of some people, from a store, its audit, further audits and state stores."""
    if not ids and not persons:
        raise UsageError("name a conversation, or a person with --person")
    found = [*dict.fromkeys([*ids, *conversations_of(store, *persons)])]
    made = store.erase(found, author=author, reason=reason) if found else None
    places = [*dict.fromkeys(audits)]
    if not store.is_findings and store.location not in places and next(iter(store.audit.rows()), None) is not None:
        places.append(store.location)
    forgotten = None
    if states or places:
        forgotten = forget_in(
            states, places, persons=persons, conversations=found, tenant=None, now=clock(), why=reason or "erased"
        )
    left = [*(forgotten.unreached if forgotten else ()), *(made.unreached if made else ())]
    order = [one for one in dict.fromkeys(left) if one not in BEYOND_REACH]
    beyond = [one for one in dict.fromkeys(left) if one in BEYOND_REACH]
    return Receipt(clock(), made, forgotten, (*order, *beyond))
