"""Numbers as the tables and texts of a report show them."""

from __future__ import annotations

import math
from typing import Any

from turnwise.rates import Rate
from turnwise.study.stats.bootstrap import Difference, Interval

NONE = "–"
"""Where there is no number."""


def rate_cell(rate: Rate) -> str:
    """A share in per cent with its interval.

    >>> rate_cell(Rate(3, 10)), rate_cell(Rate(0, 0))
    ('30.0 [6.7, 65.2]', '–')
    """
    if not rate.of:
        return NONE
    low, high = rate.interval
    return f"{100 * rate.count / rate.of:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def small_cell(rate: Rate, least: int) -> str:
    """A share with its interval, or the counts alone where they are too few for a percentage.

    >>> small_cell(Rate(3, 7), 10), small_cell(Rate(3, 10), 10)
    ('too few (3 of 7)', '30.0 [6.7, 65.2]')
    """
    if not rate.of:
        return NONE
    return rate_cell(rate) if rate.of >= least else f"too few ({rate.count} of {rate.of})"


def p_cell(p: float) -> str:
    """A p-value.

    >>> p_cell(0.04321), p_cell(3.2e-20), p_cell(1.0)
    ('0.043', '3.2e-20', '1.000')
    """
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"


def interval_cell(
    found: Interval | Difference | None, scale: float = 1.0, digits: int = 2, sign: bool = False
) -> str:
    """A number with its interval."""
    if found is None or math.isnan(found.value):
        return NONE
    mark = "+" if sign else ""
    low, high = (f"{scale * end:{mark}.{digits}f}" for end in (found.low, found.high))
    return f"{scale * found.value:{mark}.{digits}f} [{low}, {high}]"


def points(value: float) -> str:
    """A difference of rates in percentage points.

    >>> points(0.0312), points(float("nan"))
    ('+3.1', '–')
    """
    return NONE if math.isnan(value) else f"{100 * value:+.1f}"


def share(value: float) -> str:
    """A share in per cent, without decimals.

    >>> share(0.876)
    '88'
    """
    return NONE if math.isnan(value) else f"{100 * value:.0f}"


def difference_cell(found: Difference, scale: float, digits: int) -> str:
    """A difference of two arms with its interval, and its p where it has one."""
    text = interval_cell(found, scale, digits, sign=True)
    return text if found.p is None or text == NONE else f"{text}, p {p_cell(found.p)}"


def range_cell(low: float, high: float) -> str:
    """A number, or where there are several the lowest and the highest.

    >>> range_cell(0.5, 0.5), range_cell(0.25, 0.5)
    ('0.5', '0.25 to 0.5')
    """
    least, most = f"{low:.4g}", f"{high:.4g}"
    return least if least == most else f"{least} to {most}"


def alone_cell(found: Any) -> str:
    """What the first alone flagged, and the second alone."""
    return f"{found.a_alone} : {found.b_alone}"


def points_cell(found: Interval | Difference | None) -> str:
    """A difference of rates in percentage points, with its interval."""
    return interval_cell(found, 100, 1, sign=True)
