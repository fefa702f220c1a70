"""Labelled conversations of a run, as a study sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnwise.conversation import Label
from turnwise.study.example import Example

if TYPE_CHECKING:
    from turnwise.store import Store


@dataclass(frozen=True, slots=True)
class Loaded:
    """The conversations of a run that can be studied, and how many can't.

    Args:
        examples: attacks and benign conversations with at least one evaluated turn.
        unlabelled: evaluated sequences left out because nobody says what they are.
        not_evaluated: labelled sequences left out because the run has no score of them.
    """

    examples: tuple[Example, ...]
    unlabelled: int
    not_evaluated: int


def load_examples(store: Store, run: str) -> Loaded:
    """Return the labelled conversations of a run, with their groups.

    Args:
        store: the record.
        run: name of the run.

    Raises:
        UnknownNameError: the store has no such run.
    """
    examples: list[Example] = []
    not_evaluated = 0
    for label in (Label.ATTACK, Label.BENIGN):
        groups = store.groups(label=label)
        for head, trajectory in store.trajectories(run, label=label):
            if not trajectory:
                not_evaluated += 1
                continue
            name = head.sequence_id
            examples.append(Example(name, groups[name], label is Label.ATTACK, tuple(trajectory)))
    unlabelled = sum(bool(found) for _, found in store.trajectories(run, label=Label.UNLABELLED))
    return Loaded(tuple(examples), unlabelled, not_evaluated)
