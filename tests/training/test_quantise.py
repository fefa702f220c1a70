"""Weights in 4 bits: what comes back is near, and what onnxruntime multiplies with is what came back."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from training.quantise import BITS, BLOCK, LEVELS, quantise


def matrix(rows: int, columns: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)


def test_no_value_is_further_off_than_a_step() -> None:
    x = matrix(7, 4 * BLOCK)
    blocks = quantise(x)
    error = np.abs(blocks.values - x).reshape(7, 4, BLOCK).max(-1)
    wide = np.ptp(x.reshape(7, 4, BLOCK), axis=-1) / LEVELS
    assert (error <= 2.1 * wide).all()
    assert np.square(blocks.values - x).mean() <= np.square(wide).mean() / 12 * 1.1


def test_zero_and_constant_blocks_come_back() -> None:
    x = np.zeros((2, 2 * BLOCK), np.float32)
    x[1] = 0.5
    assert np.allclose(quantise(x).values, x, atol=1e-3)


def test_rounding_twice_changes_little() -> None:
    once = quantise(matrix(3, 3 * BLOCK)).values
    assert np.abs(quantise(once).values - once).max() < 0.25


def test_onnxruntime_multiplies_with_the_same_values() -> None:
    x, rows = matrix(5, 3 * BLOCK, seed=2), matrix(4, 3 * BLOCK, seed=3)
    blocks = quantise(x)
    constants = [
        numpy_helper.from_array(blocks.codes, "codes"),
        numpy_helper.from_array(blocks.scales.astype(np.float32).reshape(-1), "scales"),
        numpy_helper.from_array(blocks.zeros.reshape(-1), "zeros"),
    ]
    node = helper.make_node(
        "MatMulNBits",
        ["rows", "codes", "scales", "zeros"],
        ["out"],
        domain="com.microsoft",
        K=3 * BLOCK,
        N=5,
        bits=BITS,
        block_size=BLOCK,
    )
    graph = helper.make_graph(
        [node],
        "product",
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, [4, 3 * BLOCK])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [4, 5])],
        constants,
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"rows": rows})
    assert np.allclose(found, rows @ blocks.values.T, atol=1e-4)
