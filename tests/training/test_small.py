"""The small reader: trained, exported, and read with. Needs torch, which only training brings."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

pytest.importorskip("torch")

import torch
from tests.observers.local.conftest import tokenizer_text
from tests.training.test_samples import HIGH, LOW, example
from training.calibrate import calibrate, rows_of
from training.samples import Sampler, talk
from training.small import Settings, Small, batched, build_small, first_table, fit_small, kept, small_loss
from training.spread import reader_of, with_reader

from turnwise.conversation import Side

SETTINGS = Settings(
    dimensions=8, phrases=12, width=16, epochs=12, talks=8, rate=1e-2, table_rate=1e-2, dropout=0.0
)


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer.from_str(tokenizer_text())


def embedding(tokenizer: Tokenizer) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(tokenizer.get_vocab_size(), 32)).astype(np.float32)


def small_reader(network: Small, speech: Any) -> Any:
    return reader_of("small", build_small(network), tokenizer_text(), speech.reach)


def test_the_graph_gives_what_torch_gives(tokenizer: Tokenizer, speech: Any) -> None:
    table = first_table(embedding(tokenizer), 8, seed=1)
    network = Small(table, SETTINGS).eval()
    with torch.no_grad():
        network.speaker.weight.normal_()
        network.weight.weight.normal_()
    reader = small_reader(network, speech)
    said = [("Hello there, friend.", "Good day."), ("And now?", None), ("x", "y" * 100)]
    texts = [(side, text) for turn in said for side, text in zip(Side, turn, strict=True) if text]
    with torch.no_grad():
        wanted = network([[(list(Side).index(side), kept(speech, text)) for side, text in texts]]).numpy()
    place = reader.start()
    for (side, text), row in zip(texts, wanted, strict=True):
        assert reader.read(place, text, side, lasts=True).logits[0] == pytest.approx(row, abs=0.03)
        place = reader.unpack(reader.pack(reader.after(place, text, side)))
    assert len(reader.pack(place)) <= 2_048
    with pytest.raises(ValueError, match="too few"):
        reader.unpack(reader.pack(place)[:-4])


def test_a_long_text_is_read_in_parts_and_its_ends_change_the_state(tokenizer: Tokenizer, speech: Any) -> None:
    reader = small_reader(Small(first_table(embedding(tokenizer), 8, seed=1), SETTINGS), speech)
    short, long = "ab, " * 10, "ab, " * 128
    assert len(reader.read(reader.start(), short, Side.PROMPT, lasts=False).logits) == 1
    assert len(reader.read(reader.start(), long, Side.PROMPT, lasts=False).logits) == 1 + 4
    assert not np.array_equal(reader.after(reader.start(), long, Side.PROMPT), reader.start())


def test_it_learns(tokenizer: Tokenizer, speech: Any) -> None:
    marked = [
        replace(
            example(f"c{n}", 2),
            turns=((f"{'zzz' if n % 2 else 'mmm'} {n}", None), (f"and {n}", None)),
            judged={"history": {1: HIGH if n % 2 else LOW}},
        )
        for n in range(40)
    ]
    lines: list[str] = []
    sampler = Sampler(speech, marked, random.Random(1))
    network, figures = fit_small(embedding(tokenizer), sampler, speech, SETTINGS, lines.append)
    assert len(lines) == SETTINGS.epochs
    assert figures["steps"] == SETTINGS.epochs * 5
    reader = small_reader(network, speech)
    rows = rows_of(with_reader(reader), marked, "history")
    calibration = calibrate([rows, rows])
    found = [calibration.strongest(row.reading)["reciprocity"].F for row in rows]
    assert min(found[1::2]) > max(found[::2])


def test_halves_of_a_pair_come_together_and_their_order_counts() -> None:
    halves = [example("same", 2, pair="p", attack=attack, first=2) for attack in (True, False)]
    told = [talk(one) for one in (*halves, *(example(f"o{n}", 1) for n in range(9)))]
    (batch,) = (some for some in batched(told, 4, random.Random(1)) if told[0] in some)
    assert told[1] in batch
    logits = torch.zeros(4, 10)
    logits[1] += 2
    right, wrong = (float(small_loss(some, told[:2], 1.0)) for some in (logits, logits[[2, 3, 0, 1]]))
    assert right < wrong
