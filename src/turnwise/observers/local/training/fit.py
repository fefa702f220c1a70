"""The training loop: weak labels per conversation, known labels per turn, both arms and all members at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from turnwise.observers.local.training.batches import Batches
from turnwise.observers.local.training.contrast import PairBatches, contrast_of
from turnwise.observers.local.training.libraries import load_library
from turnwise.observers.local.training.model import TorchModel
from turnwise.observers.local.training.samples import UNKNOWN, Sample
from turnwise.observers.local.training.twins import TwinSamples
from turnwise.observers.local.weights import PRINCIPLES

Report = Callable[[str], None]
"""Takes a line of progress."""

PEAK = 2.0
"""Sharpness of the soft peak over turns: logsumexp(PEAK · logits) / PEAK."""

TABLE = 0.3
"""Learning rate of the table, as a share of that of the arms."""

FEWEST_STEPS = 30
"""Steps that the schedule of the learning rate is made for, at least."""

MOST_TURNS = 1_024
"""Turns in a batch at most, padding included."""

RISE = 0.2
"""Weight of the penalty on suspicion that falls within a gradual attack."""

RANK_MARGIN = 1.0
"""Logits by which an attack should exceed the worst harmless conversations of its batch."""

WORST = 0.1
"""Share of the harmless conversations of a batch that attacks are asked to exceed: those of the highest peak."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a training run.

    Args:
        seed: seed of every random choice.
        tokens: entries of the vocabulary at most.
        dimensions: length of a token vector.
        narrow: length of the narrow form of a token vector that phrases are made of.
        phrases: phrases looked for.
        members: networks in each ensemble.
        width: width of a network's turn vector and state.
        epochs: passes over the samples.
        batch: conversations a step.
        rate: learning rate; the table's is `TABLE` of it.
        decay: weight decay, of all but the table.
        word_dropout: share of tokens that a turn loses at random each time it is seen.
        composed: how many composed conversations, as a share of ``compose.COUNTS``.
        pairs: pairs a step, beside its batch of conversations.
        pair_weight: weight of the pairs of a step beside its batch.
        gradual: weight of gradual attacks beside other conversations.
        stopped: weight of copies of gradual attacks that stop a turn early, beside the whole ones: many never ask
            the last question.
        red_team: share of the red-team chats that is learned from: those that a first network finds most harmful.
        ranking: weight of the loss that asks attacks to exceed the worst harmless conversations of their batch.
        patience: by how much the logit of F falls with the logarithm of the turns, in history mode.
        patience_start: turns after which it begins to fall.
        threads: threads that torch may use; another number gives other weights.
    """

    seed: int = 7
    tokens: int = 24_000
    dimensions: int = 256
    narrow: int = 64
    phrases: int = 128
    members: int = 3
    width: int = 128
    epochs: int = 3
    batch: int = 128
    rate: float = 1e-3
    decay: float = 0.01
    word_dropout: float = 0.4
    composed: float = 0.6
    pairs: int = 16
    pair_weight: float = 0.3
    gradual: float = 2.5
    stopped: float = 0.7
    red_team: float = 0.5
    ranking: float = 1.0
    patience: float = 1.0
    patience_start: float = 5.0
    threads: int = 1

    @property
    def patience_of_history(self) -> tuple[float, float]:
        """What the weights file says of it."""
        return self.patience, self.patience_start


def positive_weights(samples: Sequence[Sample]) -> NDArray[np.float32]:
    """Return how much more a violation counts than its absence, per principle: the root of the imbalance."""
    labels = np.array([sample.conversation for sample in samples])
    weights = np.array([sample.weight for sample in samples])[:, None]
    positive = (weights * (labels == 1)).sum(axis=0)
    negative = (weights * (labels == 0)).sum(axis=0)
    ratio: NDArray[np.float32] = np.sqrt(np.maximum(negative, 1) / np.maximum(positive, 1)).astype(np.float32)
    return ratio


def fit(
    model: TorchModel,
    samples: Sequence[Sample],
    pairs: Sequence[Sequence[TwinSamples]],
    tokenizer: Tokenizer,
    settings: Settings,
    report: Report,
) -> list[float]:
    """Train the model in place; every step takes a batch of conversations and some pairs.

    Args:
        model: the model.
        samples: conversations to learn from.
        pairs: pairs to learn from, each in one or more forms of which a step draws one; or none.
        tokenizer: the tokeniser of its table.
        settings: settings of the run.
        report: takes a line of progress after each epoch.

    Returns:
        The mean loss of each epoch.
    """
    torch = load_library("torch")
    batches = Batches(samples, tokenizer)
    halves = PairBatches(pairs, tokenizer) if pairs else None
    others = [*model.phrase_parameters(), *model.arm_parameters()]
    groups = [
        {"params": model.table_parameters(), "lr": TABLE * settings.rate, "weight_decay": 0.0},
        {"params": others, "lr": settings.rate, "weight_decay": settings.decay},
    ]
    optimiser = torch.optim.AdamW(groups, fused=True)
    generator = np.random.default_rng(settings.seed)
    orders = [by_length(samples, generator, settings.batch) for _ in range(settings.epochs)]
    steps = max(sum(map(len, orders)), FEWEST_STEPS)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, [TABLE * settings.rate, settings.rate], total_steps=steps, pct_start=0.1
    )
    balance = torch.from_numpy(positive_weights(samples))
    even = torch.ones(len(PRINCIPLES))

    def kept(count: int) -> NDArray[np.bool_]:
        return generator.random(count) >= settings.word_dropout

    losses = []
    for epoch, order in enumerate(orders, start=1):
        start = time.perf_counter()
        total = 0.0
        for indices in order:
            loss = _step(model, batches.batch(indices, kept), balance, ranking=settings.ranking)
            if halves is not None:
                batch = halves.batch(settings.pairs, generator, kept)
                loss = loss + settings.pair_weight * _step(model, batch, even, contrast=True)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(others, 1.0)
            optimiser.step()
            schedule.step()
            total += float(loss.detach())
        losses.append(total / len(order))
        report(f"epoch {epoch} of {settings.epochs}: loss {losses[-1]:.4f}, {time.perf_counter() - start:.0f} s")
    return losses


def _step(
    model: TorchModel, batch: dict[str, Any], balance: Any, *, ranking: float = 0.0, contrast: bool = False
) -> Any:
    vectors = model.vectors(batch, training=True)
    total = 0.0
    for arm in model.arms.values():
        logits = arm.forward(vectors, training=True)
        total = total + loss_of(logits, batch, balance)
        if ranking:
            total = total + ranking * ranking_of(logits, batch)
        if contrast:
            total = total + contrast_of(logits, batch)
    return total


def ranking_of(logits: Any, batch: dict[str, Any]) -> Any:
    """Return how far the attacks of a batch fail to exceed the worst of its harmless conversations.

    What counts later is recall where hardly any harmless conversation is flagged, which no mean over conversations
    looks at: a smooth form of the partial area under the ROC curve (Narasimhan and Agarwal 2013).

    Args:
        logits: shape (members, conversations, turns, 2 · principles).
        batch: what `Batches.batch` gave, conversations of like length.
    """
    torch = load_library("torch")
    false = logits[..., : len(PRINCIPLES)].masked_fill(batch["mask"][None, :, :, None] == 0, -1e4)
    peak = torch.logsumexp(PEAK * false, dim=(2, 3)) / PEAK
    attack = (batch["conversation"] == 1).any(-1)
    harmless = (batch["conversation"] == 0).all(-1)
    if not attack.any() or not harmless.any():
        return torch.zeros(())
    worst = torch.logsumexp(PEAK * peak[:, harmless], dim=1) / PEAK
    worst = worst - np.log(max(1.0, WORST * int(harmless.sum()))) / PEAK
    weight = batch["weight"] * attack
    short = torch.nn.functional.softplus(RANK_MARGIN + worst[:, None] - peak) * weight
    return short.sum(-1).mean() / weight.sum() * attack.float().mean()


def by_length(samples: Sequence[Sample], generator: np.random.Generator, batch: int) -> list[list[int]]:
    """Return batches of conversations of like length, in random order: less padding, the same samples.

    Args:
        samples: the samples.
        generator: the random source.
        batch: conversations in a batch at most; fewer where they are long, for at most `MOST_TURNS` turns.
    """
    lengths = np.array([len(sample.texts) for sample in samples])
    order = np.argsort(lengths + generator.uniform(0, 2.5, len(samples)))
    chunks: list[list[int]] = [[]]
    longest = 0
    for index in order.tolist():
        longest = max(longest, int(lengths[index]))
        if len(chunks[-1]) == batch or (chunks[-1] and longest * (len(chunks[-1]) + 1) > MOST_TURNS):
            chunks.append([])
            longest = int(lengths[index])
        chunks[-1].append(index)
    return [chunks[index] for index in generator.permutation(len(chunks))]


def loss_of(logits: Any, batch: dict[str, Any], balance: Any) -> Any:
    """Return the mean loss of all members over a batch.

    Args:
        logits: shape (members, conversations, turns, 2 · principles).
        batch: what `Batches.batch` gave.
        balance: weight of a violation by principle.
    """
    torch = load_library("torch")
    functional = torch.nn.functional
    principles = len(PRINCIPLES)
    false, true = logits[..., :principles], logits[..., principles:]
    mask, weight, turn_weight = batch["mask"], batch["weight"], batch["turn_weight"]
    count = turn_weight.sum(dim=1)

    hidden = false.masked_fill(mask[None, :, :, None] == 0, -1e4)
    peak = torch.logsumexp(PEAK * hidden, dim=2) / PEAK

    def cross_entropy(predicted: Any, target: Any) -> Any:
        known = (target != UNKNOWN).float()
        raw = functional.binary_cross_entropy_with_logits(
            predicted, target.clamp_min(0).expand_as(predicted), pos_weight=balance, reduction="none"
        )
        return raw * known

    by_conversation = (cross_entropy(peak, batch["conversation"]).sum(-1) * weight).mean()
    by_turn = (cross_entropy(false, batch["turns"]).sum(-1) * turn_weight).sum(-1) / count
    faith = batch["faith"].expand_as(true)
    good_faith = functional.binary_cross_entropy_with_logits(true, faith.clamp_min(0), reduction="none")
    by_faith = ((good_faith * (faith != UNKNOWN).float()).mean(-1) * turn_weight).sum(-1) / count
    falling = functional.relu(false[:, :, :-1] - false[:, :, 1:])[..., (0, 2)].sum(-1)
    by_rise = (falling * batch["rising"][None, :, 1:]).sum(-1) / count
    rest = ((by_turn + 0.5 * by_faith + RISE * by_rise) * weight).mean()
    return by_conversation + rest
