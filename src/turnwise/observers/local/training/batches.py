"""Samples as the padded arrays that a training step takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from turnwise.observers.local.tokens import Encoder
from turnwise.observers.local.training.libraries import load_library
from turnwise.observers.local.training.samples import UNKNOWN, Sample
from turnwise.observers.local.weights import PRINCIPLES

MOST_TOKENS = 160
"""Tokens of a turn that a training step takes: few turns are longer, and they take most of the time."""


class Batches:
    """Samples as padded arrays, each text tokenised once.

    Args:
        samples: the samples.
        tokenizer: the tokeniser.
        whole: whether turns of more than `MOST_TOKENS` keep all that the network reads; else the start and end.
    """

    def __init__(self, samples: Sequence[Sample], tokenizer: Tokenizer, *, whole: bool = False) -> None:
        self.samples = samples
        self._padding = tokenizer.get_vocab_size()
        self._ids: dict[str, NDArray[np.int64]] = {}
        encoder = Encoder(tokenizer)
        for sample in samples:
            for text in sample.texts:
                if text not in self._ids:
                    ids = encoder.encode(text).ids
                    if not whole and len(ids) > MOST_TOKENS:
                        ids = ids[: MOST_TOKENS * 3 // 4] + ids[-MOST_TOKENS // 4 :]
                    self._ids[text] = np.array(ids, np.int64)

    def batch(
        self, indices: Sequence[int], kept: Callable[[int], NDArray[np.bool_]] | None = None
    ) -> dict[str, Any]:
        """Return a batch as torch tensors: what `TorchModel.vectors` takes, mask, labels and weights.

        Args:
            indices: the samples.
            kept: draws which of so many tokens are kept; None keeps all.
        """
        torch = load_library("torch")
        chosen = [self.samples[index] for index in indices]
        turns = max(len(sample.texts) for sample in chosen)
        shape = (len(chosen), turns)
        mask = np.zeros(shape, np.float32)
        labels = np.full((*shape, len(PRINCIPLES)), UNKNOWN, np.float32)
        faith = np.full((*shape, len(PRINCIPLES)), UNKNOWN, np.float32)
        rising = np.zeros((len(chosen), turns), np.float32)
        turn_weight = np.zeros(shape, np.float32)
        ids: list[NDArray[np.int64]] = []
        lengths = np.zeros(shape, np.int64)
        for row, sample in enumerate(chosen):
            count = len(sample.texts)
            mask[row, :count] = 1
            turn_weight[row, :count] = sample.turn_weights or 1.0
            labels[row, :count] = sample.turns
            faith[row, :count] = sample.good_faith
            rising[row, 1:count] = sample.rising
            for column, text in enumerate(sample.texts):
                found = self._ids[text]
                ids.append(found if kept is None else found[kept(len(found))])
                lengths[row, column] = len(ids[-1])
        counts = lengths.ravel()
        turn = np.repeat(np.arange(counts.size), counts)
        places = np.arange(len(turn)) + turn
        spaced = np.full(len(turn) + counts.size, self._padding)
        spaced[places] = np.concatenate(ids)
        tensors = {
            "ids": spaced,
            "places": places,
            "turn": turn,
            "lengths": counts,
            "mask": mask,
            "turn_weight": turn_weight,
            "turns": labels,
            "faith": faith,
            "rising": rising,
            "conversation": np.array([sample.conversation for sample in chosen], np.float32),
            "weight": np.array([sample.weight for sample in chosen], np.float32),
        }
        return {"shape": shape, **{name: torch.from_numpy(array) for name, array in tensors.items()}}
