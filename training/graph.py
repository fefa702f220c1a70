"""The reader's network as an ONNX graph: embedding, layers, and heads over the states of each text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from training.quantise import BITS, LEAST_SCALE, TABLE_BLOCK, in_blocks, in_rows

POSITIONS = 4096
"""Positions that the rotary tables have: more than window and longest text together."""

EPSILON = 1e-5
CONTRIB = "com.microsoft"
INPUT_LEVELS = 127
"""The highest code of a row that a matrix is multiplied with."""

MIDDLE = 128
"""The code of zero there: codes are without a sign, as processors multiply them with codes that have one."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of the network."""

    layers: int  # transformer layers
    heads: int = 9  # heads of attention
    groups: int = 3  # heads of keys and values, each shared by ``heads / groups`` heads
    head: int = 64  # width of a head
    width: int = 576  # width of a state
    inner: int = 1536  # width inside a layer's gated unit
    theta: float = 100_000.0  # base of the rotary angles


@dataclass
class Builder:
    """Nodes and constants of a graph, as they come."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)  # the nodes, each behind those that it reads from
    constants: list[onnx.TensorProto] = field(default_factory=list)  # the constants

    def constant(self, name: str, array: NDArray[np.generic]) -> str:
        """Keep an array under a name, and return the name."""
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def add(self, kind: str, inputs: list[str], output: str, domain: str = "", **attributes: object) -> str:
        """Add a node with one output, and return the output's name."""
        self.nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **attributes))
        return output

    def halved(self, name: str, array: NDArray[np.generic]) -> str:
        """Keep an array in half precision; it is widened once, when the graph is loaded."""
        self.constant(f"{name}.half", array.astype(np.float16))
        return self.add("Cast", [f"{name}.half"], name, to=TensorProto.FLOAT)

    def shared(self, name: str, array: NDArray[np.generic]) -> str:
        """Keep an array that several nodes read, once."""
        return name if name in {one.name for one in self.constants} else self.constant(name, array)

    def product(self, x: str, name: str, matrix: NDArray[np.float32]) -> str:
        """Multiply rows with a matrix, in integers."""
        kept = in_rows(matrix)
        codes = self.constant(f"{name}.codes", kept.codes.T)
        scales = self.constant(f"{name}.scales", kept.scales.T)
        inputs, input_scales = self._coded(x)
        middle = self.shared("middle", np.array(MIDDLE, np.uint8))
        sums = self.add("MatMulInteger", [inputs, codes, middle], f"{name}.sums")
        wide = self.add("Cast", [sums], f"{name}.wide", to=TensorProto.FLOAT)
        scaled = self.add("Mul", [wide, scales], f"{name}.scaled")
        return self.add("Mul", [scaled, input_scales], f"{name}.out")

    def _coded(self, x: str) -> tuple[str, str]:
        """Bring each row to codes of 8 bits; return codes and scales, one a row."""
        codes, scales = f"{x}.coded", f"{x}.input_scales"
        if any(scales in node.output for node in self.nodes):
            return codes, scales
        last = self.shared("last_axis", np.array([-1], np.int64))
        sizes = self.add("ReduceMax", [self.add("Abs", [x], f"{x}.sizes"), last], f"{x}.largest", keepdims=1)
        levels = self.shared("input_levels", np.array(INPUT_LEVELS, np.float32))
        least = self.shared("least_scale", np.array(LEAST_SCALE, np.float32))
        self.add("Max", [self.add("Div", [sizes, levels], f"{x}.step"), least], scales)
        half = self.shared("middle_and_half", np.array(MIDDLE + 0.5, np.float32))
        moved = self.add("Add", [self.add("Div", [x, scales], f"{x}.steps"), half], f"{x}.moved")
        return self.add("Cast", [moved], codes, to=TensorProto.UINT8), scales

    def norm(self, x: str, name: str, weight: NDArray[np.float32]) -> str:
        """Bring rows to one length, and scale their columns."""
        return self.add(
            "SimplifiedLayerNormalization",
            [x, self.constant(f"{name}.weight", weight.astype(np.float32))],
            f"{name}.out",
            epsilon=EPSILON,
            axis=-1,
        )


