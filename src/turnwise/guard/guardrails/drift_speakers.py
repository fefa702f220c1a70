"""Whose texts drift judges in a conversation, and where it stands with each speaker."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import Any, Literal
from weakref import WeakKeyDictionary

from turnwise._support.bounded import read_json
from turnwise.conversation import Conversation, ParticipantType
from turnwise.detectors import Detector
from turnwise.detectors.kit.protocol import State
from turnwise.guard.guardrail import Finding
from turnwise.guard.observing import Scorer
from turnwise.guard.request import digest_of, short_id
from turnwise.guard.scorer_state import Parked, ScorerState, Trajectory

Judge = Literal["auto", "initiator", "responder", "both", "replies"]
"""Whose texts are judged."""

_HUMAN = ParticipantType.HUMAN
_MACHINES = (ParticipantType.BOT, ParticipantType.AGENT)

_VERSION = 1
"""Version of what `Speakers.park` writes."""


def are_peers(conversation: Conversation) -> bool:
    """Whether either side may lead the other: two people, or bots and agents among themselves.

    >>> are_peers(Conversation.bot_to_bot("a", "b")), are_peers(Conversation.human_ai("ann", "model"))
    (True, False)
    """
    first, second = conversation.initiator_type, conversation.responder_type
    return first is second is _HUMAN or (first in _MACHINES and second in _MACHINES)


def trajectory_of_replies(judge: Judge, conversation: Conversation) -> Trajectory | None:
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


class Speakers:
    """Where drift stands with the speakers of the conversations that anybody holds.

    Parked states of another observer or detector are told by a fingerprint.
    """

    def __init__(self, scorer: Scorer, detector: Detector, detector_name: str) -> None:
        self._scorer = scorer
        self._detector = detector
        named = (scorer.spec, scorer.info.version, scorer.context, scorer.principles, detector_name)
        self._fingerprint = digest_of(repr(named))[:8]
        self._initiators = WeakKeyDictionary[Conversation, Progress]()
        self._responders = WeakKeyDictionary[Conversation, Progress]()
        self._adding = threading.Lock()

    def of(self, conversation: Conversation, trajectory: Trajectory) -> Progress:
        """Where the speaker of a trajectory stands, at the beginning where nobody asked before."""
        known = self._by_conversation(trajectory)
        progress = known.get(conversation)
        if progress is not None:
            return progress
        name, speaker = conversation.conversation_id, _speaker_of(conversation, trajectory)
        scores = self._scorer.start(name, trajectory)
        fresh = Progress(short_id(name), trajectory, speaker, scores, self._detector.start())
        with self._adding:
            return known.setdefault(conversation, fresh)  # another thread may have added one by now

    def _by_conversation(self, trajectory: Trajectory) -> WeakKeyDictionary[Conversation, Progress]:
        return self._initiators if trajectory is Trajectory.INITIATOR else self._responders

    def park(self, conversation: Conversation) -> bytes | None:
        """Where the speakers of a conversation stand, for `resume`; None for one that is not known."""
        known = (self._initiators.get(conversation), self._responders.get(conversation))
        heads: list[str] = []
        bodies: list[bytes] = []
        for progress in filter(None, known):
            with progress.lock:
                one = self._scorer.park(progress.scores)
                sizes = [len(one.session), None if one.passed is None else len(one.passed)]
                at = [progress.turns, one.whole, one.recent, one.blocked_at, *sizes, progress.detected]
                # Encoded here: a detector may change its state as soon as the lock is let go.
                heads.append(json.dumps([progress.trajectory, *at], separators=(",", ":")))
            bodies += [one.session, one.passed or b""]
        if not heads:
            return None
        head = f"[{_VERSION},{json.dumps(self._fingerprint)},[{','.join(heads)}]]"
        return b"".join([head.encode("ascii"), b"\n", *bodies])

    def resume(self, conversation: Conversation, parked: bytes) -> None:
        """Go on with a conversation where it was parked; forget it where observer or detector were others then.

        The conversation has at least the turns that were taken in. Raises ValueError, TypeError or ObserverError
        where it can't be read.
        """
        line, _, rest = parked.partition(b"\n")
        version, written_for, heads = read_json(line)
        if version != _VERSION:
            raise ValueError(f"version {version}")
        if written_for != self._fingerprint:
            self._initiators.pop(conversation, None)
            self._responders.pop(conversation, None)
            return
        found = []
        for head in heads:
            progress, rest = self._resumed(conversation, head, rest)
            found.append(progress)
        with self._adding:
            for progress in found:
                self._by_conversation(progress.trajectory)[conversation] = progress

    def _resumed(self, conversation: Conversation, head: Any, rest: bytes) -> tuple[Progress, bytes]:
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
        parked = Parked(tuple(recent), blocked_at, rest[:size], passed, whole)
        scores = self._scorer.resume(conversation, turns, parked, trajectory)
        known, speaker = short_id(conversation.conversation_id), _speaker_of(conversation, trajectory)
        return Progress(known, trajectory, speaker, scores, detected, turns), rest[end:]


def _speaker_of(conversation: Conversation, trajectory: Trajectory) -> str:
    """Who says the texts of a trajectory."""
    return conversation.initiator if trajectory is Trajectory.INITIATOR else conversation.responder
