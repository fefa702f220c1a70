"""Whose texts drift judges in a conversation, and where it stands with each speaker."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from turnwise._support.bounded import read_json
from turnwise.conversation import Conversation, ParticipantType
from turnwise.detectors.kit.protocol import State
from turnwise.guard.guardrail import Finding
from turnwise.guard.observing import Scorer
from turnwise.guard.request import short_id
from turnwise.guard.scorer_state import Parked, ScorerState, Trajectory

Judge = Literal["auto", "initiator", "responder", "both", "replies"]
"""Whose texts are judged."""

_HUMAN = ParticipantType.HUMAN
_MACHINES = (ParticipantType.BOT, ParticipantType.AGENT)

_VERSION = 1
"""Version of what `park` writes."""


def are_peers(conversation: Conversation) -> bool:
    """Whether either side may lead the other: two people, or bots and agents among themselves.

    >>> are_peers(Conversation.bot_to_bot("a", "b")), are_peers(Conversation.human_ai("ann", "model"))
    (True, False)
    """
    first, second = conversation.initiator_type, conversation.responder_type
    return first is second is _HUMAN or (first in _MACHINES and second in _MACHINES)


def of_outputs(judge: Judge, conversation: Conversation) -> Trajectory | None:
    """The trajectory that a text of the responder is part of; None where nobody asked for one."""
    if judge == "replies":
        return Trajectory.REPLIES
    if judge in ("responder", "both") or (judge == "auto" and are_peers(conversation)):
        return Trajectory.RESPONDER
    return None


@dataclass(slots=True)
class Progress:
    """Where drift stands with one speaker in one conversation.

    The id is as the session memory takes it. `ahead` has the findings of turns that another check took in, until
    their own check asks for them; `lock` is held while turns are taken in.
    """

    conversation_id: str
    trajectory: Trajectory
    speaker: str
    scores: ScorerState
    detected: State
    turns: int = 0
    ahead: dict[int, Finding | Exception] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


def speaker_of(conversation: Conversation, trajectory: Trajectory) -> str:
    """Who says the texts of a trajectory."""
    return conversation.initiator if trajectory is Trajectory.INITIATOR else conversation.responder


def park(scorer: Scorer, fingerprint: str, speakers: Iterable[Progress]) -> bytes:
    """Where the speakers of a conversation stand, for `resume`."""
    heads: list[str] = []
    bodies: list[bytes] = []
    for progress in speakers:
        with progress.lock:
            one = scorer.park(progress.scores)
            sizes = [len(one.session), None if one.passed is None else len(one.passed)]
            at = [progress.turns, one.whole, one.recent, one.blocked_at, *sizes, progress.detected]
            # Encoded here: a detector may change its state as soon as the lock is let go.
            heads.append(json.dumps([progress.trajectory, *at], separators=(",", ":")))
        bodies += [one.session, one.passed or b""]
    head = f"[{_VERSION},{json.dumps(fingerprint)},[{','.join(heads)}]]"
    return b"".join([head.encode("ascii"), b"\n", *bodies])


def resume(scorer: Scorer, fingerprint: str, conversation: Conversation, parked: bytes) -> list[Progress] | None:
    """Where the speakers of a conversation stand; None where another observer or detector followed them.

    The conversation has at least the turns that were taken in. Raises ValueError, TypeError or ObserverError where
    it can't be read.
    """
    line, _, rest = parked.partition(b"\n")
    version, written_for, heads = read_json(line)
    if version != _VERSION:
        raise ValueError(f"version {version}")
    if written_for != fingerprint:
        return None
    found = []
    for head in heads:
        progress, rest = _resumed(scorer, conversation, head, rest)
        found.append(progress)
    return found


def _resumed(scorer: Scorer, conversation: Conversation, head: Any, rest: bytes) -> tuple[Progress, bytes]:
    """Where one speaker stands, and the bytes that follow."""
    name, turns, whole, recent, blocked_at, size, size_passed, detected = head
    if not 0 <= turns <= conversation.get_turn_count() or not isinstance(detected, dict):
        raise ValueError(f"{turns} turns, and the detector's state is {type(detected).__name__}")
    if any(not 0 < number <= turns for number in recent):
        raise ValueError(f"turns {recent} of {turns}")
    end = size + (size_passed or 0)
    if not 0 <= size <= end <= len(rest):
        raise ValueError(f"{end} bytes, and {len(rest)} are left")
    passed = None if size_passed is None else rest[size:end]
    trajectory = Trajectory(name)
    scores = scorer.resume(
        conversation, turns, Parked(tuple(recent), blocked_at, rest[:size], passed, whole), trajectory
    )
    known, speaker = short_id(conversation.conversation_id), speaker_of(conversation, trajectory)
    return Progress(known, trajectory, speaker, scores, detected, turns), rest[end:]
