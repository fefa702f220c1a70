"""Is order used at all? The turns themselves permuted, and scored again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnwise.conversation import Conversation
from turnwise.detectors import run_detector
from turnwise.rates import Rate
from turnwise.scoring import TurnScores
from turnwise.study.compare.judging import Calibrated
from turnwise.study.example import Example

if TYPE_CHECKING:
    import numpy as np

    from turnwise.store import Run, Store

Rescore = Callable[["Run", Conversation], tuple[TurnScores, ...] | None]
"""Scores a conversation by the observer of a run; None where that observer can't be had."""

SAMPLE = 100
"""Conversations of each label that are permuted and scored again."""


@dataclass(frozen=True, slots=True)
class Reordered:
    """What becomes of the verdicts where the turns are permuted and scored again.

    Args:
        attacks: verdicts on attacks that change.
        benign: verdicts on benign conversations that change.
        caught_before: attacks caught in their own order.
        caught_after: attacks caught in another order.
    """

    attacks: Rate
    benign: Rate
    caught_before: Rate
    caught_after: Rate


def reorder(
    found: Calibrated,
    run: Run,
    examples: Sequence[Example],
    store: Store,
    rescore: Rescore,
    rng: np.random.Generator,
) -> Reordered | None:
    """Permute the turns of a sample of conversations, score them again, and count the verdicts that change.

    One permutation of each, never the order in which they came.

    Args:
        found: the detector.
        run: whose observer scores.
        examples: the tested conversations.
        store: where the texts are.
        rescore: scores a conversation.
        rng: the source of chance.

    Returns:
        The counts, or None where the observer can't be had or no conversation has two turns.
    """
    chosen: list[Example] = []
    for attack in (True, False):
        able = [one for one in examples if one.attack is attack and len(one.turns) > 1]
        places = sorted(int(place) for place in rng.permutation(len(able))[:SAMPLE])
        chosen += [able[place] for place in places]
    if not chosen:
        return None
    texts = {item.sequence_id: item for item in store.sequences(ids=[one.sequence_id for one in chosen])}
    rows: list[tuple[bool, bool, bool]] = []
    for one in chosen:
        moved = _permuted(texts[one.sequence_id].conversation, rng)
        scores = rescore(run, moved)
        if scores is None:
            return None
        before = run_detector(found.detector, one.turns).fired
        rows.append((one.attack, before, run_detector(found.detector, scores).fired))

    def rate(label: bool, which: Callable[[bool, bool], bool]) -> Rate:
        values = [which(before, after) for attack, before, after in rows if attack is label]
        return Rate(sum(values), len(values))

    return Reordered(
        rate(True, lambda before, after: before is not after),
        rate(False, lambda before, after: before is not after),
        rate(True, lambda before, _: before),
        rate(True, lambda _, after: after),
    )


def _permuted(conversation: Conversation, rng: np.random.Generator) -> Conversation:
    turns = list(conversation)
    order = rng.permutation(len(turns))
    while list(order) == sorted(order):
        order = rng.permutation(len(turns))
    moved = [
        {"turn": number, "prompt": turns[int(place)].prompt, "response": turns[int(place)].response}
        for number, place in enumerate(order, start=1)
    ]
    return Conversation.from_dict({"turns": moved, "metadata": conversation.to_dict()["metadata"]})
