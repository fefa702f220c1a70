"""``always``: the baseline that stops everything."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from turnwise.detectors.kit.base import FIRED_AT, judge, silence
from turnwise.detectors.kit.protocol import Signal, State
from turnwise.scoring import TurnScores

_SEEN = "seen"


@dataclass(frozen=True, slots=True)
class Always:
    """Fires at the first evaluated turn: what blocking everything costs.

    score = 1 at every turn once anything was evaluated.

    Args:
        threshold: score from which it fires; above 1 never.

    >>> from turnwise.scoring import Score
    >>> detector = Always()
    >>> detector.update(detector.start(), TurnScores(1, {"reciprocity": Score(T=1.0, I=0.0, F=0.0)})).turn
    1
    """

    name = "always"

    threshold: float = 1.0

    def with_threshold(self, value: float) -> Self:
        """Return the same detector with another threshold; above 1 it never fires."""
        return replace(self, threshold=value)

    def start(self) -> State:
        """Return the state before the first turn."""
        return {FIRED_AT: None, _SEEN: []}

    def update(self, state: State, scores: TurnScores) -> Signal:
        """Take the scores of the next turn into the state and return the signal after it."""
        seen: list[str] = state[_SEEN]
        seen.extend(sorted(scores.scores.keys() - set(seen)))
        if not seen:
            return silence(state, scores.turn)
        return judge(state, scores.turn, dict.fromkeys(seen, 1.0), "presence", self.threshold)
