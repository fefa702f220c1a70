"""What a session's memory amounts to: how far to trust, how to engage, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from turnwise.scoring.score import HOSTILE_F
from turnwise.sessions.breaker import Phase
from turnwise.sessions.evidence import NO_EVIDENCE, Counted, counted
from turnwise.sessions.rules import Friction, SessionTrajectory, boundary_testing, direction, friction
from turnwise.sessions.settings import SessionSettings
from turnwise.sessions.state import SessionState


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

_BAD = (SessionTrajectory.DEGRADING, SessionTrajectory.HOSTILE)

# Looking a member up in its enum takes longer than what is done with it here.
_HIGH, _MODERATE, _LOW, _ZERO = TrustLevel
_NORMAL, _CAUTIOUS, _GUARDED, _TERMINATED = EngagementMode
_STAYS, _DEGRADING = Friction.STAYS, SessionTrajectory.DEGRADING


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
        heading = SessionTrajectory.HOSTILE
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
    """Mode and trust level by the original rules.

    Hostile is terminated; degrading, or trust below 0.4, is guarded; stable, or trust below 0.6, is cautious; only
    improving with trust of 0.6 or more is normal.

    >>> original_stance(0.97, SessionTrajectory.STABLE)[0].value
    'cautious'
    """
    if trajectory is SessionTrajectory.HOSTILE:
        return EngagementMode.TERMINATED, TrustLevel.ZERO
    if trajectory is SessionTrajectory.DEGRADING or trust < low:
        return EngagementMode.GUARDED, TrustLevel.LOW
    if trajectory is SessionTrajectory.STABLE or trust < high:
        return EngagementMode.CAUTIOUS, TrustLevel.MODERATE
    return EngagementMode.NORMAL, TrustLevel.HIGH


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
    if heading in _BAD or became is _STAYS or not processing:
        return _GUARDED, level
    if level is _MODERATE or len(state.balances) < settings.trajectory.min_turns:
        return _CAUTIOUS, level
    return _NORMAL, level
