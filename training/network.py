"""The reader's network in torch: the same as the graph that ships, with weights rounded as they will be."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from training.graph import EPSILON, INPUT_LEVELS, POSITIONS, Shape
from training.quantise import LEAST_SCALE, ROW_LEVELS, TABLE_BLOCK, in_blocks, in_rows

HEAD_WIDTH = 256
OUTPUTS = 10
"""For each side T, I and F of three principles, and the highest F, which only training looks at."""

HEAD_DROPOUT = 0.1


def rounded_through(rows: Tensor, levels: int) -> Tensor:
    """Return rows as a product of integers takes them; the gradient passes unchanged (Bengio et al. 2013).

    Each row is whole numbers of steps, of which the largest size in it has so many.
    """
    exact = rows.float()
    scale = (exact.detach().abs().amax(-1, keepdim=True) / levels).clamp(min=LEAST_SCALE)
    steps = (exact.detach() / scale).round() * scale
    return (exact + (steps - exact.detach())).to(rows.dtype)


MATRICES = ("qkv", "o", "gate_up", "down")


def rounded_before(arrays: Mapping[str, NDArray[np.float32]], frozen: int) -> dict[str, NDArray[np.float32]]:
    """Return what is not trained, rounded as it will ship, so that training sees the very same."""
    names = [f"{number}.{name}" for number in range(frozen) for name in MATRICES]
    found = {name: in_rows(arrays[name]).values for name in names}
    return {**found, "embed": in_blocks(arrays["embed"], TABLE_BLOCK).values}


class Layer(nn.Module):
    """One transformer layer in the form of Llama (Touvron et al. 2023)."""

    def __init__(self, arrays: Mapping[str, NDArray[np.float32]], shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.weights = nn.ParameterDict(
            {name: nn.Parameter(torch.tensor(array)) for name, array in arrays.items()}
        )

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor, dropout: float, *, rounded: bool) -> Tensor:
        """Return the states after the layer, shape (rows, tokens, width).

        What is rounded is what products are made of; a matrix that is not trained is rounded already.
        """
        s, (rows, tokens, width) = self.shape, x.shape

        def product(rows_: Tensor, name: str) -> Tensor:
            matrix = self.weights[name]
            if rounded:
                rows_ = rounded_through(rows_, INPUT_LEVELS)
                matrix = rounded_through(matrix, ROW_LEVELS) if matrix.requires_grad else matrix
            return functional.linear(rows_, matrix.to(x.dtype))

        y = functional.rms_norm(x, (width,), self.weights["in"].to(x.dtype), EPSILON)
        sizes = (s.heads * s.head, s.groups * s.head, s.groups * s.head)
        query, key, value = (
            part.view(rows, tokens, -1, s.head).transpose(1, 2) for part in product(y, "qkv").split(sizes, -1)
        )
        query, key = (part * cosine + _turned(part) * sine for part in (query, key))
        key, value = (part.repeat_interleave(s.heads // s.groups, 1) for part in (key, value))
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        told = product(seen.transpose(1, 2).reshape(rows, tokens, -1), "o")
        x = x + functional.dropout(told, dropout, self.training)
        y = functional.rms_norm(x, (width,), self.weights["post"].to(x.dtype), EPSILON)
        gate, up = product(y, "gate_up").chunk(2, -1)
        return x + functional.dropout(product(functional.silu(gate) * up, "down"), dropout, self.training)


def _turned(x: Tensor) -> Tensor:
    one, other = x.chunk(2, -1)
    return torch.cat((-other, one), -1)


class Reader(nn.Module):
    """The language model without its last layers, and heads over its texts, made anew where missing."""

    def __init__(self, arrays: Mapping[str, NDArray[np.float32]], shape: Shape, frozen: int) -> None:
        super().__init__()
        self.shape, self.frozen = shape, frozen
        rounded = rounded_before(arrays, frozen)
        self._fixed = {name: arrays[name] for name in rounded}
        arrays = {**arrays, **rounded}
        self.embed = torch.tensor(arrays["embed"])
        self.layers = nn.ModuleList(
            Layer({name: arrays[f"{n}.{name}"] for name in ("in", "qkv", "o", "post", "gate_up", "down")}, shape)
            for n in range(shape.layers)
        )
        for layer in self.layers[:frozen]:
            layer.requires_grad_(False)
        self.norm = nn.Parameter(torch.tensor(arrays["norm"]))
        width = len(arrays["head.in"]) if "head.in" in arrays else HEAD_WIDTH
        self.head_in = nn.Linear(2 * shape.width, width)
        self.head_out = nn.Linear(width, 2 * OUTPUTS)
        if "head.in" in arrays:
            for name, part in (("in", self.head_in), ("out", self.head_out)):
                part.weight = nn.Parameter(torch.tensor(arrays[f"head.{name}"]))
                part.bias = nn.Parameter(torch.tensor(arrays[f"head.{name}_bias"]))
        angles = torch.arange(POSITIONS)[:, None] / shape.theta ** (torch.arange(0, shape.head, 2) / shape.head)
        both = torch.cat((angles, angles), -1)
        self.cosine, self.sine = both.cos(), both.sin()

    @torch.no_grad()
    def lower(self, tokens: Tensor) -> Tensor:
        """Return the states (rows, tokens, width) behind the frozen layers, in half precision."""
        x = functional.embedding(tokens, self.embed).to(torch.bfloat16)
        for layer in self.layers[: self.frozen]:
            x = layer(x, *self._turns(x), dropout=0.0, rounded=True)
        return x

    def forward(self, x: Tensor, places: Tensor, *, dropout: float = 0.0, rounded: bool = False) -> Tensor:
        """Return logits (texts, outputs) by what `lower` gave; places are row, start, stop and side."""
        for layer in self.layers[self.frozen :]:
            x = layer(x, *self._turns(x), dropout=dropout, rounded=rounded)
        states = functional.rms_norm(x.float(), (self.shape.width,), self.norm, EPSILON)
        row, start, stop, side = places.unbind(1)
        sums = functional.pad(states.cumsum(1), (0, 0, 1, 0))
        mean = (sums[row, stop] - sums[row, start]) / (stop - start)[:, None]
        inner = functional.gelu(self.head_in(torch.cat((mean, states[row, stop - 1]), -1)), approximate="tanh")
        out = self.head_out(functional.dropout(inner, HEAD_DROPOUT, self.training))
        return out.view(-1, 2, OUTPUTS)[torch.arange(len(side)), side]

    def _turns(self, x: Tensor) -> tuple[Tensor, Tensor]:
        length = x.shape[1]
        return self.cosine[:length].to(x.dtype), self.sine[:length].to(x.dtype)

    def to_arrays(self) -> dict[str, NDArray[np.float32]]:
        """Return all weights by the names that `training.graph.build` takes, none of them rounded.

        To round what was rounded before could give other values; from the same it gives the same.
        """
        found = {"norm": self.norm.detach()}
        for number, layer in enumerate(self.layers):
            found |= {f"{number}.{name}": weight.detach() for name, weight in layer.weights.items()}
        for name, part in (("in", self.head_in), ("out", self.head_out)):
            found |= {f"head.{name}": part.weight.detach(), f"head.{name}_bias": part.bias.detach()}
        return {**{name: value.float().numpy() for name, value in found.items()}, **self._fixed}
