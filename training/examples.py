"""A judged conversation, as training and calibration take it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TRAIN = "train"

Triples = tuple[tuple[float, float, float], ...]
"""T, I and F of each principle."""


@dataclass(frozen=True, slots=True)
class Example:
    """A conversation with what readers said of its texts.

    Args:
        id: the conversation's id.
        source: the data set.
        split: ``train``, ``dev``, ``test``, ``operating`` or a held-out split of the twins.
        turns: prompt and reply of each turn; replies are None where they may not be used.
        judged: triples by mode (``history``, ``turn``, ``replies``) and turn number; the mean of both readings
            where there are two.
        pair: name of the pair that it is half of; None for others.
        attack: whether it is the attack of its pair, or labelled one.
        first: number of the first turn in which the halves of the pair differ; 1 for others.
        harm_at: first turn of the attack whose compliance would do harm, where the pair says so; the same in
            both halves.
        language: of its prompts, where it is known to be another than English.
    """

    id: str
    source: str
    split: str
    turns: tuple[tuple[str, str | None], ...]
    judged: Mapping[str, Mapping[int, Triples]]
    pair: str | None = None
    attack: bool = False
    first: int = 1
    harm_at: int | None = None
    language: str = "en"
