"""What a state store holds of a conversation: an outline, and each turn and guardrail state as a part of its own.

A payload can only be read with the words that it was written with, so these never change. Better words get a new
name and a new version of what is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from turnwise._support.bounded import read_json
from turnwise.conversation import Turn
from turnwise.conversation.turn_lists import Outline
from turnwise.errors import StateError, TurnwiseError
from turnwise.sessions.state_store import StateKind, folded, unfolded

COUNTS_AFTER: Final = "rate_limit_counts_after"
"""Key of a conversation as JSON values: the turn after which prompts count against its rate limit."""

_PART: Final = b"\1"
"""Version of turns and guardrail states as parts."""


_CLEAN: Final = (
    b'":{"status":"evaluated","blocked":false,"found":false,"action":null,"confidence":0.0,"reason":"",'
    b'"redactions":[],"seconds":1e-05,"path":null,"data":null},"'
)

TURN_WORDS: Final = (
    b'"status":"skipped","status":"failed","failed: ","path":"closed","path":"open","action":"block","acti'
    b'on":"warn",'
    b'"action":"redact","found":true,"blocked":true,"reason":"","redactions":[{"start":0,"end":16,"kind":"'
    b'email",'
    b'"placeholder":"[EMAIL]"}],"third_party_harm":{"T":0.98,"I":0.02,"F":0.01},"context_integrity":{"T":0'
    b'.98,"I":0.02,'
    b'"F":0.01},"reciprocity":{"T":0.98,"I":0.02,"F":0.01}}}}},"trust_level":"low","mode":"guarded","termi'
    b'nated",'
    b'"trajectory":"degrading","boundary":["breakers"],"phase":"violated","recovery","processing":false,'
    b'"openai_moderation","presidio","topics","urls","code","regex","keywords","llm","harm'
    + _CLEAN
    + b"length"
    + _CLEAN
    + b"secrets"
    + _CLEAN
    + b"pii"
    + _CLEAN
    + b"toxicity"
    + _CLEAN
    + b"prompt_injection"
    + _CLEAN
    + b'drift":{"status":"evaluated","blocked":false,"found":false,"action":null,"confidence":0.0,"reason":"",'
    b'"redactions":[],"seconds":0.0003,"path":null,"data":{"detector":"any_turn","score":0.0,"threshold":0.5,'
    b'"warn":0.425,"active":false,"turn":1,"scores":{"context_integrity":{"T":0.98,"I":0.02,"F":0.01},"rec'
    b'iprocity"'
    b'{"turn":1,"prompt":"","response":"","timestamp":"2026-01-01T00:00:00.000000+00:00","response_timesta'
    b'mp":"2026-'
    b'"metadata":{"guardrail_results":{"input":{"pipeline_type":"input","timestamp":"2026-01-01T00:00:00.0'
    b'00000+00:00"'
    b',"blocked":false,"stance":{"trust_level":"high","mode":"normal","trajectory":"stable","boundary":[],'
    b'"friction":'
    b'"none","phase":"normal","processing":true,"trust":0.65,"interactions":3,"attempts":0,"restarted":false,'
    b'"rationale":"trust 0.650 after 3 turns, stable"},"warnings":[],"reasons":[],"details":{"length":{"status":'
    b'"evaluated","blocked":false,"output":{"pipeline_type":"output","timestamp":"2026-01-01T00:00:00.0000'
    b'00+00:00",'
    b'"blocked":false,"warnings":[],"reasons":[],"details":{"'
)

CONVERSATION_WORDS: Final = (
    b'"rate_limit_events":{"count":1,"latest":[{"scope":"key","reason":"","text_sha256":"","after_turn":1,'
    b'"timestamp":"'
    b'"turns_per_minute":20,"initiator_type":"bot","responder_type":"bot","agent","human","unknown",'
    b'[{"conversation_id":"","participants":{"initiator":"user_123","responder":"gpt-4","initiator_type":"'
    b'human",'
    b'"responder_type":"ai_model"},"model_info":{"model_id":"gpt-4"},"metadata":{},"rate_limit":null,'
    b'"rate_limit_counts_after":0},[1,1,[],"2026-01-01T00:00:00.000000+00:00","2026-01-01T00:00:00.000000+'
    b'00:00"],1,[['
)

STATE_WORDS: Final = (
    b'"principle":{"third_party_harm":0.1,"context_integrity":0.1,"reciprocity":0.1},'
    b'[1,"",1,1,true,{"fired_at":null}]'
)
"""What payloads have in common, which makes them shorter."""


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
    words=CONVERSATION_WORDS,
)
"""Conversations in a state store."""


def name_of_turn(number: int) -> str:
    """The name of a turn among the parts of its conversation."""
    return f"turn:{number}"


def pack_part(data: bytes, words: bytes) -> bytes:
    """A part of a conversation as a payload; `words` are what parts of its sort have in common."""
    return _PART + folded(data, words)


def pack_turn(turn: Turn) -> bytes:
    """A turn with its texts and verdicts as a payload."""
    return pack_part(json.dumps(turn.to_dict(), separators=(",", ":")).encode("ascii"), TURN_WORDS)


def unpack_turn(parts: Mapping[str, bytes], number: int, conversation_id: str) -> Turn:
    """A turn from the parts of its conversation; StateError where it is missing or broken."""
    where = f"turn {number} of conversation {conversation_id!r}"
    payload = parts.get(name_of_turn(number))
    if payload is None:
        raise StateError(f"state store: {where} is not there; forget the conversation to begin anew")
    try:
        turn = Turn.from_dict(read_json(unpack_part(payload, TURN_WORDS, where).decode("ascii")))
    except (ValueError, TypeError, KeyError, TurnwiseError) as error:
        if isinstance(error, StateError):
            raise
        raise StateError(f"state store: {where} is broken ({error}); forget the conversation") from error
    if turn.number != number:
        raise StateError(f"state store: {where} is broken (it has number {turn.number}); forget the conversation")
    return turn


def unpack_part(payload: bytes, words: bytes, where: str) -> bytes:
    """What `pack_part` was given; `words` have to be the same, and `where` is for the error."""
    if payload[:1] != _PART:
        raise StateError(f"state store: {where} is broken, or of another turnwise; forget the conversation")
    try:
        return unfolded(payload[1:], words)
    except ValueError as error:
        raise StateError(f"state store: {where} is broken ({error}); forget the conversation") from error
