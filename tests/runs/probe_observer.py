"""An observer as an installed package would bring it: it computes, and can be killed at a chosen moment.

The fixture `probe` installs it for the tests. The score of a turn hangs on every text up to it, so a resumed run
that skipped a turn, or fed one twice, gives other numbers.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from turnwise.conversation import Turn
from turnwise.errors import UnknownNameError
from turnwise.observers import (
    Context,
    ContextMode,
    Observation,
    ObservationFailure,
    ObserverInfo,
    Request,
    Workers,
)
from turnwise.scoring import Score

KILL = "PROBE_KILL"
"""``main:80`` kills the evaluating process at the 80th turn that this process observes, ``self:80`` itself."""

REFUSE = "PROBE_REFUSE"
"""Set where worker processes are not to build the observer."""


@dataclass
class ProbeState:
    """The texts so far, as a hash."""

    seen: str


class ProbeObserver:
    """Scores by the hash of all texts so far; gives a gap or a failure now and then."""

    def __init__(self, argument: str | None = None) -> None:
        if os.environ.get(REFUSE) and os.getpid() != int(os.environ[REFUSE]):
            raise UnknownNameError("model", "x", ["y"])
        self.parameters: Mapping[str, object] = {"argument": argument, "pair": (1, 2)}
        self._fails = argument != "sound"
        self._observed = 0
        who, _, turn = os.environ.get(KILL, "nobody:0").partition(":")
        self._killed, self._at = who, int(turn)

    @classmethod
    def describe(cls) -> ObserverInfo:
        """Return what is known of the observer before it is built."""
        modes = (ContextMode.TURN, ContextMode.HISTORY)
        return ObserverInfo("probe", "5", modes, "a hash", workers=Workers.PROCESSES)

    @property
    def info(self) -> ObserverInfo:
        """What a person should know of it."""
        return self.describe()

    def start(self, conversation_id: str, context: Context) -> ProbeState:
        """Return the hash of the id."""
        return ProbeState(conversation_id)

    def observe(
        self, state: ProbeState, turn: Turn, wanted: Collection[Request]
    ) -> Sequence[Observation | ObservationFailure]:
        """Take in the turn, and give a number for each request."""
        self._observed += 1
        if self._observed == self._at and self._killed != "nobody":
            # A worker process is a child of the evaluating one.
            os.kill(os.getpid() if self._killed == "self" else _main(), signal.SIGKILL)
        state.seen = hashlib.sha256(f"{state.seen}|{turn.prompt}|{turn.response}".encode()).hexdigest()
        given = (self._give(state, request) for request in wanted)
        return [item for item in given if item is not None]

    def _give(self, state: ProbeState, request: Request) -> Observation | ObservationFailure | None:
        digest = hashlib.sha256(f"{state.seen}|{request.principle.name}|{request.side}".encode()).digest()
        about = request.principle.name, request.side
        if digest[0] < 8:
            return None
        if digest[0] > 247 and self._fails:
            return ObservationFailure(*about, "malformed", f"not read: {digest.hex()[:8]}")
        score = Score(T=digest[1] / 255, I=digest[2] / 255, F=digest[3] / 255)
        raw = json.dumps(score.to_dict())
        return Observation(*about, score, reasoning=digest.hex()[:6], raw_reply=raw, latency_s=0.25, cost_usd=0.5)


def _main() -> int:
    from multiprocessing import parent_process

    return os.getppid() if parent_process() else os.getpid()
