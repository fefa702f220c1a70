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
from training.examples import Example, Triples
from training.network import Reader
from training.ordinary import ALARM, DOUBT, drawn
from training.samples import Sample, Sampler, samples, talk
from turnwise.observers.local.reading import Speech
from turnwise.observers.local.weights import Reach

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
    """How training goes."""

    layers: int = 18  # layers of the base model that are kept
    frozen: int = 10  # first layers that stay as they are
    # passes over the conversations, put together anew each time; after each but the last, ordinary talk is
    # searched for false alarms, which come up in every round from then on
    rounds: int = 4
    share: float = 0.5  # of what is at hand of judged conversations, how much a round sees
    ordinary: int = 500  # turns of ordinary talk of each source in a round, beside the false alarms
    searched: int = 1500  # ordinary conversations that are searched for false alarms after a round
    tokens: int = 3072  # tokens of a batch, filled up ones among them
    rate: float = 1.5e-4  # highest learning rate of the layers
    head_rate: float = 1e-3  # that of the heads
    decay: float = 0.01  # weight decay
    dropout: float = 0.05  # share of a layer's outputs that is dropped
    warm: float = 0.06  # share of the steps over which the rate rises
    rounded_from: float = 0.6  # share of the steps from which weights are rounded as they will ship
    average: float = 0.99  # how much of the running average of weights is kept at a step
    pairs: float = 0.5  # weight of the ranking within pairs
    limit: int = 1_536  # tokens of the window, as in `Reach`, and so are the next four
    kept: int = 1_024  # tokens that stay when it moves
    prompt: int = 384  # tokens of a prompt that stay
    reply: int = 128  # tokens of a reply that stay
    part: int = 256  # tokens of a text that get a score of their own
    seed: int = 1  # of every random choice
    threads: int = 2  # threads of torch; other numbers give other weights

    @property
    def reach(self) -> Reach:
        """How far the reader looks back; long texts are read as one."""
        return Reach(self.limit, self.kept, self.prompt, self.reply, self.part)


