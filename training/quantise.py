"""Weights in few bits: the embedding in blocks of a row, matrices in whole rows.

Products are of integers (`MatMulInteger`). Each row of a matrix has one scale and codes of 7 bits: two products of
8 bits by 7 add up without overflow in 16, as some processors do it. Each row of what it is multiplied with has one
scale and codes of 8 bits, so that no score depends on what is read beside it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BITS = 4
LEVELS = 2**BITS - 1
"""The highest code of a block."""

ROW_LEVELS = 63
"""The highest code of a row."""

LEAST_SCALE = 1e-9
"""Of a row, so that rows of zeros stay zero."""

TABLE_BLOCK = 64
"""Values of the embedding that share a scale and a zero point: rounding it makes no difference that was found."""


class Blocks(NamedTuple):
    """A matrix in blocks of 4 bits."""

    codes: NDArray[np.uint8]  # two a byte, the first in the low half; shape (rows, blocks, bytes)
    scales: NDArray[np.float16]  # shape (rows, blocks), each exact in half precision
    zeros: NDArray[np.uint8]  # zero points, packed likewise; shape (rows, bytes)
    values: NDArray[np.float32]  # what the codes stand for, shape (rows, columns)


class Rows(NamedTuple):
    """A matrix in whole rows of 7 bits."""

    codes: NDArray[np.int8]  # shape (rows, columns), -63 to 63
    scales: NDArray[np.float32]  # shape (rows, 1)

    @property
    def values(self) -> NDArray[np.float32]:
        """What the codes stand for, shape (rows, columns)."""
        return self.codes * self.scales


def in_blocks(matrix: NDArray[np.float32], block: int) -> Blocks:
    """Return a matrix in blocks of codes over the range of each, zero among them; the last is filled up."""
    rows, columns = matrix.shape
    x = np.pad(matrix, ((0, 0), (0, -columns % block))).reshape(rows, -1, block).astype(np.float32)
    low, high = np.minimum(x.min(-1, keepdims=True), 0), np.maximum(x.max(-1, keepdims=True), 0)
    scale = np.maximum((high - low) / LEVELS, 1e-6).astype(np.float16).astype(np.float32)
    zero = np.clip(np.rint(-low / scale), 0, LEVELS)
    code = np.clip(np.rint(x / scale) + zero, 0, LEVELS)
    values = ((code - zero) * scale).reshape(rows, -1)[:, :columns]
    return Blocks(
        _packed(code),
        scale[..., 0].astype(np.float16),
        _packed(zero[..., 0]),
        values.astype(np.float32),
    )


def in_rows(matrix: NDArray[np.float32]) -> Rows:
    """Return a matrix in rows of codes, each over the largest size in its row."""
    scales = np.maximum(np.abs(matrix).max(1, keepdims=True) / ROW_LEVELS, LEAST_SCALE).astype(np.float32)
    return Rows(np.rint(matrix / scales).astype(np.int8), scales)


def _packed(codes: NDArray[np.float32]) -> NDArray[np.uint8]:
    whole = codes.astype(np.uint8)
    if whole.shape[-1] % 2:
        whole = np.concatenate((whole, np.zeros_like(whole[..., :1])), axis=-1)
    return np.asarray(whole[..., 0::2] | (whole[..., 1::2] << BITS))
