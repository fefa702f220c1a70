"""What may be set of the session memory, with its checks, and the presets: named settings for common wishes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from numbers import Integral, Real
from typing import Any

from turnwise._support.visible import shown
from turnwise.errors import SessionError, UnknownNameError

HISTORY = 10
"""Turns that changes of balance, breakers and refusals are kept of."""

F_HISTORY = 5
"""Turns that F is kept of."""

DEFAULT_PRESET = "default"
"""Name of the preset that is used where none is named."""

RULES = ("corrected", "original")
"""Names of the rules for trajectory and stance."""


def in_range(
    name: str, value: object, low: float, high: float, *, above: bool = False, below: bool = False
) -> None:
    """Raise SessionError unless a number is in its range, from above `low` or to below `high` where said.

    >>> in_range("alpha", 0, 0.0, 1.0, above=True)
    Traceback (most recent call last):
        ...
    turnwise.errors.SessionError: alpha must be a number in (0, 1], not 0
    """
    if isinstance(value, Real) and not isinstance(value, bool):
        number: Any = value  # compared as it is: a long whole number is no float
        outside = (above and number == low) or (below and number == high)
        if low <= number <= high and not outside:
            return
    start, end = "(" if above else "[", ")" if below else "]"
    raise SessionError(f"{name} must be a number in {start}{low:g}, {high:g}{end}, not {shown(value)}")


def whole(name: str, value: object, low: int, high: int | None = None) -> None:
    """Raise SessionError unless a setting is a whole number in its range; ``high`` None for no limit."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if low <= number and (high is None or number <= high):
            return
    limits = f"of at least {low}" if high is None else f"from {low} to {high}"
    raise SessionError(f"{name} must be a whole number {limits}, not {shown(value)}")


def duration(name: str, value: object) -> None:
    """Raise SessionError unless a setting is None or a time above zero."""
    if value is None or (isinstance(value, timedelta) and value > timedelta(0)):
        return
    raise SessionError(f"{name} must be a timedelta above zero, or None for never, not {shown(value)}")


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """How a circuit breaker reacts.

    Args:
        attempts: recoveries that may be begun before the next violation is final, at least 1.
        alpha: weight of a clean turn in the breaker's trust, in (0, 1].
        initial: the breaker's trust at the start, in [0, 1].
        target: trust at which a recovery has succeeded, in [0, 1].
        tolerance: how close to the target is enough, in [0, 1]. A steady F of 1 − target approaches the target
            for ever without reaching it; by default, half a hundredth is close enough.
        first_cut: what trust is multiplied by at a violation while NORMAL, in [0, 1).
        next_cut: what trust is multiplied by at a violation in any other phase, in [0, 1).

    Raises:
        SessionError: a value out of its range.
    """

    attempts: int = 3
    alpha: float = 0.3
    initial: float = 0.5
    target: float = 0.60
    tolerance: float = 0.005
    first_cut: float = 0.3
    next_cut: float = 0.5

    def __post_init__(self) -> None:
        whole("breaker attempts", self.attempts, 1)
        in_range("breaker alpha", self.alpha, 0.0, 1.0, above=True)
        in_range("breaker initial", self.initial, 0.0, 1.0)
        in_range("breaker target", self.target, 0.0, 1.0)
        in_range("breaker tolerance", self.tolerance, 0.0, 1.0)
        in_range("breaker first_cut", self.first_cut, 0.0, 1.0, below=True)
        in_range("breaker next_cut", self.next_cut, 0.0, 1.0, below=True)


