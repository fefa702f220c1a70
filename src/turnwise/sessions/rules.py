"""What the rules read off a session: does it test its boundaries, does friction heal, and where is it heading?"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from turnwise.sessions.settings import HISTORY, BoundarySettings, TrajectorySettings
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
    """The mean of the last ``window`` changes of balance, oldest first; 0.0 while there are fewer.

    The changes between turns add up to the change over all of them, so two balances are enough.

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


# Looking a member up in its enum takes longer than what is done with it here.
_IMPROVING, _STABLE, _DEGRADING, _ = SessionTrajectory


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
