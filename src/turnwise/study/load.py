"""Labelled conversations of a run, as a study sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turnwise.conversation import Label
from turnwise.study.example import Example

if TYPE_CHECKING:
    from turnwise.store import Store

GROUP_KEYS = ("group", "goal", "intent", "pair")
"""Keys of the metadata that say what a sequence shares with others, the first that is there."""


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
        groups = {
            sequence.sequence_id: group_of(sequence.metadata, sequence.sequence_id)
            for sequence in store.sequences(label=label)
        }
        for head, trajectory in store.trajectories(run, label=label):
            if not trajectory:
                not_evaluated += 1
                continue
            name = head.sequence_id
            examples.append(Example(name, groups[name], label is Label.ATTACK, tuple(trajectory)))
    unlabelled = sum(bool(found) for _, found in store.trajectories(run, label=Label.UNLABELLED))
    return Loaded(tuple(examples), unlabelled, not_evaluated)


def group_of(metadata: Mapping[str, Any], sequence_id: str) -> str:
    """Return the group of a sequence: what its metadata say it shares with others, else its id.

    >>> group_of({"goal": "open the lock", "kind": "test"}, "a-1"), group_of({}, "a-1")
    ('open the lock', 'a-1')
    """
    for key in GROUP_KEYS:
        value = metadata.get(key)
        if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
            return str(value)
    return sequence_id
