"""Pairs that differ in intent alone, and the loss that asks the attack for more than its twin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from turnwise.observers.local.training.batches import Batches
from turnwise.observers.local.training.libraries import load_library
from turnwise.observers.local.training.twins import TwinSamples
from turnwise.observers.local.weights import PRINCIPLES

GAP = 0.15
"""Smallest difference of annotated F between the twins at which a turn takes part in the contrast."""

MARGIN = 1.0
"""Logits by which an attack should exceed its twin."""

PEAK = 2.0
"""Sharpness of the soft peak over turns and principles: logsumexp(PEAK · logits) / PEAK."""


class PairBatches:
    """Pairs as batches in which attack and twin take turns as rows.

    Args:
        pairs: at least one pair, each in one or more forms.
        tokenizer: the tokeniser.
    """

    def __init__(self, pairs: Sequence[Sequence[TwinSamples]], tokenizer: Tokenizer) -> None:
        forms = [form for group in pairs for form in group]
        self._starts = np.cumsum([0, *(len(group) for group in pairs)])
        self._halves = Batches([half for form in forms for half in (form.attack, form.benign)], tokenizer)

    def batch(
        self, count: int, generator: np.random.Generator, kept: Callable[[int], NDArray[np.bool_]]
    ) -> dict[str, Any]:
        """Return a batch of pairs drawn without replacement, each in one of its forms.

        Args:
            count: pairs at most.
            generator: the random source.
            kept: draws which of so many tokens are kept.
        """
        pairs = len(self._starts) - 1
        drawn = generator.choice(pairs, min(count, pairs), replace=False)
        rows = [int(generator.integers(self._starts[pair], self._starts[pair + 1])) for pair in drawn]
        return self._halves.batch([2 * row + half for row in rows for half in (0, 1)], kept)


def contrast_of(logits: Any, batch: dict[str, Any]) -> Any:
    """Return how far the attacks of a batch fail to exceed their twins, turn by turn and at their peaks.

    A logistic ranking loss (Burges et al. 2005), weighted by the difference of the annotated F.

    Args:
        logits: shape (members, conversations, turns, 2 · principles); attack and twin take turns as rows.
        batch: what `Batches.batch` gave.
    """
    torch = load_library("torch")
    softplus = torch.nn.functional.softplus
    false = logits[..., : len(PRINCIPLES)]
    both = batch["mask"][0::2] * batch["mask"][1::2]
    gap = (batch["turns"][0::2] - batch["turns"][1::2]) * both[..., None]
    gap = torch.where(gap >= GAP, gap, torch.zeros_like(gap))
    lead = false[:, 0::2] - false[:, 1::2]
    by_turn = (softplus(MARGIN - lead) * gap).sum((-1, -2)) / gap.sum((-1, -2)).clamp_min(1e-6)
    hidden = false.masked_fill(batch["mask"][None, :, :, None] == 0, -1e4)
    peak = torch.logsumexp(PEAK * hidden, dim=(2, 3)) / PEAK
    by_peak = softplus(MARGIN - (peak[:, 0::2] - peak[:, 1::2]))
    return (by_turn + by_peak).mean()
