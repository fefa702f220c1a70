"""Likelihood-ratio detectors: how much likelier each F is on a bad turn than on a harmless one."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from turnwise.detectors.kit.base import ByPrinciple, number
from turnwise.errors import DetectorError

EDGE = 1e-3
"""F is moved this far from 0 and 1, where a beta density may vanish or be infinite."""

LARGEST = 4.0
"""Most that the logarithm of the ratio counts for in one turn, about 55 to 1: one turn is one piece of evidence,
however far it lies in the tail of a fitted density."""

_FEWEST = 10
_log, _log1p = math.log, math.log1p


class Densities(NamedTuple):
    """The logarithm of the ratio of two beta densities: on_log · log F + on_rest · log(1 - F) + constant.

    >>> terms = Densities.of(benign_a=1, benign_b=4, attack_a=1, attack_b=1)
    >>> terms.log_ratio(0.2) < 0 < terms.log_ratio(0.8)
    True
    """

    on_log: float
    on_rest: float
    constant: float

    @classmethod
    def of(cls, benign_a: float, benign_b: float, attack_a: float, attack_b: float) -> Densities:
        """The terms for a beta density of F on harmless turns and one on bad turns; all parameters are above 0."""
        constant = _log_beta(benign_a, benign_b) - _log_beta(attack_a, attack_b)
        return cls(attack_a - benign_a, attack_b - benign_b, constant)

    def log_ratio(self, F: float) -> float:
        """log(density of F on bad turns / density of F on harmless turns), within ±`LARGEST`; F in [0, 1]."""
        inside = EDGE if F < EDGE else 1.0 - EDGE if F > 1.0 - EDGE else F
        on_log, on_rest, constant = self
        ratio = on_log * _log(inside) + on_rest * _log1p(-inside) + constant
        return -LARGEST if ratio < -LARGEST else LARGEST if ratio > LARGEST else ratio


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def fit_beta(values: Collection[float]) -> tuple[float, float]:
    """The parameters of the beta density with the mean and variance of some values of F, each in [0, 1].

    The method of moments: a = m·c and b = (1 - m)·c with c = m(1 - m)/v - 1 (N. L. Johnson, S. Kotz and
    N. Balakrishnan, "Continuous Univariate Distributions", volume 2, 1995, chapter 25). `DetectorError` where
    there are fewer than 10 values, or no spread among them.

    >>> a, b = fit_beta([n / 20 for n in range(21)])
    >>> round(a, 3), round(b, 3)
    (0.865, 0.865)
    """
    if len(values) < _FEWEST:
        raise DetectorError(
            f"{len(values)} values of F are too few to fit a density: at least {_FEWEST} are needed"
        )
    inside = [min(max(value, EDGE), 1.0 - EDGE) for value in values]
    mean = math.fsum(inside) / len(inside)
    variance = math.fsum((value - mean) ** 2 for value in inside) / len(inside)
    if variance <= 0.0 or variance >= mean * (1.0 - mean):
        raise DetectorError("the values of F are all the same, or all 0 and 1: a density needs values that differ")
    concentration = mean * (1.0 - mean) / variance - 1.0
    return mean * concentration, (1.0 - mean) * concentration


@dataclass(frozen=True, slots=True)
class LikelihoodRatio(ByPrinciple):
    """A detector over two beta densities of F, one of harmless turns and one of bad turns.

    The defaults take a harmless F as falling off steeply and a bad one as equally likely everywhere; ``turnwise
    tune`` learns the densities from a run.
    """

    limit: float = 4.6
    benign_a: float = field(default=1.0, kw_only=True)
    benign_b: float = field(default=4.0, kw_only=True)
    attack_a: float = field(default=1.0, kw_only=True)
    attack_b: float = field(default=1.0, kw_only=True)
    _densities: Densities = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", number(self.name, "limit", self.limit, never=True))
        for name in ("benign_a", "benign_b", "attack_a", "attack_b"):
            object.__setattr__(self, name, number(self.name, name, getattr(self, name), 0.0, above=True))
        densities = Densities.of(self.benign_a, self.benign_b, self.attack_a, self.attack_b)
        object.__setattr__(self, "_densities", densities)
