"""An observer: it counts words of pressure, over all turns so far."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from turnwise.conversation import Side, Turn
from turnwise.errors import ObserverError
from turnwise.observers import Context, ContextMode, Observation, ObserverInfo, Request
from turnwise.scoring import Score


@dataclass
class Seen:
    """The state of one conversation: how many words of pressure its prompts had."""

    words: int = 0


class Pressure:
    """Takes words of pressure for falsity.

    Args:
        argument: the words, with commas between: ``pressure:now,owe``; None for the usual ones.
        weight: F of one word, in (0, 1].

    Raises:
        ObserverError: no words, or a weight out of its range.
    """

    def __init__(self, argument: str | None = None, *, weight: float = 0.3) -> None:
        words = {word.strip().lower() for word in (argument or "urgent,immediately,owe,promised").split(",")}
        if "" in words or not 0 < weight <= 1:
            raise ObserverError("pressure: give words with commas between, and a weight in (0, 1]")
        self.parameters = {"words": sorted(words), "weight": weight}
        self._words, self._weight = words, weight

    @classmethod
    def describe(cls) -> ObserverInfo:
        """Return what is known of it before it is built."""
        return ObserverInfo("pressure", "1", (ContextMode.HISTORY,), "words of pressure, for demonstration")

    @property
    def info(self) -> ObserverInfo:
        """What a person should know of it."""
        return self.describe()

    def start(self, conversation_id: str, context: Context) -> Seen:
        """Return the state before the first turn."""
        if context.mode is not ContextMode.HISTORY:
            raise ObserverError(f"pressure reads the turns so far, not context {context}")
        return Seen()

    def observe(self, state: Seen, turn: Turn, wanted: Collection[Request]) -> list[Observation]:
        """Take the turn into the state and score what is wanted of it; a prompt without its response."""
        state.words += self._count(turn.prompt)
        found = {Side.PROMPT: state.words, Side.RESPONSE: state.words + self._count(turn.response or "")}
        scores = {side: min(1.0, words * self._weight) for side, words in found.items()}
        return [
            Observation(principle.name, side, Score(T=1 - scores[side], I=0.5, F=scores[side]))
            for principle, side in wanted
        ]

    def _count(self, text: str) -> int:
        return sum(word.strip(".,;:!?") in self._words for word in text.lower().split())
