"""A labelled conversation as a study sees it: its scores, turn by turn, and the group it belongs to."""

from __future__ import annotations

from dataclasses import dataclass

from turnwise.scoring import TurnScores


@dataclass(frozen=True, slots=True)
class Example:
    """One conversation of known label.

    Args:
        sequence_id: its id.
        group: what it shares with others that must not be on another side of a split, such as the goal of the
        attack;
            its own id where there is nothing.
        attack: whether it is an attack.
        turns: scores turn by turn, from turn 1.
    """

    sequence_id: str
    group: str
    attack: bool
    turns: tuple[TurnScores, ...]
