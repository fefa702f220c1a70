"""What a state store holds of a conversation: an outline, and each turn and guardrail state as a part of its own.

A payload can only be read with the words that it was written with, so these never change: better words are a new
version, and what was written with older ones is still read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any, Final

from turnwise._support.bounded import read_json
from turnwise.conversation import Turn
from turnwise.conversation.turn_lists import Outline
from turnwise.errors import StateError, TurnwiseError
from turnwise.sessions.state_store import StateKind, folded, unfolded

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
    """What a state store keeps of a conversation beside its turns.

    - `data` is the conversation as JSON values, without turns and metadata; `outline` sums up its turns.
    - `revision` counts how often it was written, from 1; `noted` are the latest changes, oldest first: the
      revision, and the number of a turn that it wrote.
    - `owner` is the digest of the session that it belongs to.
    - `born` tells it from others of its name, before and after it was forgotten.
    - `written` are turns and guardrail states to write with it; empty when it is read.
    """

    data: Mapping[str, Any]
    outline: Outline
    revision: int
    noted: tuple[tuple[int, int], ...]
    owner: str
    born: str = ""
    written: Mapping[str, bytes] = field(default_factory=dict, compare=False)


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