@dataclass(frozen=True, slots=True)
class BoundarySettings:
    """When a session counts as testing its boundaries; see `boundary_testing`.

    Args:
        breakers: breakers at which the first rule is met, at least 1; at most 10 where `recent`.
        recent: whether breakers and refusals are counted over the last 10 turns (so that an old bad turn is
            forgotten), or over the whole session.
        F_limit: F above which a turn is bad, in [0, 1].
        bad_turns: bad turns at which the second rule is met, 1 to 5.
        F_window: evaluated turns that the second rule looks back on, `bad_turns` to 5.
        F_full: whether the second rule waits until it has that many turns.
        fall: mean fall of balance per turn beyond which the third rule is met, above 0, at most 2.
        fall_window: changes of balance in that mean, 1 to 10; it waits until it has them.
        refusal_share: share of refused turns above which the fourth rule is met, in (0, 1).
        refusal_turns: turns before which the fourth rule is silent, at least 1; at most 10 where `recent`.
        trust_below: trust below which the first tuning option is met; None to leave that option out.
        weak_signals: how many of the four weak signals of the second tuning option are needed, 1 to 4, or None.

    Raises:
        SessionError: a value out of its range.
    """

    breakers: int = 3
    recent: bool = True
    F_limit: float = 0.6
    bad_turns: int = 3
    F_window: int = 5
    F_full: bool = False
    fall: float = 0.3
    fall_window: int = 5
    refusal_share: float = 0.4
    refusal_turns: int = 10
    trust_below: float | None = None
    weak_signals: int | None = None

    def __post_init__(self) -> None:
        whole("breakers", self.breakers, 1, HISTORY if self.recent else None)
        in_range("F_limit", self.F_limit, 0.0, 1.0)
        whole("bad_turns", self.bad_turns, 1, F_HISTORY)
        whole("F_window", self.F_window, self.bad_turns, F_HISTORY)
        in_range("fall", self.fall, 0.0, 2.0, above=True)
        whole("fall_window", self.fall_window, 1, HISTORY)
        in_range("refusal_share", self.refusal_share, 0.0, 1.0, above=True, below=True)
        whole("refusal_turns", self.refusal_turns, 1, HISTORY if self.recent else None)
        if self.trust_below is not None:
            in_range("trust_below", self.trust_below, 0.0, 1.0)
        if self.weak_signals is not None:
            whole("weak_signals", self.weak_signals, 1, 4)


