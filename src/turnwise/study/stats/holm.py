"""Holm's correction of the p-values of tests that are made together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from turnwise.errors import UsageError

T = TypeVar("T", bound=Any)  # a dataclass with p and p_holm


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return the adjusted p-values of a family of tests, in their given order.

    Rejecting what is below a level keeps the probability of any false rejection at or below that level, whatever
    the dependence between the tests. Source: S. Holm, "A simple sequentially rejective multiple test procedure",
    Scandinavian Journal of Statistics 6 (1979).

    Args:
        p_values: each in [0, 1].

    Raises:
        UsageError: a value outside [0, 1].

    >>> holm([0.01, 0.04, 0.03])
    (0.03, 0.06, 0.06)
    """
    for value in p_values:
        if not 0 <= value <= 1:
            raise UsageError(f"a p-value must lie in [0, 1], not {value}")
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return tuple(adjusted)


def holm_corrected(tests: Sequence[T]) -> tuple[T, ...]:
    """A family of tests with `p_holm`, Holm's correction of `p`, or of `p_group` where that is larger."""
    adjusted = holm([max(test.p, getattr(test, "p_group", test.p)) for test in tests])
    return tuple(replace(test, p_holm=p) for test, p in zip(tests, adjusted, strict=True))
