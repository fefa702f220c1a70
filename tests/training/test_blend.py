"""Blending: weights come back out of a graph, and a blend of one network with itself is that network."""

from __future__ import annotations

import numpy as np
from onnx import helper
from training.blend import _of_blocks, blend, unpacked
from training.graph import Shape, build
from training.quantise import in_blocks, in_rows

SHAPE = Shape(2, heads=2, groups=1, head=64, width=128, inner=64)
OUTPUTS = 20


def network(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)

    def some(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    made = {"embed": some(30, 128), "norm": some(128)}
    for n in range(SHAPE.layers):
        made |= {
            f"{n}.in": some(128),
            f"{n}.post": some(128),
            f"{n}.qkv": some(256, 128),
            f"{n}.o": some(128, 128),
        }
        made |= {f"{n}.gate_up": some(128, 128), f"{n}.down": some(128, 64)}
    made |= {"head.in": some(16, 256), "head.in_bias": some(16)}
    return made | {"head.out": some(OUTPUTS, 16), "head.out_bias": some(OUTPUTS)}


def test_what_a_graph_multiplies_with_comes_back_out_of_it() -> None:
    given, base = network(1), network(2)
    found = unpacked(build(given, SHAPE), base, frozen=1)
    assert set(found) == set(given)
    for name, values in found.items():
        if name == "embed" or name.startswith("0."):
            assert np.array_equal(values, base[name]), f"{name} is not as it was published"
        elif values.ndim == 1 or name.startswith("head."):
            assert np.allclose(values, given[name], atol=4e-3)
        else:
            assert np.allclose(values, in_rows(given[name]).values if "gate" not in name else halves(given[name]))


def halves(matrix: np.ndarray) -> np.ndarray:
    return np.concatenate([in_rows(half).values for half in np.split(matrix, 2)])


def test_matrices_in_blocks_come_back_as_well() -> None:
    matrix = np.random.default_rng(3).normal(size=(6, 100)).astype(np.float32)
    kept = in_blocks(matrix, 32)
    node = helper.make_node("MatMulNBits", ["x", "c", "s", "z"], ["y"], N=6, K=100, bits=4, block_size=32)
    assert np.allclose(_of_blocks(node, kept.codes, kept.scales.reshape(-1), kept.zeros.reshape(-1)), kept.values)


def test_a_blend_of_a_network_with_itself_says_what_it_says() -> None:
    one = network(1)
    two = blend([one, one])
    rows = np.random.default_rng(4).normal(size=(5, 256)).astype(np.float32)
    assert np.allclose(heads(two, rows), heads(one, rows), atol=1e-3)
    assert np.allclose(two["1.qkv"], one["1.qkv"])


def test_each_member_of_a_blend_has_its_own_head_and_an_equal_vote() -> None:
    one, other = network(1), network(2)
    rows = np.random.default_rng(4).normal(size=(5, 256)).astype(np.float32)
    assert np.allclose(heads(blend([one, other]), rows), (heads(one, rows) + heads(other, rows)) / 2, atol=1e-3)


def heads(arrays: dict[str, np.ndarray], rows: np.ndarray) -> np.ndarray:
    inner = np.maximum(rows @ arrays["head.in"].T + arrays["head.in_bias"], 0)
    return inner @ arrays["head.out"].T + arrays["head.out_bias"]
