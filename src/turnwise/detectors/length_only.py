"""``length_only``: the baseline that reads nothing at all."""

from __future__ import annotations

from dataclasses import dataclass

from turnwise.detectors.kit.base import FIRED_AT, Limited, count, latch, number, silence
from turnwise.detectors.kit.protocol import Signal, State
from turnwise.errors import DetectorError
from turnwise.scoring import TurnScores

_COUNT = "count"
_SEEN = "seen"


@dataclass(frozen=True, slots=True)
class LengthOnly(Limited):
    """Fires on how long a conversation is, whatever is said in it.

    score = number of evaluated turns so far, or the characters of their prompts. Where it does well, attacks of a
    data set are told by their length.

    Args:
        limit: turns or characters from which it fires; infinity never fires.
        chars: 1 to count the characters of evaluated turns, 0 to count the turns.

    Raises:
        DetectorError: a parameter is out of range.

    >>> from turnwise.scoring import Score
    >>> detector = LengthOnly(limit=2)
    >>> state = detector.start()
    >>> for turn in (1, 2):
    ...     signal = detector.update(state, TurnScores(turn, {"reciprocity": Score(T=1.0, I=0.0, F=0.0)}))
    >>> signal.reason
    '2 evaluated turns ≥ 2 at turn 2'
    """

    name = "length_only"

    limit: float = 10.0
    chars: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", number(self.name, "limit", self.limit, never=True))
        object.__setattr__(self, "chars", count(self.name, "chars", self.chars, 0))
        if self.chars > 1:
            raise DetectorError(
                f"{self.name}: chars must be 0 (count turns) or 1 (count characters), not {self.chars}"
            )

    def start(self) -> State:
        """Return the state before the first turn."""
        return {FIRED_AT: None, _COUNT: 0, _SEEN: []}

    def update(self, state: State, scores: TurnScores) -> Signal:
        """Take the scores of the next turn into the state and return the signal after it."""
        seen: list[str] = state[_SEEN]
        if scores.scores:
            seen.extend(sorted(scores.scores.keys() - set(seen)))
            state[_COUNT] += scores.length if self.chars else 1
        if not seen:
            return silence(state, scores.turn)
        length = float(state[_COUNT])
        active = length >= self.limit
        unit = "characters in evaluated turns" if self.chars else "evaluated turns"
        reason = f"{length:.0f} {unit} {'≥' if active else '<'} {self.limit:g} at turn {scores.turn}"
        return latch(
            state, scores.turn, length, active=active, contributions=dict.fromkeys(seen, length), reason=reason
        )
