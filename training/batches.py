"""Samples in batches of like length."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

from training.samples import Sample

NEIGHBOURS = 512
"""Samples among which those of like length are put together."""


def batches(samples: Sequence[Sample], tokens: int, rng: random.Random) -> list[list[Sample]]:
    """Return samples in batches of like length, halves of a pair together, in random order.

    Args:
        samples: the samples of an epoch.
        tokens: tokens of a batch at most, unless one unit has more.
        rng: chooses.
    """
    units: dict[str, list[Sample]] = defaultdict(list)
    for number, one in enumerate(samples):
        units[one.pair or f"#{number}"].append(one)
    shuffled = sorted(units.items())
    rng.shuffle(shuffled)
    found: list[list[Sample]] = []
    for start in range(0, len(shuffled), NEIGHBOURS):
        some = sorted(
            (unit for _, unit in shuffled[start : start + NEIGHBOURS]),
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
