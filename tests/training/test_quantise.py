"""Weights in few bits: what comes back is near, and what onnxruntime multiplies with is what came back."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from training.graph import Builder
from training.quantise import LEVELS, ROW_LEVELS, TABLE_BLOCK, in_blocks, in_rows

BLOCK = 128


def matrix(rows: int, columns: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)


@pytest.mark.parametrize("block", [32, TABLE_BLOCK])
def test_no_value_of_a_block_is_further_off_than_a_step(block: int) -> None:
    x = matrix(7, 4 * block)
    error = np.abs(in_blocks(x, block).values - x).reshape(7, 4, block).max(-1)
    assert (error <= 1.01 * np.ptp(x.reshape(7, 4, block), axis=-1) / LEVELS).all()


def test_no_value_of_a_row_is_further_off_than_half_a_step() -> None:
    x = matrix(7, 100)
    error = np.abs(in_rows(x).values - x).max(1)
    assert (error <= 0.501 * np.abs(x).max(1) / ROW_LEVELS).all()
    assert np.abs(in_rows(x).codes).max() == ROW_LEVELS


def test_zero_and_constant_come_back() -> None:
    x = np.zeros((2, 2 * BLOCK), np.float32)
    x[1] = 0.5
    assert np.allclose(in_rows(x).values, x, atol=1e-3)
    assert np.allclose(in_blocks(x, BLOCK).values, x, atol=1e-3)


def product(rows: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return what onnxruntime makes of rows and a matrix."""
    builder = Builder()
    name = builder.product("rows", "m", x)
    ends = [
        helper.make_tensor_value_info(end, TensorProto.FLOAT, [1, len(rows), width])
        for end, width in (("rows", x.shape[1]), (name, len(x)))
    ]
    graph = helper.make_graph(builder.nodes, "product", ends[:1], ends[1:], builder.constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"rows": rows[None]})[0])[0]


@pytest.mark.parametrize("columns", [3 * BLOCK + BLOCK // 2, 2 * BLOCK])
def test_onnxruntime_multiplies_with_the_same_values(columns: int) -> None:
    x, rows = matrix(5, columns, seed=2), matrix(4, columns, seed=3)
    values = in_rows(x).values
    steps = np.abs(rows).max(1, keepdims=True) / 127
    coded = np.floor(rows / steps + 0.5) * steps
    assert np.allclose(product(rows, x), coded @ values.T, atol=1e-3)


def test_no_row_depends_on_its_neighbours_and_none_overflows() -> None:
    x = np.ones((3, 2 * BLOCK), np.float32)
    rows = np.concatenate((np.ones((1, 2 * BLOCK)), np.zeros((1, 2 * BLOCK)), matrix(2, 2 * BLOCK))).astype(
        np.float32
    )
    together = product(rows, x)
    for row, alone in zip(together, (product(one[None], x)[0] for one in rows), strict=True):
        assert (row == alone).all()
    assert np.allclose(together[0], 2 * BLOCK, rtol=2e-3)
    assert (together[1] == 0).all()
