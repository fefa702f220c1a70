"""Proportions that never go without their exact interval. Pure, so that the demo needs no statistics library."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from turnwise.errors import UsageError


@dataclass(frozen=True, slots=True)
class Rate:
    """A proportion that never goes without its interval.

    Args:
        count: how many had the property, 0 to `of`.
        of: how many there were, at least 0.
        confidence: two-sided confidence of the interval, in (0, 1).

    >>> str(Rate(0, 50))
    '0/50 = 0.0 % [0.0, 7.1]'
    """

    count: int
    of: int
    confidence: float = 0.95

    def __str__(self) -> str:
        if not self.of:
            return "0/0"
        low, high = self.interval
        return f"{self.count}/{self.of} = {100 * self.count / self.of:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"

    @property
    def interval(self) -> tuple[float, float]:
        """The Clopper-Pearson interval, in [0, 1]."""
        return clopper_pearson(self.count, self.of, self.confidence)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"count": self.count, "of": self.of, "interval": list(self.interval)}


def rates_by_label(fired: Iterable[tuple[str, bool]]) -> dict[str, Rate]:
    """Return the share that fired by label; a label that does not occur is absent.

    Args:
        fired: label of each conversation, and whether something fired.

    >>> {label: str(rate) for label, rate in rates_by_label([("attack", True), ("attack", False)]).items()}
    {'attack': '1/2 = 50.0 % [1.3, 98.7]'}
    """
    found: dict[str, list[bool]] = {}
    for label, one in fired:
        found.setdefault(label, []).append(one)
    return {label: Rate(sum(those), len(those)) for label, those in found.items()}


def clopper_pearson(count: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact two-sided interval of a proportion (Clopper and Pearson, 1934).

    Args:
        count: successes, 0 to `of`.
        of: trials, at least 0; without trials the interval is (0, 1).
        confidence: in (0, 1).

    Raises:
        UsageError: an argument outside its range.

    >>> low, high = clopper_pearson(0, 50)
    >>> low, round(high, 4)
    (0.0, 0.0711)
    """
    _check(count, of, confidence)
    tail = (1 - confidence) / 2
    low = 0.0 if count == 0 else _beta_quantile(tail, count, of - count + 1)
    high = 1.0 if count == of else _beta_quantile(1 - tail, count + 1, of - count)
    return low, high


def _check(count: int, of: int, confidence: float) -> None:
    if not 0 <= count <= of:
        raise UsageError(f"{count} successes in {of} trials: the count must lie between 0 and the trials")
    if not 0 < confidence < 1:
        raise UsageError(f"confidence must lie in (0, 1), not {confidence}")


@functools.lru_cache(maxsize=4096)  # a report shows the same rates in many places
def _beta_quantile(probability: float, a: int, b: int) -> float:
    """The x with I_x(a, b) = probability, by bisection down to neighbouring floats."""
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        if _beta_cdf(middle, a, b) < probability:
            low = middle
        else:
            high = middle
    return high


def _beta_cdf(x: float, a: int, b: int) -> float:
    """The regularised incomplete beta function, by its continued fraction (Abramowitz and Stegun, 26.5.8)."""
    # It converges fast below the mean; for the rest there is the symmetry I_x(a, b) = 1 − I_{1−x}(b, a).
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_cdf(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or tiny)
    fraction = d
    for m in range(1, 10_000):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + numerator * d or tiny)
            c = 1 + numerator / c or tiny
            fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * fraction / a
