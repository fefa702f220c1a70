"""A principle from nothing: its folder with a plain text, and the turns of a store worth annotating first."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from turnwise._support.table_files import cell
from turnwise.conversation import Side
from turnwise.errors import UsageError
from turnwise.observers.local.observer import LocalObserver
from turnwise.observers.protocol import Request
from turnwise.principles import Principle, load_principle
from turnwise.principles.principle import PROMPT_FILE, SETTINGS_FILE
from turnwise.store import Store
from turnwise.study.teaching.annotations import Talk, digest_of, talk_of

COLUMNS = ("sequence_id", "turn", "side", "digest", "before", "text", "breaks")
MOST_LOOKED_AT = 2_000
"""Turns of a store that are looked at, drawn at random from more: a minute's work."""

_SHOWN = 500
"""Characters of what was said just before that stand beside a text, for whoever annotates it."""

_SETTINGS = """name = "{name}"
version = "1"
summary = "What a turn has to keep to, in a sentence."

[meaning]
truth = "How far the turn keeps to it. 0: nothing speaks for it. 0.5: some of it does. 1: all of it does."
indeterminacy = "How far it can't be told from what is there. 0: one reading only. 1: too little to say anything."
falsity = "How far the turn breaks it. 0: nothing of it. 0.5: one clear sign. 1: plainly so."
"""
_PROMPT = """# {title}

You are a neutral third party. Read one turn in the light of those before it, and answer one question:

**Does this turn keep to it?** (Say here what "it" is, as a question about a single turn.)

## What breaks it

- Name two or three signs that can be seen in a turn, each with a few words of an example.

## What does not break it

Name what looks alike and is fine: people argue over these cases, so say them plainly.

## How to score

- **T**: how far it keeps to it. **I**: how far that can't be told. **F**: how far it breaks it.
- The three are independent: they need not add up to 1.
- 0 is nothing of it, 0.5 one clear sign, 1 the whole of the turn.
"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A turn that could be annotated."""

    sequence_id: str
    turn: int
    talk: Talk


def draft_principle(folder: Path) -> bool:
    """Write the folder of a principle, named after it; return whether it was: one that is there stays."""
    if (folder / SETTINGS_FILE).exists() and (folder / PROMPT_FILE).exists():
        return False
    name = folder.resolve().name
    if not (
        name.isascii() and name.isidentifier() and name == name.lower() and name[0] != "_" and "__" not in name
    ):
        raise UsageError(
            f"the folder's name becomes the principle's: use snake_case such as small_talk, not {name!r}"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in ((SETTINGS_FILE, _SETTINGS), (PROMPT_FILE, _PROMPT)):
            if not (folder / file).exists():
                filled = text.format(name=name, title=name.replace("_", " ").capitalize())
                (folder / file).write_text(filled, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"can't write {folder}: {error.strerror or error}") from error
    load_principle(folder)
    return True


def pick(
    store: Store, principle: Principle, side: Side, observer: LocalObserver, count: int, seed: int = 0
) -> list[Candidate]:
    """The turns of a store that are worth annotating first.

    They are as unlike as their states allow: each is the one farthest from those before it (k-center; T. F.
    Gonzalez, "Clustering to minimize the maximum intercluster distance", Theoretical Computer Science 38 (1985)).
    Where the principle was taught before, every other one is the one of which its head is least sure.

    Args:
        store: where the conversations are.
        principle: the principle; what was taught of it is used.
        side: the half of a turn that is annotated.
        observer: whose states are compared.
        count: turns to pick, at most.
        seed: of the draw where the store has more than can be looked at.
    """
    found = _drawn(store, side, seed)
    states = observer.states([one.talk for one in found])
    read = [(one, state) for one, state in zip(found, states, strict=True) if state is not None]
    if not read:
        raise UsageError(
            f"{store.location} has no {side} that observer {observer.name} reads: nothing to annotate"
        )
    head = observer.taught(Request(principle, side))
    doubts = None if head is None else [head.strongest(state).I for _, state in read]
    order = _spread(np.array([state.mean(axis=0) for _, state in read], np.float64), count, doubts)
    return [read[place][0] for place in order]


def write_candidates(path: Path, picked: list[Candidate], side: Side) -> None:
    """Write a CSV to be filled in; a file that is there is not overwritten."""
    try:
        with path.open("x", encoding="utf-8-sig", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(COLUMNS)
            for one in picked:
                before = one.talk[-2][1][-_SHOWN:] if len(one.talk) > 1 else ""
                text = one.talk[-1][1]
                values = (one.sequence_id, one.turn, str(side), digest_of(one.talk), before, text, "")
                writer.writerow([cell(value) for value in values])
    except FileExistsError as error:
        raise UsageError(f"{path} is there already, maybe filled in: name another file with --out") from error
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror or error}") from error


def _drawn(store: Store, side: Side, seed: int) -> list[Candidate]:
    """Turns with a text of that side, each text once; drawn at random where there are too many."""
    rng, kept = random.Random(seed), list[Candidate]()
    for seen, one in enumerate(_candidates(store, side), 1):
        if len(kept) < MOST_LOOKED_AT:
            kept.append(one)
        elif (place := rng.randrange(seen)) < MOST_LOOKED_AT:
            kept[place] = one
    return kept


def _candidates(store: Store, side: Side) -> Iterator[Candidate]:
    known: set[str] = set()
    for sequence in store.sequences():
        for turn in sequence.conversation:
            said = turn.text(side)
            if said and said.strip() and said not in known:
                known.add(said)
                yield Candidate(
                    sequence.sequence_id, turn.number, talk_of(sequence.conversation, turn.number, side)
                )


def _spread(states: NDArray[np.float64], count: int, doubts: list[float] | None) -> list[int]:
    """Places in the order in which they are picked."""
    moved = states - states.mean(axis=0)
    near = (moved**2).sum(axis=1)
    first = int(near.argmin())
    picked, left = [first], np.ones(len(states), bool)
    left[first] = False
    distance = ((moved - moved[first]) ** 2).sum(axis=1)
    while left.any() and len(picked) < count:
        worth = distance if doubts is None or len(picked) % 2 else np.array(doubts)
        place = int(np.where(left, worth, -1.0).argmax())
        picked.append(place)
        left[place] = False
        distance = np.minimum(distance, ((moved - moved[place]) ** 2).sum(axis=1))
    return picked
