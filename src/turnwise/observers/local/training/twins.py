"""The twins corpus as training samples: annotated scores for every turn, and pairs that differ in intent alone."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from turnwise.datasets.twins import SPLITS_FILE, Pair, Twin, load_twins
from turnwise.errors import DatasetError
from turnwise.observers.local.training.data import percentile
from turnwise.observers.local.training.samples import MAX_TURNS, OPEN, Labels, Sample, benign
from turnwise.observers.local.weights import PRINCIPLES

HELD_OUT_TWINS = 15
"""Per cent of the pairs of the train split that calibrate and set operating points, and are never fitted."""

SHARED_WEIGHT = 0.15
"""Weight of a turn that both halves share: it can't tell them apart, and is seen twice."""

VARIANTS = 4
"""Forms in which each pair is learned from."""


@dataclass(frozen=True, slots=True)
class TwinSamples:
    """A pair as two samples whose turns stand at the same places.

    Args:
        attack: the half that turns.
        benign: the half that goes on in good faith.
    """

    attack: Sample
    benign: Sample


def read_pairs(folder: Path) -> tuple[list[Pair], dict[str, str]]:
    """Read the pairs of the train split, and no other.

    Args:
        folder: the folder with the JSONL files; ``splits.json`` lies beside it.

    Returns:
        The pairs in file order, and the SHA-256 of each file by its name behind the corpus folder.

    Raises:
        DatasetError: there are no splits, no pair for training, or a file that can't be read.
    """
    splits = folder.parent / SPLITS_FILE
    if not splits.exists():
        raise DatasetError(f"{splits} is missing: without it the pairs kept for tests would be trained on")
    pairs = list(load_twins(folder, "train"))
    if not pairs:
        raise DatasetError(f"{splits} gives no pair to train")
    files = [splits, *sorted(folder.glob("*.jsonl"))]
    names = {path: path.relative_to(folder.parent).as_posix() for path in files}
    return pairs, {f"corpus/{names[path]}": hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def is_held_out(pair: Pair) -> bool:
    """Tell whether a pair of the train split serves calibration rather than fitting."""
    return percentile(pair.name) < HELD_OUT_TWINS


def texts_of(twin: Twin) -> tuple[str, ...]:
    """Return the user turns of one half."""
    return tuple(turn.prompt for turn in twin.sequence.conversation.turns)


def samples_of(pair: Pair) -> TwinSamples:
    """Return a pair as samples: F and T of every turn as targets, shared turns with little weight.

    Args:
        pair: the pair.
    """
    return TwinSamples(_sample(pair.attack, pair.shared, 1.0), _sample(pair.benign, pair.shared, 0.0))


def _sample(twin: Twin, shared: int, violated: float) -> Sample:
    texts = texts_of(twin)
    false = tuple(_labels([twin.scores[name][turn].F for name in PRINCIPLES]) for turn in range(len(texts)))
    true = tuple(_labels([twin.scores[name][turn].T for name in PRINCIPLES]) for turn in range(len(texts)))
    # Of an attack, the principles that no turn plainly breaks stay open for the conversation as a whole.
    peaks = [max(series) for series in zip(*false, strict=True)]
    conversation = _labels([violated if violated == 0 or peak >= 0.5 else OPEN[0] for peak in peaks])
    weights = tuple(SHARED_WEIGHT if turn < shared else 1.0 for turn in range(len(texts)))
    kind = "twin_attack" if violated else "twin_benign"
    return Sample(kind, texts, conversation, false, true, turn_weights=weights).last()


def _labels(values: Sequence[float]) -> Labels:
    first, second, third = values
    return first, second, third


def variants(pair: TwinSamples, chats: Sequence[Sequence[str]], seed: int) -> list[TwinSamples]:
    """Return a pair in several forms, so that neither its start nor its place in a conversation is learned.

    The first form is the pair itself. In the others both halves follow the same harmless chat, or begin at a later
    shared turn.

    Args:
        pair: the pair.
        chats: harmless chats to put before it, user turns only.
        seed: seed of the random choices.
    """
    generator = random.Random(seed)
    shared = sum(weight == SHARED_WEIGHT for weight in pair.attack.turn_weights)
    forms = [pair]
    while len(forms) < VARIANTS:
        if generator.random() < 0.5 or not shared:
            chat = generator.choice(chats)[: generator.randint(1, 4)] if chats else ()
            forms.append(TwinSamples(_behind(chat, pair.attack), _behind(chat, pair.benign)))
        else:
            cut = generator.randint(1, shared)
            attack, benign_half = (half.last(len(half.texts) - cut) for half in (pair.attack, pair.benign))
            forms.append(TwinSamples(attack, benign_half))
    return forms


def _behind(chat: Sequence[str], half: Sample) -> Sample:
    start = benign(half.kind, chat)
    return replace(
        half,
        texts=start.texts + half.texts,
        turns=start.turns + half.turns,
        good_faith=start.good_faith + half.good_faith,
        turn_weights=(SHARED_WEIGHT,) * len(chat) + half.turn_weights,
    ).last(MAX_TURNS)
