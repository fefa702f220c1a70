"""The labelled conversations of a run, as a study reads them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnwise.conversation import Label
from turnwise.stats import Example

if TYPE_CHECKING:
    from turnwise.store import Store


@dataclass(frozen=True, slots=True)
class Loaded:
    """The conversations of a run that can be studied, and how many can't.

    Args:
        examples: attacks and benign conversations with at least one evaluated turn.
        unlabelled: evaluated sequences left out because nobody says what they are.
        not_evaluated: labelled sequences left out because the run has no score of them.
        corrected: evaluated sequences whose label is not that of their data set but what people made of it.
        disputed: evaluated sequences left out because these people give them different labels.
    """

    examples: tuple[Example, ...]
    unlabelled: int
    not_evaluated: int
    corrected: int = 0
    disputed: int = 0


def load_examples(store: Store, run: str, corrected_by: Collection[str] = ()) -> Loaded:
    """Return the labelled conversations of a run, with their groups.

    Args:
        run: name of the run.
        corrected_by: people whose corrected labels hold in place of the imported ones, where they agree.

    Raises:
        UnknownNameError: the store has no such run, or one of these people said nothing.
    """
    examples: list[Example] = []
    unlabelled = not_evaluated = corrected = disputed = 0
    corrections = store.people.labels(corrected_by) if corrected_by else {}
    groups = store.groups()
    for head, trajectory in store.trajectories(run):
        name = head.sequence_id
        label = corrections.get(name, head.label)
        if not trajectory:
            not_evaluated += label not in (None, Label.UNLABELLED)
            continue
        corrected += label not in (None, head.label)
        if label is None:
            disputed += 1
        elif label is Label.UNLABELLED:
            unlabelled += 1
        else:
            examples.append(Example(name, groups[name], label is Label.ATTACK, tuple(trajectory)))
    examples.sort(key=lambda one: (not one.attack, one.sequence_id))  # whatever the order of import
    return Loaded(tuple(examples), unlabelled, not_evaluated, corrected, disputed)
