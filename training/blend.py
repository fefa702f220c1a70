"""One network of several that were trained alike but for the seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[np.float32]]
"""Weights by the names of `training.graph.build`."""


def blend(networks: Sequence[Arrays]) -> dict[str, NDArray[np.float32]]:
    """Return the average of networks that began alike, with the heads of all of them side by side.

    Layers that were tuned from the same weights can be averaged (Wortsman et al., "Model soups", ICML 2022). Heads
    begin at random and can't: each keeps its own, and the logits are the mean of theirs. It costs what one network
    costs, but for the heads.

    Args:
        networks: at least one, of the same shape.
    """
    count = len(networks)
    shared = [name for name in networks[0] if not name.startswith("head.")]
    found = {name: np.mean([one[name] for one in networks], axis=0, dtype=np.float32) for name in shared}
    found["head.in"] = np.concatenate([one["head.in"] for one in networks])
    found["head.in_bias"] = np.concatenate([one["head.in_bias"] for one in networks])
    found["head.out"] = np.concatenate([one["head.out"] / count for one in networks], axis=1)
    found["head.out_bias"] = np.mean([one["head.out_bias"] for one in networks], axis=0, dtype=np.float32)
    return found
