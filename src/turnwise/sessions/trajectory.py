"""Where a session is heading: the original rule, and one that compares like with like."""

from __future__ import annotations

from enum import StrEnum

from turnwise.sessions.settings import TrajectorySettings
from turnwise.sessions.state import SessionState


class SessionTrajectory(StrEnum):
    """Where a session is heading. Hostile is a session that tests its boundaries, whatever its direction."""

    IMPROVING = "improving"
    STABLE = "stable"
    DEGRADING = "degrading"
    HOSTILE = "hostile"


# Looking a member up in its enum takes longer than what is done with it here.
_IMPROVING, _STABLE, _DEGRADING, _ = SessionTrajectory


def direction(state: SessionState, settings: TrajectorySettings) -> SessionTrajectory:
    """Return improving, stable or degrading; boundary testing is left aside.

    ``original``: trust − (1 − F of the first turn), beyond ±0.2. It sets an average that starts at 0.5 against the
    level of one turn. ``corrected``: slow average of F − quick average of F, beyond ±0.2, and improving only
    while the quick average is at most 0.4. Both are averages of the same F, so a session that stays as it is,
    good or bad, is stable, and one that is hostile throughout never improves. Either is stable under 3
    evaluated turns (the original counts all turns).

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
