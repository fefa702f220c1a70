"""Labelled conversations as a study reads them: their scores, their groups, and splits by group."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnwise.conversation import Label
from turnwise.errors import UsageError
from turnwise.scoring import TurnScores

if TYPE_CHECKING:
    from turnwise.store import Store


@dataclass(frozen=True, slots=True)
class Example:
    """One conversation of known label.

    Args:
        group: what it shares with others that must not be on another side of a split, such as the goal of the
            attack; its own id where there is nothing.
        turns: scores turn by turn, from turn 1.
    """

    sequence_id: str
    group: str
    attack: bool
    turns: tuple[TurnScores, ...]


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


_RESOLUTION = 2**64


def split_by_group(
    examples: Iterable[Example], shares: Mapping[str, float], seed: int = 0
) -> dict[str, list[Example]]:
    """Divide examples by their groups, attacks and benign ones each in the given shares.

    Within each label the groups are ordered by a hash of seed and name and dealt out in that order, so the same
    examples and seed give the same splits on every machine, whatever their order.

    A group with both labels, such as a pair that begins alike, is dealt out with the attacks.

    Args:
        examples: the conversations.
        shares: share of the groups by name of the split, in order; positive, adding up to 1.
        seed: changes the order.

    Returns:
        The examples by split, in their given order.

    Raises:
        UsageError: shares that are not positive or do not add up to 1.

    >>> examples = [Example(f"a{n}", f"goal {n // 2}", True, ()) for n in range(8)]
    >>> {name: len(part) for name, part in split_by_group(examples, {"train": 0.5, "test": 0.5}).items()}
    {'train': 4, 'test': 4}
    """
    if any(share <= 0 for share in shares.values()) or abs(sum(shares.values()) - 1) > 1e-9:
        raise UsageError(f"shares of a split must be positive and add up to 1, not {dict(shares)}")
    given = list(examples)
    attacked = {example.group for example in given if example.attack}
    benign = {example.group for example in given} - attacked
    place = {
        group: name
        for groups in (attacked, benign)
        for group, name in _dealt(sorted(groups), shares, seed).items()
    }
    return {name: [example for example in given if place[example.group] == name] for name in shares}


def _dealt(groups: Sequence[str], shares: Mapping[str, float], seed: int) -> dict[str, str]:
    ordered = sorted(groups, key=lambda group: _fraction(group, seed))
    place: dict[str, str] = {}
    begun, upto = 0, 0.0
    for name, share in shares.items():
        upto += share
        end = round(upto * len(ordered))
        place |= dict.fromkeys(ordered[begun:end], name)
        begun = end
    return place


def _fraction(group: str, seed: int) -> float:
    digest = hashlib.sha256(f"{seed}:{group}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / _RESOLUTION
