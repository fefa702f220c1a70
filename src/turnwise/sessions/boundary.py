"""Boundary testing: does someone try again and again where the limits are? Each rule on its own, and any."""

from __future__ import annotations

from collections.abc import Sequence

from turnwise.sessions.settings import BoundarySettings
from turnwise.sessions.state import HISTORY, SessionState

WEAK_TRUST = 0.60
"""Trust below which the first weak signal is given."""

WEAK_FALL = -0.3
"""Mean change of balance below which the third weak signal is given."""

WEAK_BALANCE = -0.5
"""Balance below which the fourth weak signal is given."""


def breakers_met(state: SessionState, settings: BoundarySettings) -> bool:
    """Return whether there were enough breakers, in the last 10 turns or the whole session.

    Over the whole session every breaker counts by kind, as in the original; over the last 10 turns a turn counts
    once.
    """
    found = state.breaker_bits.bit_count() if settings.recent else sum(state.breakers)
    return found >= settings.breakers


def bad_turns_met(state: SessionState, settings: BoundarySettings) -> bool:
    """Return whether enough of the last turns were bad: by default 3 of 5 with F > 0.6."""
    history = state.F_history
    if len(history) < (settings.F_window if settings.F_full else settings.bad_turns):
        return False
    limit = settings.F_limit
    return len([F for F in history[-settings.F_window :] if limit < F]) >= settings.bad_turns


def fall_met(state: SessionState, settings: BoundarySettings) -> bool:
    """Return whether balance fell by more than 0.3 a turn in the mean over the last 5 changes, by default."""
    return mean_change(state.balances, settings.fall_window) < -settings.fall


def refusals_met(state: SessionState, settings: BoundarySettings) -> bool:
    """Return whether more than 40 % of the turns were refused, once there are 10, by default."""
    turns = state.interactions
    if turns < settings.refusal_turns or not state.refusals:
        return False
    if settings.recent:
        return state.refusal_bits.bit_count() > settings.refusal_share * min(turns, HISTORY)
    return state.refusals > settings.refusal_share * turns


def trust_met(state: SessionState, settings: BoundarySettings) -> bool:
    """Return whether trust is below the limit of the first tuning option; False without the option."""
    return settings.trust_below is not None and state.trust < settings.trust_below


def weak_signals_met(state: SessionState, settings: BoundarySettings, *, degrading: bool) -> bool:
    """Return whether enough weak signals of the second tuning option are given; False without the option."""
    if settings.weak_signals is None:
        return False
    found = weak_signals(state.trust, state.balances, degrading=degrading)
    return found >= settings.weak_signals


def weak_signals(trust: float, balances: Sequence[float], *, degrading: bool) -> int:
    """Return how many of the four weak signals are given, 0 to 4. Source: the validation summary, option 2.

    Args:
        trust: the session's trust; below 0.60 counts.
        balances: balance of the last turns, at most 11, oldest first; a mean change below −0.3 over at least 2
            changes counts, and a last balance below −0.5.
        degrading: whether the trajectory is degrading, boundary testing left aside.

    >>> weak_signals(0.55, (0.6, 0.0, -0.4), degrading=False)
    2
    """
    falling = len(balances) > 2 and mean_change(balances, len(balances) - 1) < WEAK_FALL
    low = bool(balances) and balances[-1] < WEAK_BALANCE
    return (trust < WEAK_TRUST) + degrading + falling + low


def mean_change(balances: Sequence[float], window: int) -> float:
    """Return the mean of the last changes of balance; 0.0 while there are fewer than asked for.

    The changes between turns add up to the change over all of them, so two balances are enough.

    Args:
        balances: balance of the last turns, oldest first.
        window: changes in the mean, at least 1.

    >>> mean_change((0.75, -1.0, -1.0), 2)
    -0.875
    """
    return (balances[-1] - balances[-1 - window]) / window if len(balances) > window else 0.0


def boundary_testing(
    state: SessionState, settings: BoundarySettings, *, degrading: bool = False
) -> tuple[str, ...]:
    """Return the names of the rules that are met; none where nobody tests boundaries.

    Args:
        state: the session.
        settings: the limits of the rules.
        degrading: whether the trajectory is degrading, boundary testing left aside; the second tuning option asks.

    Source: the specification's session memory; the options: the validation summary.
    """
    met: list[str] = []
    if breakers_met(state, settings):
        met.append("breakers")
    if bad_turns_met(state, settings):
        met.append("bad_turns")
    if fall_met(state, settings):
        met.append("fall")
    if refusals_met(state, settings):
        met.append("refusals")
    if trust_met(state, settings):
        met.append("trust")
    if weak_signals_met(state, settings, degrading=degrading):
        met.append("weak_signals")
    return tuple(met)
