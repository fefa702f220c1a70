"""The values of a detector's parameters among which a search looks, the threshold apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from turnwise.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class Between:
    """Numbers of a range.

    Args:
        low: least value.
        high: greatest value.
        whole: whole numbers only.
        log: even on the logarithmic scale.
    """

    low: float
    high: float
    whole: bool = False
    log: bool = False

    def holds(self, value: Any) -> bool:
        """Return whether a value is one of them."""
        return isinstance(value, int | float) and self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class OneOf:
    """Values from a list.

    Args:
        values: numbers, or None where a parameter may be left out.
    """

    values: tuple[float | None, ...]

    def holds(self, value: Any) -> bool:
        """Return whether a value is one of them."""
        return value in self.values


Space = Mapping[str, Between | OneOf]
"""What a search looks among, by parameter."""

SPACES: Mapping[str, Space] = {
    "boundary_testing": {
        "breakers": Between(1, 4, whole=True),
        "bad": Between(1, 4, whole=True),
        "fall": Between(0.05, 1.0),
        "window": Between(4, 10, whole=True),
    },
    "count_flags": {"flag": Between(0.05, 0.95)},
    "cusum": {"drift": Between(0.0, 1.0)},
    # Only the ratio of its two limits matters once its threshold is calibrated, so one of them stays.
    "f_ema": {"alpha": Between(0.05, 1.0), "slope_limit": Between(0.02, 2.0, log=True)},
    "hmm": {
        "enter": Between(0.001, 0.5, log=True),
        "leave": Between(0.001, 0.5, log=True),
        "start_bad": Between(0.001, 0.5, log=True),
    },
    "page_hinkley": {"drift": Between(0.0, 0.3)},
    "peak_accumulation": {
        "share": Between(0.0, 2.0),
        "rise": Between(0.0, 1.0),
        "positive": Between(0.05, 0.95),
    },
    "slope": {"window": OneOf((None, 4, 5, 6, 8, 10)), "min_turns": Between(2, 4, whole=True)},
    "sprt": {"lower": Between(-8.0, -0.1)},
    "trust_ema": {"alpha": Between(0.05, 1.0), "initial": Between(0.0, 1.0)},
}
"""Every detector that has something to search for, and what. Densities and weights are fitted, not searched."""


def space_of(name: str) -> Space:
    """Return what a search looks among for a detector.

    Args:
        name: of the detector.

    Raises:
        UnknownNameError: nothing of it is searched; the message names those of which something is.

    >>> space_of("cusum")
    {'drift': Between(low=0.0, high=1.0, whole=False, log=False)}
    """
    if name not in SPACES:
        raise UnknownNameError("detector with parameters to search", name, SPACES)
    return SPACES[name]