@dataclass(frozen=True, slots=True)
class TrajectorySettings:
    """When a session counts as improving or degrading.

    Args:
        rules: ``"corrected"`` compares a quick average of F with a slow one; ``"original"`` compares trust with
            1 − F of the first turn.
        change: difference beyond which it is a change, in (0, 1).
        min_turns: turns before which a session is stable, 1 to 10.
        fast: weight of a turn in the quick average, in (0, 1].
        slow: weight of a turn in the slow average, in (0, fast).
        F_calm: quick average of F up to which a session may read improving, in [0, 1].

    Raises:
        SessionError: a value out of its range.
        UnknownNameError: no rules have that name.
    """

    rules: str = "corrected"
    change: float = 0.2
    min_turns: int = 3
    fast: float = 0.5
    slow: float = 0.1
    F_calm: float = 0.4

    def __post_init__(self) -> None:
        if self.rules not in RULES:
            raise UnknownNameError("rules of trajectory and stance", str(self.rules), RULES)
        in_range("change", self.change, 0.0, 1.0, above=True, below=True)
        whole("min_turns", self.min_turns, 1, HISTORY)
        in_range("fast", self.fast, 0.0, 1.0, above=True)
        in_range("slow", self.slow, 0.0, self.fast, above=True, below=True)
        in_range("F_calm", self.F_calm, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class EvidenceSettings:
    """When F adds up over turns, and how long what speaks against a person lasts.

    F is on the scale of the session memory, where a breach begins above 0.65.

    Args:
        drift: F that an ordinary turn may have before it adds up, in [0, 1].
        limit: sum from which a session is guarded, above 0, at most 100; from twice that a turn that adds to it is
            a violation for the circuit breaker, and for a person with a strike from the sum itself.
        near: F from which a turn counts as a near miss, in [0, 1].
        half_life: time after which incidents weigh half, above 0; None for never.
        held: strikes from which all turns of a person are refused until enough have faded, 1 to 10.

    Raises:
        SessionError: a value out of its range.
    """

    drift: float = 0.1
    limit: float = 2.0
    near: float = 0.52
    half_life: timedelta | None = timedelta(days=14)
    held: int = 5

    def __post_init__(self) -> None:
        in_range("evidence drift", self.drift, 0.0, 1.0)
        in_range("evidence limit", self.limit, 0.0, 100.0, above=True)
        in_range("evidence near", self.near, 0.0, 1.0)
        duration("evidence half_life", self.half_life)
        whole("evidence held", self.held, 1, 10)


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Everything that may be set of the session memory. `turnwise.sessions.preset` gives the named ones.

    Args:
        alpha: weight of a turn in the trust EMA, in (0, 1].
        initial: trust before the first turn, in [0, 1].
        low: trust below which a stance is guarded, in [0, 1].
        high: trust from which a stance may be normal, in [low, 1].
        boundary: when a session counts as testing its boundaries.
        trajectory: when it counts as improving or degrading.
        breaker: how its circuit breaker reacts.
        evidence: what adds up over turns and conversations; None for nothing.
        half_life: time without a turn after which trust is half as far from `initial`; None for never.
        expires_after: time without a turn after which a session begins anew; None for never. A terminated session
            does not expire.

    Raises:
        SessionError: a value out of its range.
    """

    alpha: float = 0.3
    initial: float = 0.5
    low: float = 0.4
    high: float = 0.6
    boundary: BoundarySettings = field(default_factory=BoundarySettings)
    trajectory: TrajectorySettings = field(default_factory=TrajectorySettings)
    breaker: BreakerSettings = field(default_factory=BreakerSettings)
    evidence: EvidenceSettings | None = field(default_factory=EvidenceSettings)
    half_life: timedelta | None = timedelta(days=7)
    expires_after: timedelta | None = timedelta(days=30)

    def __post_init__(self) -> None:
        in_range("alpha", self.alpha, 0.0, 1.0, above=True)
        in_range("initial", self.initial, 0.0, 1.0)
        in_range("low", self.low, 0.0, 1.0)
        in_range("high", self.high, self.low, 1.0)
        duration("half_life", self.half_life)
        duration("expires_after", self.expires_after)
        for name, kind in (
            ("boundary", BoundarySettings),
            ("trajectory", TrajectorySettings),
            ("breaker", BreakerSettings),
        ):
            if not isinstance(getattr(self, name), kind):
                raise SessionError(f"{name} must be {kind.__name__}(...), not {getattr(self, name)!r}")
        if not isinstance(self.evidence, EvidenceSettings | None):
            raise SessionError(f"evidence must be EvidenceSettings(...) or None, not {self.evidence!r}")


@dataclass(frozen=True, slots=True)
class PresetInfo:
    """A preset and what it is for."""

    name: str
    summary: str
    settings: SessionSettings


def presets() -> tuple[PresetInfo, ...]:
    """Return every preset, the default first."""
    boundary = BoundarySettings(recent=False, F_full=True)
    original = SessionSettings(
        boundary=boundary,
        trajectory=TrajectorySettings(rules="original"),
        evidence=None,
        half_life=None,
        expires_after=None,
    )
    return (
        PresetInfo(
            DEFAULT_PRESET,
            "Compares F with F, forgets old turns, lets good faith reach normal; evidence adds up.",
            SessionSettings(),
        ),
        PresetInfo("original", "The rules of the validation summary as they were.", original),
        PresetInfo(
            "trust_only",
            "Tuning option 1: original, and trust below 0.60 counts as boundary testing.",
            replace(original, boundary=replace(boundary, trust_below=0.60)),
        ),
        PresetInfo(
            "multi_signal",
            "Tuning option 2: original, and three of four weak signals count as boundary testing.",
            replace(original, boundary=replace(boundary, weak_signals=3)),
        ),
        PresetInfo(
            "short_windows",
            "Tuning option 3: original with 2 of the last 3 F and the last 2 changes of balance.",
            replace(original, boundary=replace(boundary, F_window=3, bad_turns=2, fall_window=2)),
        ),
    )


def preset(name: str = DEFAULT_PRESET) -> SessionSettings:
    """Return the settings of a preset.

    Args:
        name: ``default``, ``original``, ``trust_only``, ``multi_signal`` or ``short_windows``.

    Raises:
        UnknownNameError: no preset has that name.

    >>> preset("trust_only").boundary.trust_below
    0.6
    """
    found = {info.name: info.settings for info in presets()}
    if name not in found:
        raise UnknownNameError("session preset", name, found)
    return found[name]
