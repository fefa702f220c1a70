"""What the tests of statistics share: scores with many ties, in groups."""

from __future__ import annotations

import numpy as np
from labelled import make_examples


def conversations(seed, arms=2, benign=120, attacks=60, decimals=1):
    """Return scores with many ties, groups of up to four, and labels."""
    rng = np.random.default_rng(seed)
    groups = [f"b{n // 2}" for n in range(benign)] + [f"a{n // 4}" for n in range(attacks)]
    attack = [False] * benign + [True] * attacks
    scores = rng.standard_normal((arms, benign + attacks)) + 1.5 * np.array(attack)
    return scores.round(decimals), groups, attack


__all__ = ["conversations", "make_examples"]
