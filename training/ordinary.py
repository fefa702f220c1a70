"""Ordinary talk that nobody read: what people say to services in good faith, taken for harmless."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from training.examples import TRAIN, Example
from turnwise.datasets import BadRecord, open_dataset
from turnwise.observers.local.weights import PRINCIPLES

SOURCES = (
    "train/arena_real_users", "train/multidogo_customers", "train/casino_negotiations", "train/crosswoz_zh",
    "single/train/search_arena",
)  # fmt: skip

HARMLESS = ((0.93, 0.12, 0.02),) * len(PRINCIPLES)
"""T, I and F of an ordinary turn, as readers give them."""

ALARM, DOUBT = 0.1, 0.5
"""Highest F from which an ordinary conversation counts as a false alarm, and from which it may be a real attempt:
that is not learned from until somebody has read it."""


def read_ordinary(data: Path, read: Iterable[Example]) -> Iterator[Example]:
    """Yield the conversations of ordinary sources that no reader has read."""
    known = {one.id for one in read}
    for source in SOURCES:
        for one in open_dataset(data / f"{source}.jsonl"):
            if isinstance(one, BadRecord):
                raise ValueError(f"{source}, line {one.line}: {one.reason}")
            if one.sequence_id in known:
                continue
            turns = tuple((turn.prompt, None) for turn in one.conversation)
            judged = {"history": dict.fromkeys(range(1, len(turns) + 1), HARMLESS)}
            yield Example(one.sequence_id, one.source, TRAIN, turns, judged)


def drawn(ordinary: Sequence[Example], turns: int, rng: random.Random) -> list[Example]:
    """Return conversations with about so many turns of each source, or all that it has."""
    found, taken = [], dict.fromkeys((one.source for one in ordinary), 0)
    for one in rng.sample(ordinary, len(ordinary)):
        if taken[one.source] < turns:
            taken[one.source] += len(one.turns)
            found.append(one)
    return found
