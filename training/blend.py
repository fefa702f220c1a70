"""One network of several that began alike and were trained apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

Arrays = Mapping[str, NDArray[np.float32]]
"""Weights by the names of `training.graph.build`."""


def blend(networks: Sequence[Arrays]) -> dict[str, NDArray[np.float32]]:
    """Return the average of networks that began alike, with the heads of all of them side by side.

    Layers that were tuned from the same weights can be averaged (Wortsman et al., "Model soups", ICML 2022). Heads
    begin at random and can't: each keeps its own, and the logits are the mean of theirs. It costs what one network
    costs, but for the heads.
    """
    count = len(networks)
    shared = [name for name in networks[0] if not name.startswith("head.")]
    found = {name: np.mean([one[name] for one in networks], axis=0, dtype=np.float32) for name in shared}
    found["head.in"] = np.concatenate([one["head.in"] for one in networks])
    found["head.in_bias"] = np.concatenate([one["head.in_bias"] for one in networks])
    found["head.out"] = np.concatenate([one["head.out"] / count for one in networks], axis=1)
    found["head.out_bias"] = np.mean([one["head.out_bias"] for one in networks], axis=0, dtype=np.float32)
    return found


def unpacked(model: bytes, base: Arrays, frozen: int) -> dict[str, NDArray[np.float32]]:
    """Return the weights of a graph that `training.graph.build` made, as its codes stand for them.

    The embedding and the frozen layers are those of the base, which no training changes: so they are not rounded
    twice.
    """
    graph = onnx.load_from_string(model).graph
    kept = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    blocks = {node.input[1]: node for node in graph.node if node.op_type == "MatMulNBits"}

    def matrix(name: str) -> NDArray[np.float32]:
        codes = kept[f"{name}.codes"]
        if (node := blocks.get(f"{name}.codes")) is not None:
            return _of_blocks(node, codes, kept[f"{name}.scales.half"], kept[f"{name}.zeros"])
        return (codes.astype(np.float32) * kept[f"{name}.scales"]).T

    found = {"embed": np.asarray(base["embed"]), "norm": kept["norm.weight"]}
    layers = sum(name.endswith(".in.weight") for name in kept)
    for number in range(layers):
        names = ("in", "qkv", "o", "post", "gate_up", "down")
        if number < frozen:
            found |= {f"{number}.{name}": np.asarray(base[f"{number}.{name}"]) for name in names}
            continue
        found |= {f"{number}.{name}": kept[f"{number}.{name}.weight"] for name in ("in", "post")}
        found |= {f"{number}.{name}": matrix(f"{number}.{name}") for name in ("qkv", "o", "down")}
        found[f"{number}.gate_up"] = np.concatenate([matrix(f"{number}.{half}") for half in ("gate", "up")])
    for name in ("in", "out"):
        found[f"head.{name}"] = kept[f"head.{name}.half"].T.astype(np.float32)
        found[f"head.{name}_bias"] = kept[f"head.{name}_bias"]
    return found


def _of_blocks(
    node: onnx.NodeProto, codes: NDArray[np.uint8], scales: NDArray[np.float16], zeros: NDArray[np.uint8]
) -> NDArray[np.float32]:
    """Return a matrix from codes in blocks, each with a scale and a zero point of its own."""
    of = {one.name: one.i for one in node.attribute}
    rows, count = of["N"], codes.shape[1]

    def wide(packed: NDArray[np.uint8]) -> NDArray[np.float32]:
        if of["bits"] == 8:
            return packed.astype(np.float32)
        return np.stack((packed & 15, packed >> 4), -1).reshape(*packed.shape[:-1], -1).astype(np.float32)

    middle = wide(zeros.reshape(rows, -1))[:, :count, None]
    values = (wide(codes) - middle) * scales.astype(np.float32).reshape(rows, count, 1)
    return values.reshape(rows, -1)[:, : of["K"]]
