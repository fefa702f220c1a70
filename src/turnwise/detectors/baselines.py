"""What a detector over time has to beat: doing nothing, stopping everything, single turns, and mere length."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from turnwise.detectors.base import (
    FIRED_AT,
    ByPrinciple,
    Limited,
    check_count,
    check_number,
    judge,
    latch,
    silence,
)
from turnwise.detectors.protocol import Signal, State
from turnwise.errors import DetectorError
from turnwise.scoring import Score, TurnScores

_SEEN = "seen"
"""Key of the state under which the principles are kept that were evaluated so far."""

_COUNT = "count"


@dataclass(frozen=True, slots=True)
class Never:
    """Never fires: what doing nothing costs.

    score = 0 at every turn, whatever its threshold.

    Args:
        threshold: changes nothing.

    >>> detector = Never()
    >>> detector.update(detector.start(), TurnScores(1, {"reciprocity": Score(T=0.0, I=0.2, F=1.0)})).fired
    False
    """

    name = "never"

    threshold: float = math.inf

    def with_threshold(self, value: float) -> Self:
        return replace(self, threshold=value)

    def start(self) -> State:
        return {FIRED_AT: None}

    def update(self, state: State, scores: TurnScores) -> Signal:
        return silence(state, scores.turn, "it never fires")


@dataclass(frozen=True, slots=True)
class Always:
    """Fires at the first evaluated turn: what blocking everything costs.

    score = 1 at every turn once anything was evaluated.

    Args:
        threshold: score from which it fires; above 1 never.

    >>> detector = Always()
    >>> detector.update(detector.start(), TurnScores(1, {"reciprocity": Score(T=1.0, I=0.0, F=0.0)})).turn
    1
    """

    name = "always"

    threshold: float = 1.0

    def with_threshold(self, value: float) -> Self:
        return replace(self, threshold=value)

    def start(self) -> State:
        return {FIRED_AT: None, _SEEN: []}

    def update(self, state: State, scores: TurnScores) -> Signal:
        seen: list[str] = state[_SEEN]
        seen.extend(sorted(scores.scores.keys() - set(seen)))
        if not seen:
            return silence(state, scores.turn)
        return judge(state, scores.turn, dict.fromkeys(seen, 1.0), "presence", self.threshold)


@dataclass(frozen=True, slots=True)
class AnyTurn:
    """Fires at a turn whose F reaches a threshold: what looking at single turns can see.

    score = max over principles of F at this turn. Nothing is carried from turn to turn but the latch, which
    makes it the baseline that a detector over time has to beat.

    Args:
        threshold: F from which it fires, in [0, 1]; infinity never fires.

    >>> detector = AnyTurn(threshold=0.5)
    >>> state = detector.start()
    >>> detector.update(state, TurnScores(1, {"reciprocity": Score(T=0.8, I=0.2, F=0.1)})).fired
    False
    >>> detector.update(state, TurnScores(2, {"reciprocity": Score(T=0.1, I=0.2, F=0.83)})).reason
    'reciprocity F 0.830 ≥ 0.500 at turn 2'
    """

    name = "any_turn"

    threshold: float = 0.5

    def __post_init__(self) -> None:
        check_number(self, "threshold", 0.0, 1.0, never=True)

    def with_threshold(self, value: float) -> Self:
        return replace(self, threshold=math.inf if value > 1.0 else value)

    def start(self) -> State:
        return {FIRED_AT: None}

    def update(self, state: State, scores: TurnScores) -> Signal:
        values = {principle: score.F for principle, score in scores.scores.items()}
        if not values:
            return silence(state, scores.turn)
        return judge(state, scores.turn, values, "F", self.threshold)


@dataclass(frozen=True, slots=True)
class FirstTurn(ByPrinciple):
    """Fires on the F of the first evaluated turn alone: how far an opening gives a conversation away.

    score = max over principles of F at the principle's first evaluated turn. It can't see anything that happens
    later: where it does well, a data set tells its attacks by how they begin.

    Args:
        limit: F from which it fires, in [0, 1]; infinity never fires.

    >>> detector = FirstTurn()
    >>> state = detector.start()
    >>> for turn, F in ((1, 0.1), (2, 0.9)):
    ...     signal = detector.update(state, TurnScores(turn, {"reciprocity": Score(T=0.5, I=0.2, F=F)}))
    >>> signal.fired, signal.score
    (False, 0.1)
    """

    name = "first_turn"
    label: ClassVar[str] = "first F"

    limit: float = 0.5

    def __post_init__(self) -> None:
        check_number(self, "limit", 0.0, 1.0, never=True)

    def with_threshold(self, value: float) -> Self:
        return replace(self, limit=math.inf if value > 1.0 else value)

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        first = score.F if memory is None else memory
        return first, first


@dataclass(frozen=True, slots=True)
class LastTurn(AnyTurn):
    """Judges a whole conversation by its last evaluated turn alone.

    score = max over principles of F at this turn. Live it is `any_turn`; the verdict on a whole conversation is
    that of its last evaluated turn, so it needs no memory either.

    Args:
        threshold: F from which it fires, in [0, 1]; infinity never fires.

    >>> from turnwise.detectors import run_detector
    >>> turns = [TurnScores(n, {"reciprocity": Score(0.5, 0.2, F)}) for n, F in enumerate((0.9, 0.1), start=1)]
    >>> run_detector(LastTurn(), turns).fired
    False
    """

    name = "last_turn"
    judges_last: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class CountFlags(ByPrinciple):
    """Fires once single turns were flagged often enough.

    score = max over principles of the number of turns so far with F ≥ flag. With k = 1 it is `any_turn` at the
    threshold `flag`.

    Args:
        k: flagged turns of one principle from which it fires, at least 0; infinity never fires.
        flag: F from which a turn is flagged, in [0, 1].

    >>> detector = CountFlags(k=2)
    >>> state = detector.start()
    >>> for turn, F in ((1, 0.6), (2, 0.1), (3, 0.7)):
    ...     signal = detector.update(state, TurnScores(turn, {"reciprocity": Score(T=0.5, I=0.2, F=F)}))
    >>> signal.reason
    'reciprocity flagged turns 2.000 ≥ 2.000 at turn 3'
    """

    name = "count_flags"
    label: ClassVar[str] = "flagged turns"

    k: float = 3.0
    flag: float = 0.5

    def __post_init__(self) -> None:
        check_number(self, "k", 0.0, never=True)
        check_number(self, "flag", 0.0, 1.0)

    @property
    def limit(self) -> float:  # type: ignore[override]  # the base class names the field, here it has another name
        """The same as k."""
        return self.k

    def with_threshold(self, value: float) -> Self:
        return replace(self, k=value)

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        flagged = (memory or 0) + (int(self.flag <= score.F))
        return flagged, float(flagged)


@dataclass(frozen=True, slots=True)
class LengthOnly(Limited):
    """Fires on how long a conversation is, whatever is said in it.

    score = number of evaluated turns so far, or the characters of their prompts. Where it does well, attacks of a
    data set are told by their length.

    Args:
        limit: turns or characters from which it fires; infinity never fires.
        chars: 1 to count the characters of evaluated turns, 0 to count the turns.

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
        check_number(self, "limit", never=True)
        check_count(self, "chars", 0)
        if self.chars > 1:
            raise DetectorError(
                f"{self.name}: chars must be 0 (count turns) or 1 (count characters), not {self.chars}"
            )

    def start(self) -> State:
        return {FIRED_AT: None, _COUNT: 0, _SEEN: []}

    def update(self, state: State, scores: TurnScores) -> Signal:
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
