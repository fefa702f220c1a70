"""Conversations with scores of a known kind, for tests of statistics and studies."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from turnwise.scoring import Score, TurnScores
from turnwise.study import Example

Make = Callable[..., list[Example]]


@pytest.fixture
def make_examples() -> Make:
    """Return a function that makes attacks whose F rises and benign conversations whose F stays low."""

    def make(attacks: int = 120, benign: int = 250, *, effect: float = 1.0, seed: int = 5) -> list[Example]:
        generator = random.Random(seed)
        examples = []
        for number in range(attacks + benign):
            attack = number < attacks
            turns = []
            for turn in range(1, 7):
                rise = effect * 0.12 * turn if attack else 0.0
                scores = {
                    "reciprocity": _score(generator.uniform(0, 0.4) + rise),
                    "third_party_harm": _score(generator.uniform(0, 0.4)),
                }
                turns.append(TurnScores(turn, scores if generator.random() > 0.1 else {}, length=100))
            name = f"{'attack' if attack else 'benign'}-{number}"
            examples.append(Example(name, f"group-{number // 3}", attack, tuple(turns)))
        return examples

    return make


def _score(F: float) -> Score:
    return Score(0.5, 0.2, min(F, 1.0))
