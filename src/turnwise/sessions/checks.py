"""Checks of settings, with one wording for all of them."""

from __future__ import annotations

from datetime import timedelta
from numbers import Integral, Real
from typing import Any

from turnwise.errors import SessionError
from turnwise.visible import shown


def in_range(
    name: str, value: object, low: float, high: float, *, above: bool = False, below: bool = False
) -> None:
    """Refuse a setting that is no number in its range.

    Args:
        name: what the setting is called.
        value: what was given.
        low: least value allowed, finite.
        high: greatest value allowed, finite.
        above: whether `low` itself is not allowed.
        below: whether `high` itself is not allowed.

    Raises:
        SessionError: no number, not finite or out of range.

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
    """Refuse a setting that is no whole number in its range.

    Args:
        name: what the setting is called.
        value: what was given.
        low: least value allowed.
        high: greatest value allowed, or None.

    Raises:
        SessionError: no whole number, or out of range.
    """
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if low <= number and (high is None or number <= high):
            return
    limits = f"of at least {low}" if high is None else f"from {low} to {high}"
    raise SessionError(f"{name} must be a whole number {limits}, not {shown(value)}")


def duration(name: str, value: object) -> None:
    """Refuse a setting that is neither None nor a time above zero.

    Raises:
        SessionError: no `timedelta`, or not above zero.
    """
    if value is None or (isinstance(value, timedelta) and value > timedelta(0)):
        return
    raise SessionError(f"{name} must be a timedelta above zero, or None for never, not {shown(value)}")
