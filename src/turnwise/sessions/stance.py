"""What a session amounts to: the rules that are read off its state, and the stance that follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from turnwise.scoring.score import HOSTILE_F
from turnwise.sessions.breaker import Phase
from turnwise.sessions.evidence import NO_EVIDENCE, Counted, counted
from turnwise.sessions.settings import HISTORY, BoundarySettings, SessionSettings, TrajectorySettings
from turnwise.sessions.state import SessionState

WEAK_TRUST = 0.60
"""Trust below which the first weak signal is given."""

WEAK_FALL = -0.3
"""Mean change of balance below which the third weak signal is given."""

WEAK_BALANCE = -0.5
"""Balance below which the fourth weak signal is given."""

HOSTILE = -0.5
"""Balance below which a turn is hostile."""

HEALED = 0.0
"""Balance from which a turn after friction counts as good again."""

MANY = 3
"""Separate frictions, within the last turns, that are a habit however well each of them heals."""


def weak_signals(trust: float, balances: Sequence[float], *, degrading: bool) -> int:
    """How many of the four weak signals are given, 0 to 4. Source: the validation summary, option 2.

    They are trust below 0.60, a degrading trajectory (boundary testing left aside), a mean change of balance below
    −0.3 over at least 2 changes, and a last balance below −0.5. ``balances`` are those of the last turns, at most
    11, oldest first.

    >>> weak_signals(0.55, (0.6, 0.0, -0.4), degrading=False)
    2
    """
    falling = len(balances) > 2 and mean_change(balances, len(balances) - 1) < WEAK_FALL
    low = bool(balances) and balances[-1] < WEAK_BALANCE
    return (trust < WEAK_TRUST) + degrading + falling + low


def mean_change(balances: Sequence[float], window: int) -> float:
    """The mean of the last `window` changes of balance, oldest first; 0.0 while there are fewer.

    >>> mean_change((0.75, -1.0, -1.0), 2)
    -0.875
    """
    return (balances[-1] - balances[-1 - window]) / window if len(balances) > window else 0.0


def boundary_testing(
    state: SessionState, settings: BoundarySettings, *, degrading: bool = False
) -> tuple[str, ...]:
    """Return the names of the rules that are met; none where nobody tests boundaries.

    Source: the specification's session memory; the tuning options: the validation summary.

    Args:
        state: the session.
        settings: the limits of the rules.
        degrading: whether the trajectory is degrading, boundary testing left aside; for the second tuning option.
    """
    turns, history, trust = state.interactions, state.F_history, state.trust
    met: list[str] = []
    # Over the last 10 turns a turn counts once; over the session every breaker counts by kind, as in the original.
    if (state.breaker_bits.bit_count() if settings.recent else sum(state.breakers)) >= settings.breakers:
        met.append("breakers")
    if len(history) >= (settings.F_window if settings.F_full else settings.bad_turns):
        bad = 0
        for F in history[-settings.F_window :]:
            bad += settings.F_limit < F
        if bad >= settings.bad_turns:
            met.append("bad_turns")
    if mean_change(state.balances, settings.fall_window) < -settings.fall:
        met.append("fall")
    if state.refusals and turns >= settings.refusal_turns:
        refused, of = state.refusals, turns
        if settings.recent:
            refused, of = state.refusal_bits.bit_count(), min(turns, HISTORY)
        if refused > settings.refusal_share * of:
            met.append("refusals")
    if settings.trust_below is not None and trust < settings.trust_below:
        met.append("trust")
    least = settings.weak_signals
    if least is not None and weak_signals(trust, state.balances, degrading=degrading) >= least:
        met.append("weak_signals")
    return tuple(met)


class Friction(StrEnum):
    """How hostile turns were answered.

    ``none``: there was none. ``open``: one hostile turn, and no good one after it yet. ``healed``: good turns
    followed. ``stays``: hostile turns in a row, hostile again, or again and again.
    """

    NONE = "none"
    OPEN = "open"
    HEALED = "healed"
    STAYS = "stays"


def friction(balances: Sequence[float]) -> Friction:
    """Return how the hostile turns among some turns were answered.

    A turn with balance below −0.5 is hostile; hostile turns without a good one (balance of at least 0) in between
    belong to one friction. Friction stays where one had two hostile turns and has not healed, another is under way
    after one that healed, or there were three.

    Args:
        balances: balance of the turns, in [−1, 1], oldest first.

    >>> friction([0.7, -1.0, 0.7]).value, friction([0.7, -1.0, -1.0]).value, friction([0.7, 0.7, -1.0]).value
    ('healed', 'stays', 'open')
    """
    if not balances or min(balances) >= HOSTILE:
        return Friction.NONE
    frictions = hostile = 0
    under_way = False
    for balance in balances:
        if balance < HOSTILE:
            frictions += not under_way
            hostile = hostile + 1 if under_way else 1
            under_way = True
        elif balance >= HEALED:
            under_way = False
    if frictions >= MANY or (under_way and (hostile > 1 or frictions > 1)):
        return Friction.STAYS
    return Friction.OPEN if under_way else Friction.HEALED


class SessionTrajectory(StrEnum):
    """Where a session is heading. A session that tests its boundaries is hostile, whatever its direction."""

    IMPROVING = "improving"
    STABLE = "stable"
    DEGRADING = "degrading"
    HOSTILE = "hostile"


def direction(state: SessionState, settings: TrajectorySettings) -> SessionTrajectory:
    """Return improving, stable or degrading; boundary testing is left aside.

    ``original``: trust − (1 − F of the first turn), beyond ±0.2. It compares an average that starts at 0.5 with
    the level of one turn. ``corrected``: slow average of F − quick average of F, beyond ±0.2, and improving only
    while the quick average is at most 0.4. Both are averages of the same F, so a session that stays as it is, good
    or bad, is stable, and one that is hostile throughout never improves. Either is stable under 3 evaluated turns
    (the original counts all turns).

    Args:
        state: the session.
        settings: which rule, and its limits.
    """
    if settings.rules == "original":
        if state.interactions < settings.min_turns or state.F_first is None:
            return _STABLE
        gain = state.trust - (1.0 - state.F_first)
        calm = True
    else:
        if len(state.balances) < settings.min_turns or state.F_fast is None or state.F_slow is None:
            return _STABLE
        gain = state.F_slow - state.F_fast
        calm = state.F_fast <= settings.F_calm
    if gain < -settings.change:
        return _DEGRADING
    return _IMPROVING if gain > settings.change and calm else _STABLE


class TrustLevel(StrEnum):
    """How far to trust a session."""

    HIGH = "high"
    MODERATE = "moderate"
    LOW = "low"
    ZERO = "zero"


class EngagementMode(StrEnum):
    """How to engage with a session."""

    NORMAL = "normal"
    CAUTIOUS = "cautious"
    GUARDED = "guarded"
    TERMINATED = "terminated"


_DAY, _NOTHING = timedelta(days=1), Counted()

_CAUTIOUS_FROM, _GUARDED_FROM = 2, 3
"""Strikes from which the mode is at least that, in every conversation of a person."""

# Looking a member up in its enum takes longer than what is done with it here.
_HIGH, _MODERATE, _LOW, _ZERO = TrustLevel
_NORMAL, _CAUTIOUS, _GUARDED, _TERMINATED = EngagementMode
_IMPROVING, _STABLE, _DEGRADING, _HOSTILE = SessionTrajectory
_STAYS = Friction.STAYS


@dataclass(frozen=True, slots=True)
class Stance:
    """The stance towards a session after a turn.

    Args:
        trust_level: how far to trust.
        mode: how to engage.
        trajectory: where the session is heading.
        boundary: names of the boundary rules that are met.
        friction: what became of hostile turns among the last 11.
        phase: where the circuit breaker stands.
        processing: whether the circuit breaker lets a turn be processed.
        trust: the session's trust, in [0, 1].
        interactions: turns so far.
        attempts: recoveries begun since the circuit breaker was last normal.
        restarted: whether the session had expired and began anew with this turn.
        alarms: turns of the last 10 that broke trust.
        strikes: incidents of the session and its person that still count, to the nearest whole number.
        counted: what adds up; `evidence` has it in words.
    """

    trust_level: TrustLevel
    mode: EngagementMode
    trajectory: SessionTrajectory
    boundary: tuple[str, ...]
    friction: Friction
    phase: Phase
    processing: bool
    trust: float
    interactions: int
    attempts: int
    restarted: bool = False
    alarms: int = 0
    strikes: int = 0
    counted: Counted = _NOTHING

    @property
    def evidence(self) -> str:
        """What adds up over turns and conversations, in words; empty for nothing."""
        return self.counted.words

    @property
    def rationale(self) -> str:
        """Why, in words that can be checked against the state."""
        turns = "turn" if self.interactions == 1 else "turns"
        parts = [f"trust {self.trust:.3f} after {self.interactions} {turns}, {self.trajectory}"]
        if self.evidence:
            escalated = self.mode in (_GUARDED, _TERMINATED)
            parts.append(f"escalated: {self.evidence}" if escalated else f"on record: {self.evidence}")
        if self.boundary:
            parts.append(f"boundary testing by {', '.join(self.boundary)}")
        if self.friction is not Friction.NONE:
            parts.append(f"friction {self.friction}")
        if self.phase is not Phase.NORMAL:
            phase = f"in recovery, attempt {self.attempts}" if self.phase is Phase.RECOVERY else str(self.phase)
            parts.append(f"circuit breaker {phase}")
        if self.restarted:
            parts.append("began anew after it had expired")
        return "; ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the stance as JSON values, its rationale among them."""
        return {
            "trust_level": str(self.trust_level),
            "mode": str(self.mode),
            "trajectory": str(self.trajectory),
            "boundary": list(self.boundary),
            "friction": str(self.friction),
            "phase": str(self.phase),
            "processing": self.processing,
            "trust": self.trust,
            "interactions": self.interactions,
            "attempts": self.attempts,
            "restarted": self.restarted,
            "alarms": self.alarms,
            "strikes": self.strikes,
            "counted": list(self.counted),
            "evidence": self.evidence,
            "rationale": self.rationale,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Stance:
        """Return the stance that `to_dict` gave.

        Raises:
            KeyError, TypeError, ValueError: it can't be read.
        """
        return cls(
            TrustLevel(data["trust_level"]),
            EngagementMode(data["mode"]),
            SessionTrajectory(data["trajectory"]),
            tuple(data["boundary"]),
            Friction(data["friction"]),
            Phase(data["phase"]),
            bool(data["processing"]),
            float(data["trust"]),
            int(data["interactions"]),
            int(data["attempts"]),
            bool(data["restarted"]),
            int(data["alarms"]),
            int(data["strikes"]),
            Counted(*data["counted"]),
        )


def assess(
    state: SessionState, settings: SessionSettings, point: float = HOSTILE_F, *, restarted: bool = False
) -> Stance:
    """Return the stance towards a session. Pure: the state says everything.

    Args:
        state: the session after a turn.
        settings: which rules.
        point: F of the observer that is a breach, in (0, 1], for the words.
        restarted: whether the session had expired and began anew.
    """
    heading = direction(state, settings.trajectory)
    met = boundary_testing(state, settings.boundary, degrading=heading is _DEGRADING)
    if met:
        heading = _HOSTILE
    became = friction(state.balances)
    breaker = state.breaker
    processing = breaker.phase is Phase.NORMAL
    if not processing and state.terminated:
        mode, level = _TERMINATED, _ZERO
    elif settings.trajectory.rules == "original":
        mode, level = original_stance(state.trust, heading, low=settings.low, high=settings.high)
    else:
        mode, level = _corrected(state, settings, heading, became, processing=processing)
    rules, evidence, strikes, told = settings.evidence, state.evidence, 0, _NOTHING
    if rules is not None and evidence is not NO_EVIDENCE:
        strikes = evidence.strikes
        if strikes or evidence.cusum >= rules.limit:
            told = counted(evidence, rules, (state.last_at - state.started_at) / _DAY, point)
        if strikes >= rules.held:
            mode, level = _TERMINATED, _ZERO
        elif mode in (_NORMAL, _CAUTIOUS) and (strikes >= _GUARDED_FROM or evidence.cusum >= rules.limit):
            mode = _GUARDED
        elif mode is _NORMAL and strikes >= _CAUTIOUS_FROM:
            mode = _CAUTIOUS
    return Stance(
        level,
        mode,
        heading,
        met,
        became,
        breaker.phase,
        processing,
        state.trust,
        state.interactions,
        breaker.attempts,
        restarted,
        state.breaker_bits.bit_count(),
        strikes,
        told,
    )


def original_stance(
    trust: float, trajectory: SessionTrajectory, *, low: float = 0.4, high: float = 0.6
) -> tuple[EngagementMode, TrustLevel]:
    """Mode and trust level by the original rules; only improving with trust of 0.6 or more is normal.

    >>> original_stance(0.97, SessionTrajectory.STABLE)[0].value
    'cautious'
    """
    if trajectory is _HOSTILE:
        return _TERMINATED, _ZERO
    if trajectory is _DEGRADING or trust < low:
        return _GUARDED, _LOW
    if trajectory is _STABLE or trust < high:
        return _CAUTIOUS, _MODERATE
    return _NORMAL, _HIGH


def _corrected(
    state: SessionState,
    settings: SessionSettings,
    heading: SessionTrajectory,
    became: Friction,
    *,
    processing: bool,
) -> tuple[EngagementMode, TrustLevel]:
    if state.trust < settings.low:
        return _GUARDED, _LOW
    level = _HIGH if state.trust >= settings.high else _MODERATE
    if heading in (_DEGRADING, _HOSTILE) or became is _STAYS or not processing:
        return _GUARDED, level
    if level is _MODERATE or len(state.balances) < settings.trajectory.min_turns:
        return _CAUTIOUS, level
    return _NORMAL, level
