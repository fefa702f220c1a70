"""Training of the reader: batches, loss, schedule, and a checkpoint from which it goes on."""

from __future__ import annotations

import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from training.batches import batches
from training.conversations import Triples
from training.network import Reader
from training.samples import Sample, Sampler, samples
from turnwise.observers.local.tokens import Speech

CHECKPOINT = "checkpoint.pt"
MINUTES = 10.0
"""Between checkpoints."""

TOLD = 20
"""Steps between lines of progress."""

COMPONENTS = (0.3, 0.15, 1.0) * 3 + (1.0,)
"""Weight of T, I and F of each principle, and of the highest F."""

MARGIN = 1.0
"""By how much the soft peak of an attack's logits should exceed that of its benign half."""

SHARPNESS = 2.0
"""Of the soft peak: the logits times this go into the logarithm of the sum of exponentials."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How training goes.

    Args:
        layers: layers of the base model that are kept.
        frozen: first layers that stay as they are.
        epochs: passes over the conversations.
        variants: how often conversations are put together anew; after as many passes the first comes again.
        tokens: tokens of a batch, filled up ones among them.
        rate: highest learning rate of the layers.
        head_rate: that of the heads.
        decay: weight decay.
        dropout: share of a layer's outputs that is dropped.
        warm: share of the steps over which the rate rises.
        rounded_from: share of the steps from which weights are rounded as they will ship.
        average: how much of the running average of weights is kept at a step.
        pairs: weight of the ranking within pairs.
        seed: of every random choice.
        members: networks that are trained, each with the next seed, and blended.
        threads: threads of torch; other numbers give other weights.
    """

    layers: int = 18
    frozen: int = 10
    epochs: int = 2
    variants: int = 2
    tokens: int = 2048
    rate: float = 2e-4
    head_rate: float = 1e-3
    decay: float = 0.01
    dropout: float = 0.05
    warm: float = 0.06
    rounded_from: float = 0.6
    average: float = 0.99
    pairs: float = 0.5
    seed: int = 1
    members: int = 2
    threads: int = 2


class Batch:
    """Samples side by side.

    Args:
        samples: at least one.
    """

    def __init__(self, samples: Sequence[Sample]) -> None:
        self.samples = samples
        places, targets, pairs = [], [], []
        for row, one in enumerate(samples):
            for text in one.texts:
                pairs.append(text.pair)
                places.append((row, text.start, text.stop, text.side))
                targets.append(flat_target(text.target))
        self.places, self.targets = torch.tensor(places), torch.tensor(targets)
        self.halves = halves_of(pairs)


def flat_target(target: Triples) -> list[float]:
    """Return T, I and F of each principle in turn, and the highest F."""
    flat = [value for triple in target for value in triple]
    return [*flat, max(flat[2::3])]


def halves_of(pairs: Sequence[tuple[str, bool] | None]) -> list[tuple[list[int], list[int]]]:
    """Return, of each pair with both halves there, the places of the attack's texts and of its benign half's.

    Args:
        pairs: of each text the pair and whether it is the attack's; None for others.
    """
    halves: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for place, pair in enumerate(pairs):
        if pair:
            halves[pair[0]][0 if pair[1] else 1].append(place)
    return [both for both in halves.values() if all(both)]


class States:
    """States behind the frozen layers, made once for every sample and kept.

    Args:
        network: makes them.
    """

    def __init__(self, network: Reader) -> None:
        self._network = network
        self._kept: dict[int, Tensor] = {}

    def of(self, samples: Sequence[Sample]) -> Tensor:
        """Return the states of samples side by side, filled up behind.

        Args:
            samples: they live as long as this.
        """
        length = max(len(one.tokens) for one in samples)
        new = [one for one in samples if id(one) not in self._kept]
        if new:
            tokens = torch.zeros(len(new), length, dtype=torch.long)
            for row, one in enumerate(new):
                tokens[row, : len(one.tokens)] = torch.tensor(one.tokens)
            for one, states in zip(new, self._network.lower(tokens), strict=True):
                self._kept[id(one)] = states[: len(one.tokens)].clone()
        kept = [self._kept[id(one)] for one in samples]
        return torch.nn.utils.rnn.pad_sequence(kept, batch_first=True)


def loss_of(logits: Tensor, batch: Batch, pairs: float) -> Tensor:
    """Return the loss of a batch: how far scores are from the readers', and how far halves of pairs are not apart.

    Cross-entropy to the readers' T, I and F, less the entropy of these; softplus of the margin less the difference
    of the soft peaks of both halves (a ranking loss as in Burges et al. 2005).

    Args:
        logits: shape (texts, outputs).
        batch: what they are of.
        pairs: weight of the ranking.
    """
    targets, weights = batch.targets, torch.tensor(COMPONENTS)
    cross = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    least = functional.binary_cross_entropy(targets, targets, reduction="none")
    loss = ((cross - least) * weights).sum() / 30
    return loss + pairs * told_apart(logits, batch.halves)