def build(arrays: Mapping[str, NDArray[np.float32]], shape: Shape) -> bytes:
    """Return the graph in the ONNX format.

    Inputs: ``ids`` (1, tokens); ``mean`` (texts, tokens), the weights with which the states of a text are
    averaged; ``last`` (texts), the index of its last token; ``length`` and ``length_less_one``, tokens so far;
    keys and values of the tokens before. Outputs: ``logits`` (texts, 2, outputs), keys and values of all tokens.
    Arrays are those of `training.base.Base`, with ``head.in``, ``head.in_bias``, ``head.out`` and
    ``head.out_bias``.
    """
    b = Builder()
    inverse = 1.0 / shape.theta ** (np.arange(0, shape.head, 2) / shape.head)
    angles = np.arange(POSITIONS)[:, None] * inverse
    b.constant("cos", np.cos(angles).astype(np.float32))
    b.constant("sin", np.sin(angles).astype(np.float32))
    inputs = [
        helper.make_tensor_value_info("ids", TensorProto.INT64, [1, "tokens"]),
        helper.make_tensor_value_info("mean", TensorProto.FLOAT, ["texts", "tokens"]),
        helper.make_tensor_value_info("last", TensorProto.INT64, ["texts"]),
        helper.make_tensor_value_info("length_less_one", TensorProto.INT32, [1]),
        helper.make_tensor_value_info("length", TensorProto.INT32, [1]),
    ]
    outputs = []
    x = _embedding(b, arrays["embed"])
    for number in range(shape.layers):
        y = b.norm(x, f"{number}.in", arrays[f"{number}.in"])
        qkv = b.product(y, f"{number}.qkv", arrays[f"{number}.qkv"])
        cached = [f"{kind}{number}" for kind in ("keys", "values")]
        for name in cached:
            size = [1, shape.groups, f"past_{name}", shape.head]
            inputs.append(helper.make_tensor_value_info(f"past_{name}", TensorProto.FLOAT, size))
            outputs.append(
                helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, shape.groups, "all", shape.head])
            )
        past = [f"past_{name}" for name in cached]
        b.nodes.append(
            helper.make_node(
                "GroupQueryAttention",
                [qkv, "", "", *past, "length_less_one", "length", "cos", "sin"],
                [f"{number}.attention", *cached],
                domain=CONTRIB,
                num_heads=shape.heads,
                kv_num_heads=shape.groups,
                do_rotary=1,
                rotary_interleaved=0,
            )
        )
        told = b.product(f"{number}.attention", f"{number}.o", arrays[f"{number}.o"])
        x = b.add("Add", [x, told], f"{number}.attended")
        y = b.norm(x, f"{number}.post", arrays[f"{number}.post"])
        gate, up = np.split(arrays[f"{number}.gate_up"], 2)
        opened = b.add(
            "QuickGelu",
            [b.product(y, f"{number}.gate", gate)],
            f"{number}.open",
            CONTRIB,
            alpha=1.0,
        )
        let = b.add("Mul", [opened, b.product(y, f"{number}.up", up)], f"{number}.let")
        x = b.add(
            "Add",
            [x, b.product(let, f"{number}.down", arrays[f"{number}.down"])],
            f"{number}.done",
        )
    _heads(b, b.norm(x, "norm", arrays["norm"]), arrays)
    count = arrays["head.out"].shape[0] // 2
    outputs.insert(0, helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["texts", 2, count]))
    graph = helper.make_graph(b.nodes, "reader", inputs, outputs, b.constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(CONTRIB, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10, producer_name="turnwise")
    return model.SerializeToString()


def _embedding(b: Builder, table: NDArray[np.float32]) -> str:
    """Look tokens up in a table of codes."""
    blocks = in_blocks(table, TABLE_BLOCK)
    codes = b.constant("embed.codes", blocks.codes.reshape(len(table), -1))
    zeros = b.constant("embed.zeros", blocks.zeros)
    scales = b.halved("embed.scales", blocks.scales)
    return b.add(
        "GatherBlockQuantized",
        [codes, "ids", scales, zeros],
        "embedded",
        CONTRIB,
        bits=BITS,
        block_size=TABLE_BLOCK,
        gather_axis=0,
        quantize_axis=1,
    )


def _heads(b: Builder, states: str, arrays: Mapping[str, NDArray[np.float32]]) -> None:
    """Two layers over the mean of a text's states and the last of them."""
    flat = b.add("Squeeze", [states, b.constant("first_axis", np.array([0], np.int64))], "states")
    means = b.add("MatMul", ["mean", flat], "means")
    lasts = b.add("Gather", [flat, "last"], "lasts", axis=0)
    both = b.add("Concat", [means, lasts], "both", axis=1)
    for name in ("in", "out"):
        b.halved(f"head.{name}", arrays[f"head.{name}"].T)
        b.constant(f"head.{name}_bias", arrays[f"head.{name}_bias"].astype(np.float32))
    inner = b.add("Add", [b.add("MatMul", [both, "head.in"], "head.inner"), "head.in_bias"], "head.biased")
    bent = b.add("Gelu", [inner], "head.bent", approximate="tanh")
    out = b.add("Add", [b.add("MatMul", [bent, "head.out"], "head.flat"), "head.out_bias"], "head.flat_biased")
    count = arrays["head.out"].shape[0] // 2
    b.add("Reshape", [out, b.constant("two_sides", np.array([-1, 2, count], np.int64))], "logits")
