"""Weights in few bits: blocks of a row, each with a scale and a zero point, as MatMulNBits reads them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Format(NamedTuple):
    """How a matrix is kept.

    Args:
        bits: of a value, 4 or 8.
        block: values that share a scale and a zero point; a power of two, 16 or more.
    """

    bits: int
    block: int

    @property
    def levels(self) -> int:
        """The highest code."""
        return 2**self.bits - 1


FINE = Format(8, 128)
"""For what is not trained: as good as not rounded at all."""

COARSE = Format(4, 128)
"""For what is trained with weights rounded in this way."""

TABLE = Format(4, 64)
"""For the embedding: rounding it makes no difference that was found."""


class Blocks(NamedTuple):
    """A quantised matrix.

    Args:
        codes: codes of 8 bits, or two of 4 a byte, the first in the low half; shape (rows, blocks, bytes).
        scales: shape (rows, blocks), each exact in half precision.
        zeros: zero points, packed likewise; shape (rows, bytes).
        values: what the codes stand for, shape (rows, columns).
    """

    codes: NDArray[np.uint8]
    scales: NDArray[np.float16]
    zeros: NDArray[np.uint8]
    values: NDArray[np.float32]


def quantise(matrix: NDArray[np.float32], form: Format) -> Blocks:
    """Return a matrix in blocks of codes over the range of each block, zero among them.

    Args:
        matrix: shape (rows, columns); a last block that is not full is filled up with zeros.
        form: bits and block.
    """
    rows, columns = matrix.shape
    x = np.pad(matrix, ((0, 0), (0, -columns % form.block))).reshape(rows, -1, form.block).astype(np.float32)
    low, high = np.minimum(x.min(-1, keepdims=True), 0), np.maximum(x.max(-1, keepdims=True), 0)
    scale = np.maximum((high - low) / form.levels, 1e-6).astype(np.float16).astype(np.float32)
    zero = np.clip(np.rint(-low / scale), 0, form.levels)
    code = np.clip(np.rint(x / scale) + zero, 0, form.levels)
    values = ((code - zero) * scale).reshape(rows, -1)[:, :columns]
    return Blocks(
        _packed(code, form),
        scale[..., 0].astype(np.float16),
        _packed(zero[..., 0], form),
        values.astype(np.float32),
    )


def _packed(codes: NDArray[np.float32], form: Format) -> NDArray[np.uint8]:
    whole = codes.astype(np.uint8)
    if form.bits == 8:
        return whole
    if whole.shape[-1] % 2:
        whole = np.concatenate((whole, np.zeros_like(whole[..., :1])), axis=-1)
    return np.asarray(whole[..., 0::2] | (whole[..., 1::2] << 4))
