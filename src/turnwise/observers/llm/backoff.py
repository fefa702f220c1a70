"""How long to wait before a request is sent again."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FIRST = 0.5
"""Seconds before the first retry; each later one doubles it."""

LONGEST = 60.0
"""Seconds that the doubling ends at."""

PATIENCE = 900.0
"""Seconds that a provider may ask to wait; after a longer demand the call is given up."""

_DIGITS = 12
"""Digits of a number of seconds that is taken as one, before the point and after it."""


def delay(retry: int, asked: float | None, jitter: float) -> float:
    """Return the seconds to wait before a retry: exponential, spread at random, never less than was asked for.

    Args:
        retry: which retry it is, from 1.
        asked: seconds that the provider asks for; None where it does not.
        jitter: a random number in [0, 1); spreads callers that failed together over half of the wait.

    >>> delay(1, None, 0.0), delay(3, None, 1.0), delay(3, 7.0, 0.0)
    (0.25, 2.0, 7.0)
    """
    step = min(FIRST * 2.0 ** min(retry - 1, 30), LONGEST)
    own = step * (0.5 + jitter / 2)
    # Those who were told the same moment should not all come back in it.
    return own if asked is None else max(own, asked + jitter * min(asked, 1.0) / 4)


def retry_after(seconds: str | None, milliseconds: str | None, now: datetime) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for, or None where it says nothing that can be read.

    Args:
        seconds: the header, a number of seconds or an HTTP date (RFC 9110, section 10.2.3).
        milliseconds: the header ``retry-after-ms``, which some providers send as well; it is the more exact one.
        now: the present time.

    >>> retry_after("2", None, datetime(2025, 1, 1, tzinfo=UTC))
    2.0
    >>> retry_after("Wed, 01 Jan 2025 00:00:30 GMT", None, datetime(2025, 1, 1, tzinfo=UTC))
    30.0
    """
    for text, unit in ((milliseconds, 1000.0), (seconds, 1.0)):
        number = (text or "").strip()
        if _is_number(number):
            return float(number) / unit
    if seconds is None:
        return None
    try:
        at = parsedate_to_datetime(seconds)
    except (ValueError, OverflowError):  # a year or an offset beyond what a date can hold
        return None
    wait = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
    return max(0.0, wait) if math.isfinite(wait) else None


def _is_number(text: str) -> bool:
    """Return whether a text is a number of at most twelve digits, with or without as many decimals."""
    whole, point, decimals = text.partition(".")
    parts = (whole, decimals) if point else (whole,)
    return all(part.isdecimal() and len(part) <= _DIGITS for part in parts)