class Batch:
    """Samples side by side."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self.samples = samples
        places, targets, pairs, counts = [], [], [], []
        for row, one in enumerate(samples):
            for text in one.texts:
                pairs.append(text.pair)
                places += [(row, start, stop, text.side) for start, stop in text.parts]
                counts.append(len(text.parts))
                targets.append(flat_target(text.target))
        self.places, self.targets = torch.tensor(places), torch.tensor(targets)
        self.counts = counts
        self.halves = halves_of(pairs)

    def tokens(self) -> Tensor:
        """Return the ids of the samples side by side, filled up behind; shape (samples, tokens)."""
        rows = [torch.tensor(one.tokens) for one in self.samples]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)

    def loudest(self, logits: Tensor) -> Tensor:
        """Return of each text the part (a row of logits) with the highest F, by principle."""
        if len(logits) == len(self.counts):
            return logits
        rows = []
        for part in logits.split(self.counts):
            triples = part[:, :-1].view(len(part), -1, 3)
            loud = triples[:, :, 2].argmax(0)
            rows.append(
                torch.cat((triples[loud, torch.arange(triples.shape[1])].flatten(), part[:, -1].amax(0)[None]))
            )
        return torch.stack(rows)


def flat_target(target: Triples) -> list[float]:
    """Return T, I and F of each principle in turn, and the highest F that is known."""
    flat = [value for triple in target for value in triple]
    return [*flat, max(value for value in flat[2::3] if not math.isnan(value))]


def halves_of(pairs: Sequence[tuple[str, bool] | None]) -> list[tuple[list[int], list[int]]]:
    """Return, of each pair with both halves there, the places of the attack's texts and of its benign half's."""
    halves: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for place, pair in enumerate(pairs):
        if pair:
            halves[pair[0]][0 if pair[1] else 1].append(place)
    return [both for both in halves.values() if all(both)]


def loss_of(logits: Tensor, batch: Batch, pairs: float) -> Tensor:
    """Return the loss of a batch: how far scores are from the readers', and how far halves of pairs are not apart.

    Cross-entropy to the readers' T, I and F, less the entropy of these; softplus of the margin less the difference
    of the soft peaks of both halves (a ranking loss as in Burges et al. 2005). Logits have shape (texts, outputs).
    """
    known = ~batch.targets.isnan()
    targets, weights = batch.targets.nan_to_num(0.0), torch.tensor(COMPONENTS)
    cross = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    least = functional.binary_cross_entropy(targets, targets, reduction="none")
    loss = ((cross - least) * weights * known).sum() / 30
    return loss + pairs * told_apart(logits, batch.halves)


def told_apart(logits: Tensor, halves: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Tensor:
    """Return how far the halves of pairs are from being told apart, from logits (texts, outputs), F last."""
    loss = logits.new_zeros(())
    for both in halves:
        attack, benign = (torch.logsumexp(logits[list(half), -1] * SHARPNESS, 0) / SHARPNESS for half in both)
        loss = loss + functional.softplus(MARGIN - (attack - benign)) / 4
    return loss


class Trainer:
    """Trains a network in place, round by round, from its checkpoint where there is one.

    The network then holds the running average of the weights. A checkpoint of other settings, code or data
    (`made_of` has their hashes) is refused with a ValueError.
    """

    def __init__(
        self,
        network: Reader,
        sampler: Callable[[int], Sampler],
        ordinary: Sequence[Example],
        speech: Speech,
        settings: Settings,
        folder: Path,
        say: Callable[[str], None],
        made_of: Mapping[str, Any] | None = None,
    ) -> None:
        torch.set_num_threads(settings.threads)
        torch.manual_seed(settings.seed)
        self._network, self._sampler, self._speech, self._say = network, sampler, speech, say
        self._ordinary = {one.id: one for one in ordinary}
        self._settings, self._path = settings, folder / CHECKPOINT
        self._trained = [weight for weight in network.parameters() if weight.requires_grad]
        heads = {id(weight) for part in (network.head_in, network.head_out) for weight in part.parameters()}
        groups = [
            {"params": [w for w in self._trained if id(w) not in heads], "peak": settings.rate},
            {"params": [w for w in self._trained if id(w) in heads], "peak": settings.head_rate},
        ]
        self._optimiser = torch.optim.AdamW(
            groups, lr=settings.rate, betas=(0.9, 0.98), eps=1e-6, weight_decay=settings.decay
        )
        self._average = [weight.detach().clone() for weight in self._trained]
        self._origin = {"settings": asdict(settings), "made_of": dict(made_of or {})}
        self._round = self._step = self._steps = 0
        self._seconds = self._mean = 0.0
        self._alarms: list[str] = []
        self._doubtful: dict[str, float] = {}
        self._began = self._saved = time.monotonic()
        self._resume()

    def train(self) -> dict[str, Any]:
        """Train to the end; ``doubtful`` are false alarms that a reader has to read first, by id."""
        self._network.train()
        for number in range(self._round, self._settings.rounds):
            plan = self._plan(number)
            self._say(f"round {number + 1} of {self._settings.rounds}: {len(plan)} steps")
            for step in range(self._step, len(plan)):
                self._learn(plan[step], (number + step / len(plan)) / self._settings.rounds)
                self._step = step + 1
                self._tell(len(plan))
            if number + 1 < self._settings.rounds:
                self._search(number)
            self._round, self._step = number + 1, 0
            self._save()
        with torch.no_grad():
            for running, weight in zip(self._average, self._trained, strict=True):
                weight.copy_(running)
        self._network.eval()
        return {
            "steps": self._steps,
            "seconds": round(self._seconds + time.monotonic() - self._began),
            "loss": round(self._mean, 4),
            "alarms": len(self._alarms),
            "doubtful": dict(sorted(self._doubtful.items())),
        }

    def _plan(self, number: int) -> list[list[Sample]]:
        """Return the batches of a round."""
        rng = random.Random(f"{self._settings.seed}-{number}")
        talks = self._sampler(rng.randrange(2**32)).epoch(self._settings.share)
        left = [one for name, one in self._ordinary.items() if name not in self._doubtful]
        some = {one.id: one for one in drawn(left, self._settings.ordinary, rng)}
        some |= {name: self._ordinary[name] for name in self._alarms}
        talks += map(talk, some.values())
        return batches([one for told in talks for one in samples(told, self._speech)], self._settings.tokens, rng)

    def _learn(self, some: Sequence[Sample], share: float) -> None:
        """Take one step."""
        settings = self._settings
        rate = min(1.0, share / settings.warm + 0.01) * (0.025 + 0.975 * 0.5 * (1 + math.cos(math.pi * share)))
        for group in self._optimiser.param_groups:
            group["lr"] = group["peak"] * rate
        torch.manual_seed(settings.seed * 1_000_003 + self._steps)  # the same dropout after an interruption
        batch = Batch(some)
        rounded = share >= settings.rounded_from
        logits = self._network(
            self._network.lower(batch.tokens()), batch.places, dropout=settings.dropout, rounded=rounded
        )
        loss = loss_of(batch.loudest(logits), batch, settings.pairs)
        self._optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._trained, 2.0)
        self._optimiser.step()
        self._steps += 1
        kept = min(settings.average, (1 + self._steps) / (10 + self._steps))
        for running, weight in zip(self._average, self._trained, strict=True):
            running.lerp_(weight.detach(), 1 - kept)
        self._mean = loss.item() if self._steps == 1 else 0.98 * self._mean + 0.02 * loss.item()

    @torch.no_grad()
    def _search(self, number: int) -> None:
        """Look for false alarms among ordinary conversations that were not searched yet."""
        rng = random.Random(f"search-{self._settings.seed}-{number}")
        known = {*self._alarms, *self._doubtful}
        left = [name for name in self._ordinary if name not in known]
        searched = rng.sample(left, min(self._settings.searched, len(left)))
        told = [(name, one) for name in searched for one in samples(talk(self._ordinary[name]), self._speech)]
        told.sort(key=lambda one: len(one[1].tokens))
        self._network.eval()
        peaks: dict[str, float] = dict.fromkeys(searched, 0.0)
        while told:
            count = max(1, 2 * self._settings.tokens // len(told[-1][1].tokens))
            some, told = told[-count:], told[:-count]
            batch = Batch([one for _, one in some])
            logits = self._network(self._network.lower(batch.tokens()), batch.places)
            highest = batch.loudest(logits)[:, -1].sigmoid().split([len(one.texts) for _, one in some])
            for (name, _), f in zip(some, highest, strict=True):
                peaks[name] = max(peaks[name], f.max().item())
        self._network.train()
        self._alarms += sorted(name for name, peak in peaks.items() if ALARM <= peak < DOUBT)
        self._doubtful |= {name: round(peak, 3) for name, peak in peaks.items() if peak >= DOUBT}
        self._say(
            f"searched {len(searched)} ordinary conversations: {len(self._alarms)} false alarms so far, "
            f"{len(self._doubtful)} to be read"
        )

    def _tell(self, steps: int) -> None:
        """Say how far it is, and keep a checkpoint, both from time to time."""
        now = time.monotonic()
        if self._step % TOLD == 0 or self._step == steps:
            took = self._seconds + now - self._began
            self._say(f"step {self._step} of {steps}, loss {self._mean:.3f}, {took:.0f} s")
        if now - self._saved > 60 * MINUTES:
            self._save()

    def _save(self) -> None:
        now = time.monotonic()
        self._seconds, self._began, self._saved = self._seconds + now - self._began, now, now
        state = {
            "origin": self._origin, "round": self._round, "step": self._step, "steps": self._steps,
            "seconds": self._seconds, "mean": self._mean, "alarms": self._alarms, "doubtful": self._doubtful,
            "network": self._network.state_dict(), "optimiser": self._optimiser.state_dict(),
            "average": self._average,
        }  # fmt: skip
        torch.save(state, self._path.with_suffix(".new"))
        self._path.with_suffix(".new").replace(self._path)

    def _resume(self) -> None:
        if not self._path.exists():
            return
        state = torch.load(self._path, weights_only=True)
        if state["origin"] != self._origin:
            other = ", ".join(name for name in self._origin if state["origin"][name] != self._origin[name])
            raise ValueError(f"{self._path} was made with other {other}; remove it, or name another folder")
        self._network.load_state_dict(state["network"])
        self._optimiser.load_state_dict(state["optimiser"])
        for running, kept in zip(self._average, state["average"], strict=True):
            running.copy_(kept)
        self._round, self._step, self._steps = state["round"], state["step"], state["steps"]
        self._seconds, self._mean = state["seconds"], state["mean"]
        self._alarms, self._doubtful = state["alarms"], state["doubtful"]
