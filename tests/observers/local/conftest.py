"""A reader of the real shape with few and random weights, for what does not depend on what was learned."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from training.graph import Shape, build

from turnwise.observers import LocalObserver
from turnwise.observers.local.weights import Reach, save_weights
from turnwise.principles import principle_names

SHAPE = Shape(layers=2, heads=4, groups=2, head=16, width=64, inner=96)
OUTPUTS = 10
REACH = Reach()


def tokenizer_text() -> str:
    """Return a byte-level tokeniser without merges, but for one word that leetspeak may stand for."""
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    parts = ["pa", "ss", "wo", "rd", "pass", "word", "password", "Ġpassword"]
    vocabulary = [*marks, *sorted(pre_tokenizers.ByteLevel.alphabet()), *parts]
    merges = [("p", "a"), ("s", "s"), ("w", "o"), ("r", "d"), ("pa", "ss"), ("wo", "rd"), ("pass", "word")]
    model = models.BPE({token: n for n, token in enumerate(vocabulary)}, [*merges, ("Ġ", "password")])
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return str(tokenizer.to_str())


def random_arrays(shape: Shape, tokens: int, seed: int = 1) -> dict[str, np.ndarray]:
    """Return weights of the size that lets texts make a difference."""
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (rng.normal(size=(rows, columns)) / np.sqrt(columns)).astype(np.float32)

    wide = (shape.heads + 2 * shape.groups) * shape.head
    arrays = {"embed": matrix(tokens, shape.width) * 8, "norm": np.ones(shape.width, np.float32)}
    for n in range(shape.layers):
        arrays |= {
            f"{n}.in": np.ones(shape.width, np.float32),
            f"{n}.qkv": matrix(wide, shape.width),
            f"{n}.o": matrix(shape.width, shape.heads * shape.head),
            f"{n}.post": np.ones(shape.width, np.float32),
            f"{n}.gate_up": matrix(2 * shape.inner, shape.width),
            f"{n}.down": matrix(shape.width, shape.inner),
        }
    arrays |= {
        "head.in": matrix(32, 2 * shape.width),
        "head.in_bias": np.zeros(32, np.float32),
        "head.out": matrix(2 * OUTPUTS, 32) * 2,
        "head.out_bias": np.zeros(2 * OUTPUTS, np.float32),
    }
    return arrays


def write_weights(folder: Path, seed: int = 1, **metrics: Any) -> Path:
    """Write a weights folder, with further metrics."""
    text = tokenizer_text()
    model = build(random_arrays(SHAPE, Tokenizer.from_str(text).get_vocab_size(), seed), SHAPE)
    calibration = {
        "slope": [[[1.0] * 3] * 2] * 2,
        "offset": [[[0.0] * 3] * 2] * 2,
        "indeterminacy": [[[0.5, 0.5, 1.0, 3.0, -1.0]] * 3] * 2,
    }
    known = {
        "kind": "language",
        "principles": list(principle_names()),
        "reach": asdict(REACH),
        "code_sha256": "0" * 64,
        "calibration": calibration,
        "operating_points": {"history": {"any_turn": {"threshold": 0.5}}, "turn": {}},
    }
    save_weights(folder, model, text, known | metrics)
    return folder


@pytest.fixture(scope="session")
def weights_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with random weights."""
    return write_weights(tmp_path_factory.mktemp("reader") / "weights")


@pytest.fixture(scope="session")
def observer(weights_folder: Path) -> LocalObserver:
    """Return an observer with random weights."""
    return LocalObserver(str(weights_folder))
