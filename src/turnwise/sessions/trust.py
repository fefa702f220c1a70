"""How trust and the averages of F move, with a turn and with time."""

from __future__ import annotations

from datetime import timedelta


def trust_ema(trust: float, strength: float, alpha: float = 0.3) -> float:
    """Trust after a turn, in [0, 1]: alpha·strength + (1 − alpha)·trust.

    Source: the specification's session memory; the average is that of S. W. Roberts, "Control chart tests based
    on geometric moving averages", Technometrics 1 (1959).

    >>> round(trust_ema(trust=0.5, strength=1.0), 9)
    0.65
    >>> round(trust_ema(trust=0.65, strength=0.3), 9)
    0.545
    """
    return alpha * strength + (1.0 - alpha) * trust


def falsity_ema(average: float | None, F: float, alpha: float) -> float:
    """The moving average of F after a turn; the first F is its own average.

    >>> falsity_ema(None, F=0.2, alpha=0.5), falsity_ema(0.2, F=0.6, alpha=0.5)
    (0.2, 0.4)
    """
    return F if average is None else alpha * F + (1.0 - alpha) * average


def decayed(trust: float, initial: float, idle: timedelta, half_life: timedelta) -> float:
    """Trust after a time without a turn: its distance from the initial trust halves with each half-life.

    >>> decayed(0.9, 0.5, idle=timedelta(days=2), half_life=timedelta(days=1))
    0.6
    """
    rested: float = initial + (trust - initial) * 0.5 ** (idle / half_life)
    return rested
