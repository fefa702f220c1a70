"""Numbers as the cells of a table show them, never a rate without its interval."""

from __future__ import annotations

import math

from turnwise.rates import Rate
from turnwise.study.bootstrap import Interval

NONE = "–"
"""Where there is no number."""


def rate_cell(rate: Rate) -> str:
    """Return a share in per cent with its interval.

    >>> rate_cell(Rate(3, 10)), rate_cell(Rate(0, 0))
    ('30.0 [6.7, 65.2]', '–')
    """
    if not rate.of:
        return NONE
    low, high = rate.interval
    return f"{100 * rate.count / rate.of:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def small_cell(rate: Rate, least: int) -> str:
    """Return a share with its interval, or the counts alone where they are too few for a percentage.

    >>> small_cell(Rate(3, 7), 10), small_cell(Rate(3, 10), 10)
    ('too few (3 of 7)', '30.0 [6.7, 65.2]')
    """
    if not rate.of:
        return NONE
    return rate_cell(rate) if rate.of >= least else f"too few ({rate.count} of {rate.of})"


def p_cell(p: float) -> str:
    """Return a p-value.

    >>> p_cell(0.04321), p_cell(3.2e-20), p_cell(1.0)
    ('0.043', '3.2e-20', '1.000')
    """
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"


def interval_cell(found: Interval | None, scale: float = 1.0, digits: int = 2, sign: bool = False) -> str:
    """Return a number with its interval."""
    if found is None or math.isnan(found.value):
        return NONE
    mark = "+" if sign else ""
    low, high = (f"{scale * end:{mark}.{digits}f}" for end in (found.low, found.high))
    return f"{scale * found.value:{mark}.{digits}f} [{low}, {high}]"
