"""Rounding a trained model to what is shipped, and the check that numpy and torch agree on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.errors import ObserverError
from turnwise.observers.local.network import Network
from turnwise.observers.local.training.batches import Batches
from turnwise.observers.local.training.calibrate import traces
from turnwise.observers.local.training.libraries import load_library
from turnwise.observers.local.training.model import TorchModel
from turnwise.observers.local.training.samples import Sample
from turnwise.observers.local.weights import (
    ARMS,
    CALIBRATION,
    FEATURES,
    PRINCIPLES,
    SIZES,
    Weights,
    dump_arrays,
    weights_hash,
)

TOLERANCE = 1e-5
"""Largest difference allowed between probabilities in numpy and in torch."""


def quantise(table: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Round each row to 8 bits with a scale of its own.

    Args:
        table: shape (tokens, dimensions).

    >>> rows, scale = quantise(np.array([[1.0, -0.5], [0.0, 0.0]], np.float32))
    >>> rows.tolist(), (rows * scale[:, None]).round(2).tolist()
    ([[127, -64], [0, 0]], [[1.0, -0.5], [0.0, 0.0]])
    """
    scale = np.maximum(np.abs(table).max(axis=1), 1e-12) / 127
    return np.rint(table / scale[:, None]).astype(np.int8), scale.astype(np.float32)


def nearest_points(vectors: NDArray[np.float32], count: int, seed: int) -> NDArray[np.float16]:
    """Return unit vectors that stand for the training data: spherical k-means (Dhillon and Modha 2001).

    Args:
        vectors: unit vectors, shape (turns, dimensions).
        count: number of reference points, at most one a turn is used twice.
        seed: seed of the start.
    """
    generator = np.random.default_rng(seed)
    points = vectors[generator.integers(0, len(vectors), count)]
    for _ in range(15):
        nearest = (vectors @ points.T).argmax(axis=1)
        sums = np.stack([vectors[nearest == index].sum(axis=0) for index in range(count)])
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        points = np.where(norms > 1e-6, sums / np.maximum(norms, 1e-6), points)
    return points.astype(np.float16)


def export_arrays(
    model: TorchModel, centroids: int, patience: tuple[float, float] = (0.0, 1.0)
) -> dict[str, NDArray[Any]]:
    """Return the arrays of the weights file, rounded; calibration and reference points still neutral.

    Args:
        model: the trained model.
        centroids: number of reference points.
        patience: by how much the logit of F falls with the logarithm of the turns in history mode, and after how
            many turns that starts.
    """
    table = model.table.weight.detach().numpy()[:-1]
    rows, scale = quantise(table)
    arrays: dict[str, NDArray[Any]] = {"table": rows, "table_scale": scale}
    arrays |= {name: array.astype(np.float16) for name, array in model.arrays().items()}
    neutral = np.tile(np.eye(len(CALIBRATION), dtype=np.float32)[0], (2 * len(PRINCIPLES), 1))
    for arm in ARMS:
        arrays[f"{arm}.calibration"] = neutral
        arrays[f"{arm}.patience"] = np.array(patience if arm == "history" else (0, 1), np.float32)
        arrays[f"{arm}.indeterminacy"] = np.zeros((len(PRINCIPLES), len(FEATURES) + 1), np.float32)
    start = np.zeros((centroids, table.shape[1]), np.float16)
    start[:, 0] = 1
    arrays["centroids"] = start
    return arrays


def rounded(arrays: Mapping[str, NDArray[Any]]) -> tuple[NDArray[np.float32], dict[str, NDArray[np.float16]]]:
    """Return the table and the parameters of the arms as a model takes them over.

    Args:
        arrays: arrays of the weights file.
    """
    table: NDArray[np.float32] = arrays["table"].astype(np.float32) * arrays["table_scale"][:, None]
    return table, {name: array for name, array in arrays.items() if array.dtype == np.float16}


def pack(
    arrays: Mapping[str, NDArray[Any]], tokenizer: bytes, metrics: Mapping[str, Any]
) -> tuple[bytes, Weights]:
    """Return the bytes of the weights file, and the same weights as if they had been loaded.

    Args:
        arrays: all arrays of `turnwise.observers.local.weights.shapes`.
        tokenizer: bytes of the tokeniser file.
        metrics: the metrics so far.
    """
    members, _, width = arrays["history.project"].shape
    tokens, dimensions = arrays["table"].shape
    narrow, phrases = arrays["phrase.taps"].shape[1:]
    found = (tokens, dimensions, narrow, phrases, members, width, len(arrays["centroids"]))
    sizes = {name: str(size) for name, size in zip(SIZES, found, strict=True)}
    settings = {"principles": ",".join(PRINCIPLES), **sizes}
    blob = dump_arrays(arrays, settings)
    digest = weights_hash(blob, tokenizer)
    return blob, Weights(arrays, tokenizer.decode("utf-8"), metrics, digest, members, width)


def check_agreement(
    model: TorchModel,
    network: Network,
    arrays: Mapping[str, NDArray[Any]],
    samples: Sequence[Sample],
    tokenizer: Any,
) -> float:
    """Return the largest difference between torch and numpy over samples, as probabilities.

    The model is left with the rounded parameters.

    Args:
        model: the trained model.
        network: the numpy network of the exported arrays.
        arrays: those arrays.
        samples: conversations to compare on.
        tokenizer: the tokeniser.

    Raises:
        ObserverError: they differ by more than `TOLERANCE`.
    """
    torch = load_library("torch")
    model.load_rounded(*rounded(arrays))
    batches = Batches(samples, tokenizer, whole=True)
    worst = 0.0
    with torch.no_grad():
        for index, sample in enumerate(samples):
            batch = batches.batch([index])
            vectors = model.vectors(batch, training=False)
            for name, arm in model.arms.items():
                ours = traces(network, name, [sample.texts])[0].logits
                theirs = arm.forward(vectors, training=False)[:, 0].numpy().transpose(1, 0, 2)
                worst = max(worst, float(np.abs(_probability(ours) - _probability(theirs)).max()))
    if not worst <= TOLERANCE:
        raise ObserverError(f"numpy and torch differ by {worst:.2e}, more than {TOLERANCE:.0e}: export stopped")
    return worst


def _probability(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-logits.astype(np.float64)))
