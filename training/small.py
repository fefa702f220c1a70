"""The small reader: a table of token vectors, phrases of three tokens, and a recurrent state over texts."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper
from torch import Tensor, nn
from torch.nn import functional

from training.batches import shuffled_units
from training.fit import COMPONENTS, flat_target, halves_of, told_apart
from training.graph import Builder
from training.network import OUTPUTS
from training.samples import Sampler, Talk
from turnwise.observers.local.reading import SIDES, Speech
from turnwise.observers.local.small_reader import STRETCH

STEEP = 3.0
"""Length that the mean of token vectors is brought to."""

AROUND = 3
"""Tokens of a phrase."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How the small reader is trained."""

    dimensions: int = 128  # of a token vector
    phrases: int = 192  # phrases that are looked for
    width: int = 128  # of a text's vector and of the state
    epochs: int = 6  # passes over the conversations, put together anew each time
    talks: int = 40  # conversations of a batch; the halves of a pair come together
    table_rate: float = 1e-3  # highest learning rate of the table
    rate: float = 2e-3  # that of everything else
    decay: float = 0.02  # weight decay
    dropout: float = 0.2  # share of inputs that is dropped before text vector and heads
    pairs: float = 0.5  # weight of the ranking within pairs
    seed: int = 1  # of every random choice
    threads: int = 1  # threads of torch; other numbers give other weights


class Small(nn.Module):
    """The network in torch; the table has shape (tokens, dimensions)."""

    def __init__(self, table: Tensor, settings: Settings) -> None:
        super().__init__()
        s = settings
        self.table = nn.Embedding.from_pretrained(table, freeze=False)
        self.weight = nn.Embedding(len(table), 1)
        nn.init.zeros_(self.weight.weight)
        self.phrases = nn.Conv1d(s.dimensions, s.phrases, AROUND, padding=AROUND // 2)
        self.text = nn.Linear(s.dimensions + s.phrases, s.width)
        self.speaker = nn.Embedding(2, s.width)
        nn.init.zeros_(self.speaker.weight)
        self.recurrent = nn.GRU(s.width, s.width, batch_first=True)
        self.head = nn.Linear(2 * s.width, 2 * OUTPUTS)
        self.dropout = nn.Dropout(s.dropout)

    def texts(self, ids: Sequence[Sequence[int]], sides: Sequence[int]) -> Tensor:
        """Return the vectors of texts, shape (texts, width)."""
        rows = [torch.tensor(one) for one in ids]
        tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        real = nn.utils.rnn.pad_sequence([torch.ones(len(one)) for one in ids], batch_first=True)
        vectors = self.table(tokens) * real[..., None]
        weighed = (vectors * torch.exp(self.weight(tokens))).sum(1)
        mean = functional.normalize(weighed, dim=1) * STEEP
        found = self.phrases(vectors.transpose(1, 2)).masked_fill(real[:, None] == 0, -math.inf)
        both = torch.cat((mean, found.amax(2).relu()), 1)
        inner = self.text(self.dropout(both)) + self.speaker(torch.tensor(sides))
        return functional.gelu(inner, approximate="tanh")

    def forward(self, talks: Sequence[Sequence[tuple[int, Sequence[int]]]]) -> Tensor:
        """Return the logits of all texts, by side and ids, of some conversations; shape (texts, outputs)."""
        flat = [text for one in talks for text in one]
        sides = [side for side, _ in flat]
        lengths = [len(one) for one in talks]
        vectors = self.texts([ids for _, ids in flat], sides).split(lengths)
        padded = nn.utils.rnn.pad_sequence(list(vectors), batch_first=True)
        states, _ = self.recurrent(padded)
        both = self.head(self.dropout(torch.cat((padded, states), -1)))
        rows = torch.cat([both[n, :length] for n, length in enumerate(lengths)])
        return rows.view(-1, 2, OUTPUTS)[torch.arange(len(sides)), torch.tensor(sides)]


def first_table(embedding: NDArray[np.float32], dimensions: int, seed: int) -> Tensor:
    """Return token vectors to start from: the principal components of a language model's."""
    torch.manual_seed(seed)
    vectors = torch.tensor(embedding)
    vectors -= vectors.mean(0)
    some = vectors[torch.randperm(len(vectors))[:8000]]
    _, _, components = torch.pca_lowrank(some, q=min(dimensions, *some.shape), center=False)
    reduced = vectors @ components
    return 0.3 * reduced / reduced.std()


def fit_small(
    embedding: NDArray[np.float32],
    sampler: Sampler,
    speech: Speech,
    settings: Settings,
    say: Callable[[str], None],
) -> tuple[Small, dict[str, float]]:
    """Train the small reader from a language model's token vectors; return it with its figures."""
    torch.set_num_threads(settings.threads)
    network = Small(first_table(embedding, settings.dimensions, settings.seed), settings)
    table = [network.table.weight]
    rest = [weight for name, weight in network.named_parameters() if name != "table.weight"]
    groups = [{"params": table, "peak": settings.table_rate}, {"params": rest, "peak": settings.rate}]
    optimiser = torch.optim.AdamW(groups, lr=settings.rate, weight_decay=settings.decay)
    rng = random.Random(settings.seed)
    began, step, mean = time.monotonic(), 0, 0.0
    for epoch in range(settings.epochs):
        plan = batched(sampler.epoch(), settings.talks, rng)
        for place, some in enumerate(plan):
            share = (epoch + place / len(plan)) / settings.epochs
            for group in optimiser.param_groups:
                group["lr"] = group["peak"] * max(0.02, 1 - share)
            told = [[(SIDES.index(text.side), kept(speech, text.said)) for text in one.texts] for one in some]
            loss = small_loss(network(told), some, settings.pairs)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 2.0)
            optimiser.step()
            step += 1
            mean = loss.item() if step == 1 else 0.98 * mean + 0.02 * loss.item()
        say(f"epoch {epoch + 1} of {settings.epochs}, loss {mean:.3f}, {time.monotonic() - began:.0f} s")
    network.eval()
    return network, {"steps": step, "seconds": round(time.monotonic() - began), "loss": round(mean, 4)}