def told_apart(logits: Tensor, halves: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Tensor:
    """Return how far the halves of pairs are from being told apart.

    Args:
        logits: shape (texts, outputs), the highest F last.
        halves: places of the texts of the attack, and of its benign half, where they differ.
    """
    loss = logits.new_zeros(())
    for both in halves:
        attack, benign = (torch.logsumexp(logits[list(half), -1] * SHARPNESS, 0) / SHARPNESS for half in both)
        loss = loss + functional.softplus(MARGIN - (attack - benign)) / 4
    return loss


def fit(
    network: Reader,
    sampler: Sampler,
    speech: Speech,
    settings: Settings,
    folder: Path,
    say: Callable[[str], None],
    made_of: Mapping[str, Any] | None = None,
) -> dict[str, float]:
    """Train a network in place, from its checkpoint where there is one.

    Args:
        network: the network; afterwards it holds the running average of the weights.
        sampler: chooses what each epoch sees.
        speech: gives token ids.
        settings: how.
        folder: where the checkpoint lies.
        say: takes a line of progress.
        made_of: hashes of code and data; a checkpoint of others is refused.

    Returns:
        ``steps``, ``seconds`` (over all parts) and ``loss`` at the end.

    Raises:
        ValueError: the checkpoint in the folder is one of other settings, code or data.
    """
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    trained = [weight for weight in network.parameters() if weight.requires_grad]
    heads = {id(weight) for part in (network.head_in, network.head_out) for weight in part.parameters()}
    groups = [
        {"params": [w for w in trained if id(w) not in heads], "peak": settings.rate},
        {"params": [w for w in trained if id(w) in heads], "peak": settings.head_rate},
    ]
    optimiser = torch.optim.AdamW(
        groups, lr=settings.rate, betas=(0.9, 0.98), eps=1e-6, weight_decay=settings.decay
    )
    average = [weight.detach().clone() for weight in trained]
    variants = [
        [one for told in sampler.epoch() for one in samples(told, speech)]
        for _ in range(min(settings.variants, settings.epochs))
    ]
    plan = [
        some
        for epoch in range(settings.epochs)
        for some in batches(
            variants[epoch % len(variants)], settings.tokens, random.Random(f"{settings.seed}-{epoch}")
        )
    ]
    states = States(network)
    origin = {"settings": asdict(settings), "made_of": dict(made_of or {}), "steps": len(plan)}
    step, seconds, mean = _resumed(folder, origin, network, optimiser, average)
    began = saved = time.monotonic()
    network.train()
    while step < len(plan):
        share = step / len(plan)
        rate = min(1.0, share / settings.warm + 0.01) * (0.025 + 0.975 * 0.5 * (1 + math.cos(math.pi * share)))
        for group in optimiser.param_groups:
            group["lr"] = group["peak"] * rate
        torch.manual_seed(settings.seed * 1_000_003 + step)  # the same dropout after an interruption
        batch = Batch(plan[step])
        rounded = share >= settings.rounded_from
        loss = loss_of(
            network(states.of(batch.samples), batch.places, dropout=settings.dropout, rounded=rounded),
            batch,
            settings.pairs,
        )
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 2.0)
        optimiser.step()
        kept = min(settings.average, (1 + step) / (10 + step))
        for running, weight in zip(average, trained, strict=True):
            running.lerp_(weight.detach(), 1 - kept)
        step += 1
        mean = loss.item() if step == 1 else 0.98 * mean + 0.02 * loss.item()
        now = time.monotonic()
        if step % TOLD == 0 or step == len(plan):
            say(f"step {step} of {len(plan)}, loss {mean:.3f}, {seconds + now - began:.0f} s")
        if now - saved > 60 * MINUTES or step == len(plan):
            saved = now
            state = {
                "origin": origin, "step": step, "seconds": seconds + now - began, "mean": mean,
                "network": network.state_dict(), "optimiser": optimiser.state_dict(), "average": average,
            }  # fmt: skip
            torch.save(state, folder / f"{CHECKPOINT}.new")
            (folder / f"{CHECKPOINT}.new").replace(folder / CHECKPOINT)
    with torch.no_grad():
        for running, weight in zip(average, trained, strict=True):
            weight.copy_(running)
    network.eval()
    return {"steps": len(plan), "seconds": round(seconds + time.monotonic() - began), "loss": round(mean, 4)}


def _resumed(
    folder: Path,
    origin: Mapping[str, Any],
    network: Reader,
    optimiser: torch.optim.Optimizer,
    average: list[Tensor],
) -> tuple[int, float, float]:
    """Load the checkpoint, where there is one; return steps and seconds so far, and the loss."""
    path = folder / CHECKPOINT
    if not path.exists():
        return 0, 0.0, 0.0
    state = torch.load(path, weights_only=True)
    if state["origin"] != origin:
        other = ", ".join(name for name in origin if state["origin"][name] != origin[name])
        raise ValueError(f"{path} was made with other {other}; remove it, or name another folder")
    network.load_state_dict(state["network"])
    optimiser.load_state_dict(state["optimiser"])
    for running, kept in zip(average, state["average"], strict=True):
        running.copy_(kept)
    return state["step"], state["seconds"], state["mean"]
