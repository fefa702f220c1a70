"""The network in torch and its training. Needs torch, which only training brings."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

pytest.importorskip("torch")

import torch
from tests.observers.local.conftest import SHAPE, random_arrays, tokenizer_text
from tests.training.test_samples import HIGH, LOW, example
from training.blend import blend
from training.calibrate import Row, calibrate, operating_points, rows_of
from training.carried import UNKNOWN
from training.fit import Batch, Settings, Trainer, loss_of
from training.graph import build
from training.network import OUTPUTS, Reader, rounded_through
from training.quantise import ROW_LEVELS, in_rows
from training.samples import Sampler, samples, talk
from training.spread import over_processes, reader_of, with_reader

from training import fit as fitting
from turnwise.conversation import Side, from_messages
from turnwise.observers.local.network import Network, TokenSpan
from turnwise.observers.local.reading import Reading as Reading_

SETTINGS = Settings(
    layers=2,
    frozen=1,
    rounds=6,
    share=1.0,
    ordinary=4,
    searched=4,
    tokens=512,
    rate=3e-3,
    head_rate=1e-2,
    threads=1,
    dropout=0.0,
)


def network(seed: int = 1) -> Reader:
    torch.manual_seed(seed)
    tokens = Tokenizer.from_str(tokenizer_text()).get_vocab_size()
    return Reader(random_arrays(SHAPE, tokens, seed), SHAPE, frozen=1).eval()


def test_the_graph_gives_what_torch_gives_with_rounded_weights(speech: Any) -> None:
    reader = network()
    (sample,) = samples(talk(example("one", 3)), speech)
    spans = [TokenSpan(*part) for text in sample.texts for part in text.parts]
    (logits, _), _ = Network(build(reader.to_arrays(), SHAPE)).run(sample.tokens, spans)
    places = torch.tensor([(0, *span, side) for span in spans for side in (0, 1)])
    with torch.no_grad():
        states = reader.lower(torch.tensor([sample.tokens])).float()
        wanted = reader(states, places, rounded=True).numpy().reshape(len(spans), 2, OUTPUTS)
    assert np.abs(wanted).max() > 0.1
    assert np.abs(logits - wanted).max() < 0.1  # the frozen layers are in half precision


def test_rounding_passes_the_gradient_and_gives_just_what_ships() -> None:
    matrix = torch.randn(4, 64 + 128, requires_grad=True)
    out = rounded_through(matrix, ROW_LEVELS)
    out.sum().backward()
    assert matrix.grad is not None
    assert (matrix.grad == 1).all()
    assert np.abs(out.detach().numpy() - in_rows(matrix.detach().numpy()).values).max() < 1e-6


def test_the_loss_is_least_where_scores_are_the_readers_and_halves_are_apart(speech: Any) -> None:
    halves = [example("same", 2, pair="p", attack=attack, first=2) for attack in (True, False)]
    halves[0] = replace(halves[0], judged={"history": {1: LOW, 2: HIGH}})
    batch = Batch([next(samples(talk(half), speech)) for half in halves])
    targets = batch.targets.clamp(1e-6, 1 - 1e-6)
    best = loss_of(torch.logit(targets), batch, pairs=0.0)
    assert float(best) == pytest.approx(0, abs=1e-4)
    assert float(loss_of(torch.logit(targets) + 1, batch, pairs=0.0)) > 0.01
    swapped = torch.logit(targets)[[2, 3, 0, 1]]
    assert float(loss_of(swapped, batch, 1.0) - loss_of(swapped, batch, 0.0)) > float(
        loss_of(torch.logit(targets), batch, 1.0)
    )


def test_nothing_is_learned_of_what_nobody_scored(speech: Any) -> None:
    rated = replace(
        example("rated", 1), judged={"history": {1: ((UNKNOWN,) * 3, (UNKNOWN,) * 3, (0.6, UNKNOWN, 0.4))}}
    )
    batch = Batch([next(samples(talk(rated), speech))])
    logits = torch.zeros(1, OUTPUTS, requires_grad=True)
    loss_of(logits, batch, pairs=0.0).backward()
    assert logits.grad is not None
    assert (logits.grad != 0).tolist() == [[False] * 6 + [True, False, True, True]]
    assert batch.targets[0, -1] == pytest.approx(0.4)


def test_of_a_long_text_the_part_with_the_highest_f_counts(speech: Any) -> None:
    (short,) = samples(talk(example("short", 1)), speech)
    long = replace(example("long", 1), turns=(("!" * 600, None),))
    batch = Batch([short, *samples(talk(long), speech)])
    assert batch.counts[0] == 1 < batch.counts[1]
    logits = torch.zeros(sum(batch.counts), OUTPUTS)
    logits[-1, :3] = torch.tensor([1.0, 2.0, 3.0])
    logits[1, 5] = 4.0
    loudest = batch.loudest(logits)
    assert loudest.shape == (2, OUTPUTS)
    assert loudest[1].tolist() == [1, 2, 3, 0, 0, 4, 0, 0, 0, 0]


class StoppedError(Exception):
    """Training was stopped in the middle."""


def test_it_learns_and_goes_on_from_its_checkpoint_as_if_nothing_had_happened(
    speech: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked = [
        replace(
            example(f"c{n}", 2), turns=((f"{'zzz' if n % 2 else 'mmm'} {n}", None), ("and {n}", None)),
            judged={"history": {1: HIGH if n % 2 else LOW}},
        )
        for n in range(40)
    ]  # fmt: skip

    def sampler(seed: int) -> Sampler:
        return Sampler(speech, marked, random.Random(seed))

    ordinary = [replace(example(f"o{n}", 1), turns=((f"mmm o{n}", None),)) for n in range(20)]
    ordinary.append(replace(ordinary[0], id="doubtful", turns=(("zzz 3", None),)))

    def trained(folder: Path, stop_at: int | None) -> tuple[Reader, dict[str, Any]]:
        folder.mkdir(exist_ok=True)
        reader, lines = network(), []

        def say(line: str) -> None:
            lines.append(line)
            if stop_at and len(lines) >= stop_at:
                raise StoppedError

        return reader, Trainer(reader, sampler, ordinary, speech, SETTINGS, folder, say).train()

    monkeypatch.setattr(fitting, "TOLD", 2)
    monkeypatch.setattr(fitting, "MINUTES", 0.0)
    whole, figures = trained(tmp_path / "whole", None)
    with pytest.raises(StoppedError):
        trained(tmp_path / "parts", 5)
    resumed, _ = trained(tmp_path / "parts", None)
    for one, other in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)
    assert figures["loss"] < 0.3
    assert list(figures["doubtful"]) == ["doubtful"]

    runtime = reader_of("language", build(whole.to_arrays(), SHAPE), tokenizer_text(), SETTINGS.reach)
    rows = rows_of(with_reader(runtime), marked, "history")
    calibration = calibrate([rows, rows])
    found = [calibration.strongest(row.reading)["reciprocity"].F for row in rows]
    assert min(found[1::2]) > max(found[::2])
    quiet = [from_messages([{"role": "user", "content": f"mmm {n}"}]) for n in range(120)]
    points = operating_points(with_reader(runtime), calibration, quiet)
    assert points["history"]["any_turn"]["threshold"] < min(found[1::2])
    assert points["history"]["any_turn"]["false_positives"] <= 1
    for other, settings, made_of in (
        ("other settings", replace(SETTINGS, seed=2), {}),
        ("other made_of", SETTINGS, {"code": "another"}),
    ):
        with pytest.raises(ValueError, match=other):
            Trainer(network(), sampler, ordinary, speech, settings, tmp_path / "whole", print, made_of)


def test_what_is_fixed_in_indeterminacy_is_taken_into_account() -> None:
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(400, 10)).astype(np.float32)
    hidden = rng.random(400) < 0.5
    readings = [Reading_(Side.PROMPT, logits[n, None], bool(hidden[n]), 0.0, "") for n in range(400)]
    sure = [
        ((0.5, 0.1 + 0.3 * (logits[n, 1] > 0), 1 / (1 + float(np.exp(-logits[n, 2])))),) * 3 for n in range(400)
    ]
    rows = [
        Row(str(n), 1, reading, target) for n, (reading, target) in enumerate(zip(readings, sure, strict=True))
    ]
    calibration = calibrate([rows, rows])
    found = np.array([calibration.strongest(reading)["reciprocity"].I for reading in readings])
    assert abs(found.mean() - np.mean([0.5 * target[0][1] for target in sure])) < 0.02
    assert found[hidden].mean() > found[~hidden].mean()


def test_operating_points_hold_with_replies_and_without(speech: Any) -> None:
    model = build(network().to_arrays(), SHAPE)
    runtime = reader_of("language", model, tokenizer_text(), SETTINGS.reach)
    rows = rows_of(with_reader(runtime), [example("one", 3)], "history")
    calibration = calibrate([rows, rows])
    chats = [
        from_messages(
            [
                {"role": "user", "content": f"mmm {n}"}, {"role": "assistant", "content": f"zzz {n}"},
                {"role": "user", "content": f"and {n}"},
            ]
        )
        for n in range(100)
    ]  # fmt: skip
    plain = [from_messages([{"role": "user", "content": t.prompt} for t in chat]) for chat in chats]
    both = operating_points(with_reader(runtime), calibration, chats)["history"]["any_turn"]
    without = operating_points(with_reader(runtime), calibration, plain)["history"]["any_turn"]
    assert both["threshold"] >= without["threshold"]
    assert both["false_positives"] <= 1
    with over_processes("language", model, tokenizer_text(), SETTINGS.reach, 2) as spread:
        assert operating_points(spread, calibration, chats)["history"]["any_turn"] == both


def test_a_blend_of_equals_is_what_each_is_and_of_others_the_mean_of_their_heads(speech: Any) -> None:
    (sample,) = samples(talk(example("one", 3)), speech)
    one, other = network(1).to_arrays(), network(2).to_arrays()
    other = {name: array if name.startswith("head.") else one[name] for name, array in other.items()}
    spans = [TokenSpan(*part) for text in sample.texts for part in text.parts]
    logits = [
        Network(build(blend(parts), SHAPE)).run(sample.tokens, spans)[0].logits
        for parts in ([one], [other], [one, one], [one, other])
    ]
    assert np.allclose(logits[2], logits[0], atol=2e-2)
    assert np.allclose(logits[3], (logits[0] + logits[1]) / 2, atol=2e-2)
    assert not np.allclose(logits[0], logits[1], atol=0.1)
