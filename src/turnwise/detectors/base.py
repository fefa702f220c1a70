"""What detectors are made of: checked parameters, the latch of the first turn that fired, and two base classes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

from turnwise.detectors.protocol import Signal, State
from turnwise.errors import DetectorError
from turnwise.scoring import Score, TurnScores

FIRED_AT = "fired_at"
"""Key of the state under which the first turn that fired is kept; None while none has."""


def strongest(values: Mapping[str, float]) -> tuple[str, float]:
    """The principle with the highest value, and the value; of equal ones the first name in the alphabet.

    >>> strongest({"reciprocity": 0.4, "context_integrity": 0.7})
    ('context_integrity', 0.7)
    """
    best, high = "", -math.inf
    for principle, value in values.items():
        if value > high or (value == high and principle < best):
            best, high = principle, value
    return best, high


def latch(
    state: State, turn: int, score: float, *, active: bool, contributions: Mapping[str, float], reason: str
) -> Signal:
    """Return the signal of a turn, and remember in the state, under `FIRED_AT`, the first turn that fired.

    Args:
        state: state of the conversation.
        turn: number of the turn.
        score: suspicion after the turn.
        active: whether that score alone is beyond the threshold.
        contributions: what each principle contributed; not shared with the state.
        reason: the reason in words.
    """
    first: int | None = state[FIRED_AT]
    if active and first is None:
        first = state[FIRED_AT] = turn
    elif first is not None and not active:
        reason = f"{reason}; fired at turn {first}"
    return Signal(score, first is not None, active, first, reason, contributions)


def silence(state: State, turn: int, reason: str = "no principle was evaluated") -> Signal:
    """Return the signal of no evidence, which can't fire; `reason` says what is lacking."""
    fired_at: int | None = state[FIRED_AT]
    fired = "" if fired_at is None else f"; fired at turn {fired_at}"
    return Signal.silent(f"{reason} up to turn {turn}{fired}", fired_at)


def judge(state: State, turn: int, values: dict[str, float], label: str, threshold: float) -> Signal:
    """Return the signal of a detector that fires once the highest of its values reaches a threshold.

    Args:
        state: state of the conversation.
        turn: number of the turn.
        values: value by principle, at least one; handed on as contributions, so not shared with the state.
        label: what the value is called in the reason, such as ``"F"``.
        threshold: value from which it fires.
    """
    principle, score = strongest(values)
    active = score >= threshold
    sign = "≥" if active else "<"
    reason = f"{principle} {label} {score:z.3f} {sign} {threshold:.3f} at turn {turn}"
    return latch(state, turn, score, active=active, contributions=values, reason=reason)


def number(
    detector: str,
    parameter: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    above: bool = False,
    never: bool = False,
) -> float:
    """Return a parameter as a float, checked.

    Args:
        detector: name of the detector, for the message.
        parameter: name of the parameter, for the message.
        value: what was given.
        low: least value allowed.
        high: greatest value allowed.
        above: whether `low` itself is not allowed.
        never: whether infinity is allowed as well: a threshold that no score reaches.

    Raises:
        DetectorError: the value is no number, not finite or out of range.

    >>> number("cusum", "limit", 2, 0.0)
    2.0
    >>> number("trust_ema", "alpha", 0, 0.0, 1.0, above=True)
    Traceback (most recent call last):
        ...
    turnwise.errors.DetectorError: trust_ema: alpha must be a number in (0, 1], not 0
    """
    try:
        given = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        given = math.nan
    if never and given == math.inf:
        return given
    if math.isfinite(given) and low <= given <= high and not (above and given == low):
        return given
    start = "(" if above or low == -math.inf else "["
    end = ")" if high == math.inf else "]"
    extra = ", or inf for a detector that never fires" if never else ""
    raise DetectorError(
        f"{detector}: {parameter} must be a number in {start}{low:g}, {high:g}{end}{extra}, not {value!r}"
    )


def count(detector: str, parameter: str, value: Any, low: int) -> int:
    """Return a parameter that counts turns, at least `low`, checked; arguments and errors as for `number`.

    >>> count("slope", "min_turns", 3, 2)
    3
    """
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= low:
        return int(value)
    raise DetectorError(f"{detector}: {parameter} must be a whole number of at least {low}, not {value!r}")


def check_number(
    detector: Any,
    parameter: str,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    above: bool = False,
    never: bool = False,
) -> None:
    """Check a field of a detector, a frozen dataclass, as `number` does, and set it to the float."""
    value = number(detector.name, parameter, getattr(detector, parameter), low, high, above=above, never=never)
    object.__setattr__(detector, parameter, value)


def check_count(detector: Any, parameter: str, low: int) -> None:
    """Check a field of a detector, a frozen dataclass, as `count` does, and set it to the int."""
    object.__setattr__(detector, parameter, count(detector.name, parameter, getattr(detector, parameter), low))


class Limited:
    """A detector that fires from its limit. A subclass is a frozen dataclass with a field ``limit``."""

    __slots__ = ()

    if TYPE_CHECKING:
        limit: float

    @property
    def threshold(self) -> float:
        """The limit: score from which it fires."""
        return self.limit

    def with_threshold(self, value: float) -> Self:
        """Return the same detector with another limit."""
        return replace(self, limit=value)  # type: ignore[type-var]  # its subclasses are dataclasses


_MEMORIES = "memories"
"""Key of the state under which the present value and the memory of each principle are kept."""


class ByPrinciple(Limited, ABC):
    """A detector that keeps a memory for each principle and fires once the highest value reaches its limit.

    A subclass is a frozen dataclass with a field ``limit``; it says in `follow` what one more score does. A
    principle that was not evaluated at a turn keeps its memory and its value.
    """

    __slots__ = ()

    name: str
    label: ClassVar[str]
    """What the value is called in reasons."""

    def start(self) -> State:
        """Return the state before the first turn."""
        return {FIRED_AT: None, _MEMORIES: {}}

    def update(self, state: State, scores: TurnScores) -> Signal:
        """Take the scores of the next turn into the state and return the signal after it."""
        memories: dict[str, list[Any]] = state[_MEMORIES]
        self._take(memories, scores)
        values = {principle: known[0] for principle, known in memories.items()}
        if not values:
            return silence(state, scores.turn)
        return judge(state, scores.turn, values, self.label, self.limit)

    def highest(self, turns: Iterable[TurnScores]) -> float:
        """Return the highest score over the turns of a conversation; minus infinity without evidence.

        The score of `run_detector` without the reasons: studies ask for it alone, hundreds of times.
        """
        memories: dict[str, list[Any]] = {}
        return max((self._take(memories, scores) for scores in turns), default=-math.inf)

    def _take(self, memories: dict[str, list[Any]], scores: TurnScores) -> float:
        """Take the scores of a turn into the memories, and return the highest value that one of them gave."""
        highest = -math.inf
        for principle, score in scores.scores.items():
            known = memories.get(principle)
            if known is None:
                memory, value = self.follow(None, scores, score)
                memories[principle] = [value, memory]
            else:
                known[1], value = self.follow(known[1], scores, score)
                known[0] = value
            if value > highest:  # noqa: PLR1730 - a call of max would be a sixth of the whole work
                highest = value
        return highest

    @abstractmethod
    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        """Take one more score of a principle.

        Args:
            memory: what this returned last for the principle; None before its first score. JSON values.
            scores: the turn, for its number and length.
            score: the score of the principle at the turn.

        Returns:
            The memory from now on, and the principle's value.
        """
