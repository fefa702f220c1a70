"""Weights in 4 bits: blocks of a row, each with a scale and a zero point, as MatMulNBits reads them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BITS = 4
BLOCK = 32
LEVELS = 2**BITS - 1
SHRINK = (1.0, 0.95, 0.9, 0.85, 0.8)
"""Shares of a block's range that are tried: a narrower one cuts off its ends and is finer between."""


class Blocks(NamedTuple):
    """A quantised matrix.

    Args:
        codes: two codes a byte, the first in the low half; shape (rows, blocks, BLOCK / 2).
        scales: shape (rows, blocks), each exact in half precision.
        zeros: zero points, two a byte; shape (rows, half the blocks, rounded up).
        values: what the codes stand for, shape (rows, columns).
    """

    codes: NDArray[np.uint8]
    scales: NDArray[np.float16]
    zeros: NDArray[np.uint8]
    values: NDArray[np.float32]


def quantise(matrix: NDArray[np.float32]) -> Blocks:
    """Return a matrix in blocks of 4-bit codes, with the range of each block that has the least squared error.

    Args:
        matrix: shape (rows, columns), columns a multiple of `BLOCK`.
    """
    rows, columns = matrix.shape
    blocks = columns // BLOCK
    x = matrix.reshape(rows, blocks, BLOCK).astype(np.float32)
    low, high = np.minimum(x.min(-1), 0), np.maximum(x.max(-1), 0)
    least = np.full((rows, blocks), np.inf, np.float32)
    codes = np.zeros(x.shape, np.float32)
    scales, zeros = np.ones((rows, blocks), np.float32), np.zeros((rows, blocks), np.float32)
    for share in SHRINK:
        scale = np.maximum((high - low) * share / LEVELS, 1e-6).astype(np.float16).astype(np.float32)
        zero = np.clip(np.rint(-low * share / scale), 0, LEVELS)
        code = np.clip(np.rint(x / scale[..., None]) + zero[..., None], 0, LEVELS)
        error = np.square((code - zero[..., None]) * scale[..., None] - x).sum(-1)
        better = error < least
        least = np.where(better, error, least)
        codes = np.where(better[..., None], code, codes)
        scales, zeros = np.where(better, scale, scales), np.where(better, zero, zeros)
    values = ((codes - zeros[..., None]) * scales[..., None]).reshape(rows, columns).astype(np.float32)
    packed = codes.astype(np.uint8)
    even = zeros if blocks % 2 == 0 else np.pad(zeros, ((0, 0), (0, 1)))
    pairs = even.astype(np.uint8)
    return Blocks(
        packed[..., 0::2] | (packed[..., 1::2] << 4),
        scales.astype(np.float16),
        pairs[:, 0::2] | (pairs[:, 1::2] << 4),
        values,
    )
