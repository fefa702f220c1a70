"""Labelled conversations as statistics read them: their scores, their groups, and splits by group."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from turnwise.errors import UsageError
from turnwise.scoring import TurnScores


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
