"""Samples in batches of like length."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol, TypeVar

from training.samples import Sample

NEIGHBOURS = 512
"""Samples among which those of like length are put together."""


class Half(Protocol):
    """What may be a half of a pair."""

    @property
    def pair(self) -> str | None:
        """The pair; None for others."""


T = TypeVar("T", bound=Half)


def shuffled_units(ones: Sequence[T], rng: random.Random) -> list[list[T]]:
    """Return samples or conversations in random order, halves of a pair as one unit."""
    units: dict[str, list[T]] = defaultdict(list)
    for number, one in enumerate(ones):
        units[one.pair or f"#{number}"].append(one)
    order = sorted(units.items())
    rng.shuffle(order)
    return [unit for _, unit in order]


def batches(samples: Sequence[Sample], tokens: int, rng: random.Random) -> list[list[Sample]]:
    """Return samples in batches of like length, of so many tokens at most, halves of a pair together."""
    shuffled = shuffled_units(samples, rng)
    found: list[list[Sample]] = []
    for start in range(0, len(shuffled), NEIGHBOURS):
        some = sorted(
            shuffled[start : start + NEIGHBOURS],
            key=lambda unit: max(len(one.tokens) for one in unit),
        )
        current: list[Sample] = []
        for unit in some:
            together = [*current, *unit]
            if current and max(len(one.tokens) for one in together) * len(together) > tokens:
                found.append(current)
                together = unit
            current = together
        found.append(current)
    rng.shuffle(found)
    return found
