"""Weights in 4 bits: what comes back is near, and what onnxruntime multiplies with is what came back."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from training.quantise import COARSE, FINE, TABLE, Format, quantise


def matrix(rows: int, columns: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)


FORMATS = (Format(4, 32), Format(8, 64), FINE, COARSE, TABLE)


@pytest.mark.parametrize("form", FORMATS)
def test_no_value_is_further_off_than_a_step(form: Format) -> None:
    x = matrix(7, 4 * form.block)
    error = np.abs(quantise(x, form).values - x).reshape(7, 4, form.block).max(-1)
    step = np.ptp(x.reshape(7, 4, form.block), axis=-1) / form.levels
    assert (error <= 1.01 * step).all()


@pytest.mark.parametrize("form", FORMATS)
def test_zero_and_constant_blocks_come_back(form: Format) -> None:
    x = np.zeros((2, 2 * form.block), np.float32)
    x[1] = 0.5
    assert np.allclose(quantise(x, form).values, x, atol=1e-3)


@pytest.mark.parametrize("form", FORMATS)
def test_onnxruntime_multiplies_with_the_same_values(form: Format) -> None:
    width = 3 * form.block + form.block // 2
    x, rows = matrix(5, width, seed=2), matrix(4, width, seed=3)
    blocks = quantise(x, form)
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
        K=width,
        N=5,
        bits=form.bits,
        block_size=form.block,
    )
    graph = helper.make_graph(
        [node],
        "product",
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, [4, width])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [4, 5])],
        constants,
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"rows": rows})
    assert np.allclose(found, rows @ blocks.values.T, atol=1e-4)