def kept(speech: Speech, said: str) -> list[int]:
    """Return the ids of a text that the small reader takes at once, without marks; a text without any has one."""
    return speech.ends(speech.encode(said), STRETCH) or [0]


def batched(talks: Sequence[Talk], count: int, rng: random.Random) -> list[list[Talk]]:
    """Return conversations in batches, halves of a pair together, in random order."""
    found: list[list[Talk]] = [[]]
    for unit in shuffled_units(talks, rng):
        if len(found[-1]) >= count:
            found.append([])
        found[-1] += unit
    return found


def small_loss(logits: Tensor, talks: Sequence[Talk], pairs: float) -> Tensor:
    """Return the loss of a batch, as for the large reader."""
    texts = [text for one in talks for text in one.texts]
    judged = [place for place, text in enumerate(texts) if text.target]
    targets = torch.tensor([flat_target(texts[place].target or ()) for place in judged])
    cross = functional.binary_cross_entropy_with_logits(logits[judged], targets, reduction="none")
    both = halves_of([text.pair for text in texts])
    return (cross * torch.tensor(COMPONENTS)).sum() / 60 + pairs * told_apart(logits, both)


def build_small(network: Small) -> bytes:
    """Return the network as a graph in the ONNX format; the table in 8 bits a value, with a scale a row.

    Inputs: ``ids`` (tokens), ``side`` (1), ``state`` (1, 1, width). Outputs: ``logits`` (1, 2, outputs) and
    ``after``, the state behind the text.
    """
    b = Builder()
    arrays = {name: weight.detach().numpy() for name, weight in network.state_dict().items()}
    table = arrays["table.weight"]
    scale = np.abs(table).max(1, keepdims=True) / 127 + 1e-12
    b.constant("codes", np.rint(table / scale).astype(np.int8))
    b.constant("scale", scale.astype(np.float32))
    b.constant("weight", np.exp(arrays["weight.weight"]).astype(np.float32))
    rows = b.add("Cast", [b.add("Gather", ["codes", "ids"], "row_codes")], "row_values", to=TensorProto.FLOAT)
    vectors = b.add("Mul", [rows, b.add("Gather", ["scale", "ids"], "row_scale")], "vectors")
    weighed = b.add("Mul", [vectors, b.add("Gather", ["weight", "ids"], "row_weight")], "weighed")
    first = b.constant("first_axis", np.array([0], np.int64))
    total = b.add("ReduceSum", [weighed, first], "total", keepdims=1)
    length = b.add(
        "Max",
        [
            b.add("ReduceL2", [total, b.constant("second_axis", np.array([1], np.int64))], "norm", keepdims=1),
            b.constant("tiny", np.float32(1e-12)),
        ],
        "length",
    )
    mean = b.add("Mul", [b.add("Div", [total, length], "unit"), b.constant("steep", np.float32(STEEP))], "mean")
    _phrases(b, vectors, arrays)
    both = b.add("Concat", [mean, "phrases"], "both", axis=1)
    said = _linear(b, both, "text", arrays["text.weight"], arrays["text.bias"])
    speaker = b.add("Gather", [b.constant("speakers", arrays["speaker.weight"]), "side"], "speaker")
    text = b.add("Gelu", [b.add("Add", [said, speaker], "spoken")], "text_vector", approximate="tanh")
    step = b.add("Unsqueeze", [text, first], "step")
    width = arrays["speaker.weight"].shape[1]
    b.nodes.append(
        helper.make_node(
            "GRU",
            [step, *_gates(b, arrays, width), "", "state"],
            ["", "after"],
            hidden_size=width,
            linear_before_reset=1,
        )
    )
    state = b.add("Squeeze", ["after", first], "state_row")
    out = _linear(
        b, b.add("Concat", [text, state], "told", axis=1), "head", arrays["head.weight"], arrays["head.bias"]
    )
    b.add("Reshape", [out, b.constant("two_sides", np.array([1, 2, OUTPUTS], np.int64))], "logits")
    graph = helper.make_graph(
        b.nodes,
        "small reader",
        [
            helper.make_tensor_value_info("ids", TensorProto.INT64, ["tokens"]),
            helper.make_tensor_value_info("side", TensorProto.INT64, [1]),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, [1, 1, width]),
        ],
        [
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 2, OUTPUTS]),
            helper.make_tensor_value_info("after", TensorProto.FLOAT, [1, 1, width]),
        ],
        b.constants,
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10, producer_name="turnwise"
    )
    onnx.checker.check_model(model)
    return model.SerializeToString()


