"""What likelihood-ratio detectors share: how much likelier each F is on a bad turn than on a harmless one."""

from __future__ import annotations

from dataclasses import dataclass, field

from turnwise.detectors.by_principle import ByPrinciple
from turnwise.detectors.densities import Densities
from turnwise.detectors.parameters import number


@dataclass(frozen=True, slots=True)
class LikelihoodRatio(ByPrinciple):
    """A detector over two beta densities of F, one of harmless turns and one of bad turns.

    The defaults take a harmless F as falling off steeply and a bad one as equally likely everywhere; ``turnwise
    tune`` learns the densities from a run.

    Args:
        limit: value from which it fires; infinity never fires.
        benign_a: first parameter of the density of harmless turns, above 0.
        benign_b: second parameter of the density of harmless turns, above 0.
        attack_a: first parameter of the density of bad turns, above 0.
        attack_b: second parameter of the density of bad turns, above 0.

    Raises:
        DetectorError: a parameter is out of range.
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
