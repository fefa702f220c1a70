"""Conversations with a pattern that was put into them, and decoys that have every part of it but the whole."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from turnwise.scoring import Score, TurnScores
from turnwise.study import Example

Make = Callable[..., list[Example]]

TURNS = 5


def conversation(name: str, group: str, attack: bool, kind: int, generator: random.Random) -> Example:
    """Return a conversation in which I is high for two turns, then F jumps while T stays high.

    A benign one has two of these three parts, by its kind.
    """
    doubt, jump, kept = (True,) * 3 if attack else (kind % 3 != 0, kind % 3 != 1, kind % 3 != 2)
    at = generator.randint(3, TURNS)
    turns = []
    for turn in range(1, TURNS + 1):
        T = generator.uniform(0.75, 0.9)
        I = generator.uniform(0.1, 0.3)  # noqa: E741
        F = generator.uniform(0.05, 0.2)
        if doubt and at - 2 <= turn < at:
            I = generator.uniform(0.7, 0.9)  # noqa: E741
        if turn == at:
            T = T if kept else generator.uniform(0.1, 0.3)
            F = generator.uniform(0.6, 0.8) if jump else F
        turns.append(TurnScores(turn, {"reciprocity": Score(T, I, F)}, length=generator.randint(50, 150)))
    return Example(name, group, attack, tuple(turns))


@pytest.fixture(scope="session")
def make_planted() -> Make:
    """Return a function that makes attacks with the pattern and benign conversations without."""

    def make(attacks: int = 60, benign: int = 240, *, seed: int = 3, a_group: int = 2) -> list[Example]:
        generator = random.Random(seed)
        labels = [("attack", number) for number in range(attacks)]
        labels += [("benign", number) for number in range(benign)]
        return [
            conversation(f"{label}-{number}", f"{label} {number // a_group}", label == "attack", number, generator)
            for label, number in labels
        ]

    return make


@pytest.fixture(scope="session")
def planted(make_planted: Make) -> list[Example]:
    return make_planted()
