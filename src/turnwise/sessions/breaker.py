"""The circuit breaker of a session: one turn that breaks trust stops processing until trust is earned back.

NORMAL ──violation──► VIOLATED ──next turn──► RECOVERY ──trust reaches the target──► NORMAL
                         ▲                       │
                         └──────violation────────┤ attempts left
                                                 └──violation, none left──► TERMINATED
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from turnwise.sessions.settings import BreakerSettings


class Phase(StrEnum):
    """The phase of a circuit breaker."""

    NORMAL = "normal"
    VIOLATED = "violated"
    RECOVERY = "recovery"
    TERMINATED = "terminated"


# Looking a member up in its enum takes longer than what is done with it here.
_NORMAL, _VIOLATED, _RECOVERY, _TERMINATED = Phase


@dataclass(frozen=True, slots=True)
class BreakerState:
    """State of a circuit breaker.

    Args:
        phase: where it stands.
        attempts: recoveries begun since it was last NORMAL.
        trust: the breaker's own trust, in [0, 1]; the session's trust is another number.
        violations: violations so far, at least 0; never falls.
    """

    phase: Phase = Phase.NORMAL
    attempts: int = 0
    trust: float = 0.5
    violations: int = 0

    @property
    def processing(self) -> bool:
        """Whether turns may be processed: in NORMAL and nowhere else."""
        return self.phase is _NORMAL


DEFAULT_BREAKER = BreakerSettings()


def next_breaker(
    state: BreakerState,
    F: float,
    *,
    violation: bool,
    settings: BreakerSettings = DEFAULT_BREAKER,
    strikes: int = 0,
    held_open: bool = False,
) -> BreakerState:
    """Return the circuit breaker after a turn.

    While NORMAL and in RECOVERY a clean turn moves trust to alpha·(1 − F) + (1 − alpha)·trust. A violation
    multiplies it by `first_cut` (0.3) from NORMAL, else by `next_cut` (0.5). A turn that finds the breaker
    VIOLATED begins a recovery and is then judged in it. TERMINATED stays as it is. Source: the specification's
    circuit breaker.

    Args:
        state: the breaker before the turn.
        F: highest F of the turn, in [0, 1].
        violation: whether the turn is a breaker: F > 0.65, or a saturated context.
        settings: how it reacts.
        strikes: recoveries that are used up from the start, at least 0; with none left a violation is final.
        held_open: whether the breaker stays open after a clean turn, whatever the trust.

    >>> state = next_breaker(BreakerState(), F=0.9, violation=True)
    >>> state.phase.value, state.trust, state.processing
    ('violated', 0.15, False)
    >>> turns = 0
    >>> while not state.processing:
    ...     state, turns = next_breaker(state, F=0.1, violation=False), turns + 1
    >>> turns, round(state.trust, 3), state.attempts
    (3, 0.643, 0)
    """
    phase = state.phase
    if phase is _TERMINATED:
        return state
    if phase is _NORMAL:
        if violation:
            return BreakerState(
                _TERMINATED if strikes >= settings.attempts else _VIOLATED,
                state.attempts,
                state.trust * settings.first_cut,
                state.violations + 1,
            )
        trust = recovery_ema(state.trust, F, settings.alpha)
        return BreakerState(_NORMAL, state.attempts, trust, state.violations)
    attempts = state.attempts + (phase is _VIOLATED)
    if violation:
        spent = attempts + strikes >= settings.attempts
        return BreakerState(
            _TERMINATED if spent else _VIOLATED,
            attempts,
            state.trust * settings.next_cut,
            state.violations + 1,
        )
    trust = recovery_ema(state.trust, F, settings.alpha)
    if trust >= settings.target - settings.tolerance and not held_open:
        return BreakerState(_NORMAL, 0, trust, state.violations)
    return BreakerState(_RECOVERY, attempts, trust, state.violations)


def recovery_ema(trust: float, F: float, alpha: float = 0.3) -> float:
    """A circuit breaker's own trust, in [0, 1], after a clean turn: alpha·(1 − F) + (1 − alpha)·trust.

    >>> round(recovery_ema(trust=0.15, F=0.1), 3)
    0.375
    """
    return alpha * (1.0 - F) + (1.0 - alpha) * trust
