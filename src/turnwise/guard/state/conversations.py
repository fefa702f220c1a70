"""Conversations in a state store: read as other workers left them, written back turn by turn, and forgotten.

The store has an outline of each, and each turn and guardrail state as a part of its own. A payload can only be
read with the words that it was written with, so these never change: better words are a new version, and what was
written with older ones is still read.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from importlib import resources
from typing import Any, Final
from weakref import WeakKeyDictionary

from turnwise._support.bounded import read_json
from turnwise.clock import Clock
from turnwise.conversation import Conversation, Turn
from turnwise.conversation.turn import OPENAI_KEY
from turnwise.conversation.turn_lists import Outline
from turnwise.errors import ConversationError, ForgottenError, StateError, TurnwiseError
from turnwise.guard.guardrail import Guardrail
from turnwise.guard.names import UNNAMED, canonical_name, digest_of, short_id
from turnwise.guard.state.stores import StateTransaction
from turnwise.sessions.state_store import Change, StateKind, StateStore, folded, unfolded

COUNTS_AFTER: Final = "rate_limit_counts_after"
"""Key of a conversation as JSON values: the turn after which prompts count against its rate limit."""

WORDS: Final = {"turn": 2, "conversation": 1, "state": 1}
"""Sorts of parts, and the version of what is written of each: its words are in ``words/SORT-VERSION.txt``."""


@cache
def words_of(sort: str, version: int) -> bytes:
    """What payloads of a sort have in common, which makes them shorter."""
    return resources.files("turnwise.guard.state").joinpath("words", f"{sort}-{version}.txt").read_bytes()


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """What a state store keeps of a conversation beside its turns."""

    data: Mapping[str, Any]  # as JSON values, without turns and metadata
    outline: Outline
    revision: int  # how often it was written, from 1
    noted: tuple[tuple[int, int], ...]  # latest changes, oldest first: revision, and a turn that it wrote
    owner: str  # digest of the session that it belongs to
    born: str = ""  # tells it from others of its name, before and after it was forgotten
    written: Mapping[str, bytes] = field(default_factory=dict, compare=False)
    """Turns and guardrail states to write with it; empty when it is read."""


def _dump(state: StoredConversation) -> bytes:
    outline = state.outline
    times = [time and time.isoformat() for time in (outline.earliest, outline.latest)]
    turns = [outline.turns, outline.complete, outline.waiting, *times]
    values = [state.data, turns, state.revision, state.noted, state.owner, state.born]
    return json.dumps(values, separators=(",", ":")).encode("ascii")


def _load(data: bytes, key: str, version: int) -> StoredConversation:
    conversation, (turns, complete, waiting, *times), revision, noted, owner, born = read_json(
        data.decode("ascii")
    )
    earliest, latest = (time and datetime.fromisoformat(time) for time in times)
    outline = Outline(turns, complete, tuple((first, last) for first, last in waiting), earliest, latest)
    after = conversation.get(COUNTS_AFTER, 0) if isinstance(conversation, dict) else None
    if not isinstance(after, int) or not 0 <= complete <= turns or revision < 1:
        raise ValueError(f"{complete} of {turns} turns complete, in revision {revision}")
    changes = tuple((rev, turn) for rev, turn in noted)
    return StoredConversation(conversation, outline, revision, changes, owner, born)


STORED: Final = StateKind(
    "conversation",
    2,
    _dump,
    _load,
    owner=lambda state: state.owner,
    parts=lambda state: state.written,
    words=words_of("conversation", 1),
)
"""Conversations in a state store."""


def name_of_turn(number: int) -> str:
    """The name of a turn among the parts of its conversation."""
    return f"turn:{number}"


def pack_part(data: bytes, sort: str) -> bytes:
    """A part of a conversation as a payload: the version of its words in a byte, then the data, compressed."""
    return bytes([WORDS[sort]]) + folded(data, words_of(sort, WORDS[sort]))


def unpack_part(payload: bytes, sort: str, where: str) -> bytes:
    """What `pack_part` was given, now or by an earlier version; `where` is for the error."""
    version = payload[0] if isinstance(payload, bytes) and payload else 0
    if not 1 <= version <= WORDS[sort]:
        raise StateError(f"state store: {where} is broken, or of another turnwise; forget the conversation")
    try:
        return unfolded(payload[1:], words_of(sort, version))
    except ValueError as error:
        raise StateError(f"state store: {where} is broken ({error}); forget the conversation") from error


def pack_turn(turn: Turn) -> bytes:
    """A turn with its texts and verdicts as a payload."""
    return pack_part(json.dumps(turn.to_dict(), separators=(",", ":")).encode("ascii"), "turn")


def unpack_turn(parts: Mapping[str, bytes], number: int, conversation_id: str) -> Turn:
    """A turn from the parts of its conversation; StateError where it is missing or broken."""
    where = f"turn {number} of conversation {conversation_id!r}"
    payload = parts.get(name_of_turn(number))
    if payload is None:
        raise StateError(f"state store: {where} is not there; forget the conversation to begin anew")
    try:
        turn = Turn.from_dict(read_json(unpack_part(payload, "turn", where).decode("ascii")))
    except (ValueError, TypeError, KeyError, TurnwiseError) as error:
        if isinstance(error, StateError):
            raise
        raise StateError(f"state store: {where} is broken ({error}); forget the conversation") from error
    if turn.number != number:
        raise StateError(f"state store: {where} is broken (it has number {turn.number}); forget the conversation")
    return turn


FORGOTTEN: Final[StateKind[datetime]] = StateKind(
    "forgotten",
    1,
    lambda time: time.isoformat().encode("ascii"),
    lambda data, key, version: datetime.fromisoformat(data.decode("ascii")),
    remnant=lambda time: time,  # it outlives want of room, and age
)
"""When a conversation or a person was forgotten."""


def conversation_key(conversation_id: str) -> str:
    """The key under which a forgotten conversation is noted."""
    return f"conversation:{digest_of(conversation_id)}"


def person_key(name: str) -> str:
    """The key under which a forgotten person is noted, the same for all spellings of the name."""
    return f"person:{digest_of(short_id(canonical_name(name)))}"


def note_forgotten(store: StateStore, keys: Iterable[str], now: datetime) -> None:
    """Note that something is forgotten; call it before removing that."""
    for key in keys:
        store.change(FORGOTTEN, key, lambda before: (max(now, before or now), None))


def forgotten_at(store: StateStore, conversation: Conversation) -> datetime | None:
    """When a conversation, or one of its participants, was last forgotten; None for never."""
    keys = [conversation_key(conversation.conversation_id)]
    names = dict.fromkeys(map(canonical_name, (conversation.initiator, conversation.responder)))
    keys += [person_key(name) for name in names if name not in UNNAMED]
    return max((time for key in keys if (time := store.get(FORGOTTEN, key)) is not None), default=None)


def refuse_forgotten(store: StateStore, conversation: Conversation) -> None:
    """Raise ForgottenError for a conversation that has turns from before it was forgotten."""
    earliest = conversation.history.outline.earliest
    if conversation.get_turn_count():
        time = forgotten_at(store, conversation)
        if time is not None and (earliest is None or earliest <= time):
            raise forgotten(conversation)


def forgotten(conversation: Conversation) -> ForgottenError:
    """The error for a conversation that was forgotten."""
    return ForgottenError(
        f"conversation {conversation.conversation_id!r} was forgotten, and this object still has its texts: "
        "let go of it, and begin a new Conversation"
    )


_RECENT: Final = 4
"""Latest turns that are read with a conversation, and compared when it is written: replies come, texts change."""

_NOTED: Final = 32  # latest changes that an outline names, so that others read no more than these
_TRIES: Final = 20  # readings of a conversation that others change meanwhile, at most

_METADATA: Final = "metadata"


class OutrunError(Exception):
    """Another worker was faster: what was to be written builds on turns that are no longer the latest."""


@dataclass(slots=True, eq=False)
class Bound:
    """A conversation of this process, and what is known of it in the store."""

    revision: int = 0  # the one that this process saw last, 0 for none
    turns: int = 0  # how many the store has
    texts: dict[int, tuple[str, str | None, int]] = field(default_factory=dict)  # see `_told`, of the latest turns
    metadata: bytes = b"{}"  # JSON
    born: str = ""  # which conversation of its name it is; empty for one that was not written yet
    begun: datetime | None = None  # when it was first looked for in the store
    lock: threading.Lock = field(default_factory=threading.Lock)  # held while a text of it is checked


class StoredConversations:
    """Reads conversations from a state store and writes them back, turn by turn; what `before` knows is shared."""

    def __init__(
        self,
        store: StateStore,
        guardrails: Mapping[str, Guardrail],
        clock: Clock,
        before: StoredConversations | None = None,
    ) -> None:
        self._store = store
        self._guardrails = guardrails
        self._clock = clock
        self._lock: threading.Lock = threading.Lock() if before is None else before._lock
        self._bound: WeakKeyDictionary[Conversation, Bound] = (
            WeakKeyDictionary() if before is None else before._bound
        )

    def bound(self, conversation: Conversation) -> Bound:
        """What is known of a conversation in the store."""
        with self._lock:
            return self._bound.setdefault(conversation, Bound())

    def load(self, conversation_id: str, held: Conversation | None = None) -> Conversation | None:
        """A conversation as it stands, in constant time; see `GuardrailPipeline.find_conversation`."""
        key = short_id(conversation_id)
        stored = self._store.get(STORED, key)
        if held is not None:
            seen = self.bound(held).revision > 0
            if stored is None:
                return None if seen else held
            if not held.get_turn_count() or (seen and stored.born == self.bound(held).born):
                return held
        if stored is None:
            return None
        try:
            conversation = Conversation.from_dict({**stored.data, COUNTS_AFTER: 0}, turns=(), clock=self._clock)
        except TurnwiseError as error:
            raise StateError(
                f"conversation {conversation_id!r} in the state store is broken ({error}); forget it"
            ) from error
        self.follow(conversation, self.bound(conversation))
        return conversation

    def follow(self, conversation: Conversation, bound: Bound, *, but: int = 0) -> None:
        """Bring a conversation up to what the store has, but a turn that is under check here (0: none)."""
        key = short_id(conversation.conversation_id)
        bound.begun = bound.begun or self._clock()
        stored = self._store.get(STORED, key)
        if bound.revision and stored is not None and stored.born != bound.born:
            raise forgotten(conversation)
        if bound.revision == 0 or stored is None:
            refuse_forgotten(self._store, conversation)
        for _ in range(_TRIES):
            if stored is None:
                # It is not there, or not any more: everything that is known here is written again.
                bound.revision = bound.turns = 0
                bound.texts, bound.metadata = {}, b"{}"
                return
            if stored.revision == bound.revision:
                return
            numbers = self._changed(stored, bound, conversation)
            names = [_METADATA, *map(name_of_turn, numbers), *(f"state:{name}" for name in self._guardrails)]
            parts = self._store.parts(STORED, key, names)
            again = self._store.get(STORED, key)
            if again is not None and again.revision == stored.revision:
                self._take(conversation, bound, stored, numbers, parts, but)
                return
            stored = again
        raise StateError(f"conversation {conversation.conversation_id!r} changes too fast to be read; try again")

    def write(
        self, conversation: Conversation, bound: Bound, number: int | None, owner: str, work: StateTransaction
    ) -> None:
        """Write what a check made of a conversation, with all else that it changed, in one step."""
        outline = conversation.history.outline
        latest = range(max(1, outline.turns + 1 - _RECENT), outline.turns + 1)
        texts = {one: _told(conversation.turn(one)) for one in latest}
        numbers = {*range(bound.turns + 1, outline.turns + 1), *(() if number is None else (number,))}
        numbers |= work.turns
        numbers |= {one for one, text in texts.items() if bound.texts.get(one, text) != text}
        written = {name_of_turn(one): pack_turn(conversation.turn(one)) for one in sorted(numbers)}
        for name, guardrail in self._guardrails.items():
            parked = guardrail.park(conversation)
            if parked is not None:
                written[f"state:{name}"] = pack_part(parked, "state")
        data, before = conversation.to_dict(turns=False), bound.revision
        metadata = json.dumps(data.pop(_METADATA), separators=(",", ":")).encode("ascii")
        if metadata != bound.metadata:
            written[_METADATA] = pack_part(metadata, "conversation")

        born = bound.born if before else secrets.token_hex(8)

        def apply(stored: StoredConversation | None) -> tuple[StoredConversation, None]:
            known = (0, born) if stored is None else (stored.revision, stored.born)
            if known != (before, born):
                raise OutrunError
            changes = () if stored is None else stored.noted
            noted = (*changes, *((before + 1, one) for one in sorted(numbers)[-_NOTED:]))[-_NOTED:]
            return StoredConversation(data, outline, before + 1, noted, owner, born, written), None

        key = short_id(conversation.conversation_id)
        self._store.change_all([Change(STORED, key, apply), *work.changes])
        bound.revision, bound.turns, bound.texts, bound.metadata = before + 1, outline.turns, texts, metadata
        bound.born = born
        if not before:
            # Whoever forgot it meanwhile did not find it.
            time = forgotten_at(self._store, conversation)
            if time is not None and bound.begun is not None and time > bound.begun:
                self._store.remove(STORED, key)
                raise forgotten(conversation)

    def _changed(self, stored: StoredConversation, bound: Bound, conversation: Conversation) -> Sequence[int]:
        """The turns to read: those written since, all where `noted` ends earlier, the latest of one met first."""
        turns = stored.outline.turns
        if bound.revision == 0:
            own = conversation.get_turn_count()
            first = turns + 1 - _RECENT if own == 0 else min(own, turns)
            return range(max(1, first), turns + 1)
        since = [(revision, number) for revision, number in stored.noted if revision > bound.revision]
        if stored.noted and stored.noted[0][0] <= bound.revision + 1 and stored.revision > bound.revision:
            return sorted({number for _, number in since})
        return range(1, turns + 1)

    def _take(
        self,
        conversation: Conversation,
        bound: Bound,
        stored: StoredConversation,
        numbers: Iterable[int],
        parts: Mapping[str, bytes],
        but: int,
    ) -> None:
        name, own = conversation.conversation_id, conversation.get_turn_count()
        changed = {number: unpack_turn(parts, number, name) for number in numbers}
        if bound.revision == 0 and own:
            # It was made here from elsewhere; it has to be the same one.
            place = min(own, stored.outline.turns)
            if place and conversation.turn(place).prompt != changed[place].prompt:
                raise StateError(
                    f"conversation {name!r} in the state store is another one: turn {place} differs; give this "
                    "one another conversation_id, or go on with GuardrailPipeline.load_conversation"
                )
            bound.turns = place
        if stored.revision < bound.revision and self._misses(conversation, changed):
            # The store lost its last moments: what is known here is written again.
            bound.revision, bound.turns, bound.texts, bound.metadata = stored.revision, 0, {}, b"{}"
            return
        while bound.turns < own and _is_same(conversation, changed.get(bound.turns + 1)):
            # Written by a check that never learnt of it.
            bound.turns += 1
        if but and but in changed:
            if changed[but].response is not None:
                raise ConversationError(f"turn {but} already has a response, which another worker gave")
            del changed[but]
        counts_after = stored.data.get(COUNTS_AFTER, 0)
        load = partial(self._read, name)
        bound.born = stored.born
        with conversation.history.lock:
            conversation.history.take_over(stored.outline, changed, load, own_after=bound.turns)
            conversation.limits.recount(min(counts_after, stored.outline.turns))
        if _METADATA in parts:
            bound.metadata = unpack_part(parts[_METADATA], "conversation", f"metadata of {name!r}")
            conversation.metadata.update(read_json(bound.metadata))
        bound.revision, bound.turns = stored.revision, stored.outline.turns
        bound.texts = {number: _told(turn) for number, turn in changed.items()}
        for guardrail_name, guardrail in self._guardrails.items():
            parked = parts.get(f"state:{guardrail_name}")
            if parked is not None:
                guardrail.resume(conversation, unpack_part(parked, "state", f"{guardrail_name} in {name!r}"))

    def _misses(self, conversation: Conversation, stored: Mapping[int, Turn]) -> bool:
        """Whether a store has some turns of a conversation, and none that the conversation lacks."""
        return len(stored) <= conversation.get_turn_count() and all(
            _is_same(conversation, turn) for turn in stored.values()
        )

    def _read(self, conversation_id: str, numbers: range) -> list[Turn]:
        parts = self._store.parts(STORED, short_id(conversation_id), map(name_of_turn, numbers))
        return [unpack_turn(parts, number, conversation_id) for number in numbers]


def _is_same(conversation: Conversation, stored: Turn | None) -> bool:
    """Whether a turn of a conversation is the one that a store has in its place."""
    if stored is None or stored.number > conversation.get_turn_count():
        return False
    own = conversation.turn(stored.number)
    return own.prompt == stored.prompt and own.timestamp == stored.timestamp


def _told(turn: Turn) -> tuple[str, str | None, int]:
    """What shows that a turn has changed since it was written."""
    return turn.prompt, turn.response, len(turn.own_metadata.get(OPENAI_KEY) or ())
