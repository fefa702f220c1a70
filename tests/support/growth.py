"""Whether the time that a text takes grows with its length, and no faster."""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable
from typing import TypeVar

Given = TypeVar("Given")

FACTOR = 30
"""How many times as long a text of ten times the length may take; quadratic time would be 100."""

FLOOR = 0.002
"""Seconds below which a time tells nothing."""


def grows_linearly(work: Callable[[str], object], unit: str, *, most: int = 1_000_000) -> bool:
    """Return whether work on a text takes about ten times as long as on a tenth of it."""
    tenth = unit * (most // 10 // len(unit))
    return takes_ten_times(work, tenth, tenth * 10)


def takes_ten_times(work: Callable[[Given], object], tenth: Given, whole: Given) -> bool:
    """Return whether work takes about ten times as long on something as on a tenth of it."""
    return _seconds(work, whole) <= FACTOR * max(FLOOR, _seconds(work, tenth))


def _seconds(work: Callable[[Given], object], given: Given) -> float:
    # Unlike a plain difference of times this leaves out the garbage of other tests.
    return timeit.timeit(lambda: work(given), timer=time.process_time, number=1)