def _phrases(b: Builder, vectors: str, arrays: Mapping[str, NDArray[np.float32]]) -> None:
    """Look for phrases: three tokens side by side, the strongest place of each."""
    padded = b.add("Pad", [vectors, b.constant("edges", np.array([1, 0, 1, 0], np.int64))], "padded")
    taps = arrays["phrases.weight"]
    tokens = b.add("Shape", [vectors], "shape", start=0, end=1)
    parts = []
    for place in range(AROUND):
        start = b.constant(f"from_{place}", np.array([place], np.int64))
        end = b.add("Add", [tokens, start], f"to_{place}")
        parts.append(b.add("Slice", [padded, start, end], f"beside_{place}"))
    rows = b.add("Concat", parts, "threes", axis=1)
    matrix = taps.transpose(0, 2, 1).reshape(len(taps), -1)
    found = _linear(b, rows, "phrase", matrix, arrays["phrases.bias"])
    b.add("Relu", [b.add("ReduceMax", [found, "first_axis"], "strongest", keepdims=1)], "phrases")


def _linear(b: Builder, x: str, name: str, weight: NDArray[np.float32], bias: NDArray[np.float32]) -> str:
    product = b.add("MatMul", [x, b.constant(f"{name}_matrix", np.ascontiguousarray(weight.T))], f"{name}_product")
    return b.add("Add", [product, b.constant(f"{name}_bias", bias)], f"{name}_out")


def _gates(b: Builder, arrays: Mapping[str, NDArray[np.float32]], width: int) -> list[str]:
    """Return the weights of the recurrence: torch has them as reset, update, new; ONNX as update, reset, new."""

    def turned(name: str) -> NDArray[np.float32]:
        reset, update, new = np.split(arrays[f"recurrent.{name}"], 3)
        return np.concatenate((update, reset, new))

    biases = np.concatenate((turned("bias_ih_l0"), turned("bias_hh_l0")))
    return [
        b.constant("gru_input", turned("weight_ih_l0")[None]),
        b.constant("gru_state", turned("weight_hh_l0")[None]),
        b.constant("gru_bias", biases[None]),
    ]
