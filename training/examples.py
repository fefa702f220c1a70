"""A judged conversation, as training and calibration take it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TRAIN = "train"

Triples = tuple[tuple[float, float, float], ...]
"""T, I and F of each principle."""


@dataclass(frozen=True, slots=True)
class Example:
    """A conversation with what readers said of its texts."""

    id: str  # the conversation's id
    source: str  # the data set
    split: str  # ``train``, ``dev``, ``test``, ``operating`` or a held-out split of the twins
    # prompt and reply of each turn; replies are None where they may not be used
    turns: tuple[tuple[str, str | None], ...]
    # triples by mode (``history``, ``turn``, ``replies``) and turn number; the mean of both readings where there
    # are two
    judged: Mapping[str, Mapping[int, Triples]]
    pair: str | None = None  # name of the pair that it is half of; None for others
    attack: bool = False  # whether it is the attack of its pair, or labelled one
    first: int = 1  # number of the first turn in which the halves of the pair differ; 1 for others
    # first turn of the attack whose compliance would do harm, where the pair says so; the same in both halves
    harm_at: int | None = None
    language: str = "en"  # of its prompts, where it is known to be another than English
