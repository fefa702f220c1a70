"""The averages of a session. Each names its input: trust strength, F and 1 − F are different things."""

from __future__ import annotations

from datetime import timedelta


def trust_ema(trust: float, strength: float, alpha: float = 0.3) -> float:
    """Return trust after a turn: alpha·strength + (1 − alpha)·trust.

    Args:
        trust: trust before the turn, in [0, 1].
        strength: how far the turn speaks for trust, in [0, 1]; see `turnwise.scoring.trust_strength`.
        alpha: weight of the turn, in (0, 1].

    Source: the specification's session memory; the average is that of S. W. Roberts, "Control chart tests based
    on geometric moving averages", Technometrics 1 (1959).

    >>> round(trust_ema(trust=0.5, strength=1.0), 9)
    0.65
    >>> round(trust_ema(trust=0.65, strength=0.3), 9)
    0.545
    """
    return alpha * strength + (1.0 - alpha) * trust


def recovery_ema(trust: float, F: float, alpha: float = 0.3) -> float:
    """Return the trust of a circuit breaker after a clean turn: alpha·(1 − F) + (1 − alpha)·trust.

    Args:
        trust: the breaker's trust before the turn, in [0, 1]. It is not the session's trust.
        F: falsity of the turn, in [0, 1].
        alpha: weight of the turn, in (0, 1].

    >>> round(recovery_ema(trust=0.15, F=0.1), 3)
    0.375
    """
    return alpha * (1.0 - F) + (1.0 - alpha) * trust


def falsity_ema(average: float | None, F: float, alpha: float) -> float:
    """Return the moving average of F after a turn; the first F is its own average.

    Args:
        average: average before the turn, or None before the first.
        F: falsity of the turn, in [0, 1].
        alpha: weight of the turn, in (0, 1].

    >>> falsity_ema(None, F=0.2, alpha=0.5), falsity_ema(0.2, F=0.6, alpha=0.5)
    (0.2, 0.4)
    """
    return F if average is None else alpha * F + (1.0 - alpha) * average


def decayed(trust: float, initial: float, idle: timedelta, half_life: timedelta) -> float:
    """Return trust after a time without a turn: its distance from the start halves with each half-life.

    Args:
        trust: trust after the last turn, in [0, 1].
        initial: trust of a session that has just begun, in [0, 1].
        idle: time since the last turn, at least 0.
        half_life: time after which half the distance is left, above 0.

    >>> decayed(0.9, 0.5, idle=timedelta(days=2), half_life=timedelta(days=1))
    0.6
    """
    return float(initial + (trust - initial) * 0.5 ** (idle / half_life))
