"""What drift remembers of a conversation, and what it keeps with each turn."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from weakref import WeakKeyDictionary

from turnwise.conversation import Conversation
from turnwise.detectors.kit.protocol import State
from turnwise.guard.guardrail import Finding
from turnwise.guard.observing import ScorerState
from turnwise.guard.records import Record
from turnwise.scoring import Score


@dataclass(frozen=True, slots=True, eq=False)
class DriftData(Record):
    """What drift keeps with a turn.

    Args:
        detector: the detector, such as ``"any_turn"``.
        score: what it said after this turn.
        threshold: score at which a turn is blocked.
        warn: score at which a turn is warned of; None for never.
        active: whether the turn was over the threshold.
        turn: number of the turn.
        principles: names of the principles that were scored.
        components: T, I and F of each, one after the other.
    """

    derived = ("scores",)
    hidden = ("principles", "components")

    detector: str
    score: float
    threshold: float
    warn: float | None
    active: bool
    turn: int
    principles: tuple[str, ...]
    components: array[float]

    @property
    def scores(self) -> dict[str, Score]:
        """The score of each principle."""
        triples = zip(*[iter(self.components)] * 3, strict=True)
        return {name: Score(*triple) for name, triple in zip(self.principles, triples, strict=True)}


def packed(scores: Mapping[str, Score]) -> array[float]:
    """Return scores one after the other, as `DriftData` keeps them."""
    return array("d", [value for score in scores.values() for value in (score.T, score.I, score.F)])


@dataclass(slots=True)
class Following:
    """Where drift stands in one conversation.

    Args:
        scores: state of the observer.
        detected: state of the detector.
        turns: turns taken in so far.
        ahead: findings of turns that another check took in, until their own check asks for them.
        lock: held while turns are taken in.
    """

    scores: ScorerState
    detected: State
    turns: int = 0
    ahead: dict[int, Finding | Exception] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)


class Followed:
    """The conversations that are under way; one that nobody holds any more is forgotten."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Conversation, Following] = WeakKeyDictionary()
        self._lock = Lock()

    def get(self, conversation: Conversation) -> Following | None:
        """Return where drift stands in a conversation, or None for one that it does not know."""
        return self._known.get(conversation)

    def add(self, conversation: Conversation, fresh: Following) -> Following:
        """Return where drift stands in a conversation, which may be known by now; else from the beginning."""
        with self._lock:
            return self._known.setdefault(conversation, fresh)
