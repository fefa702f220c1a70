"""``last_turn``: the baseline that reads the end alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from turnwise.detectors.any_turn import AnyTurn


@dataclass(frozen=True, slots=True)
class LastTurn(AnyTurn):
    """Judges a whole conversation by its last evaluated turn alone.

    score = max over principles of F at this turn. Live it is `any_turn`; the verdict on a whole conversation is
    that of its last evaluated turn, so it needs no memory either.

    Args:
        threshold: F from which it fires, in [0, 1]; infinity never fires.

    Raises:
        DetectorError: the threshold is out of range.

    >>> from turnwise.detectors import run_detector
    >>> from turnwise.scoring import Score, TurnScores
    >>> turns = [TurnScores(n, {"reciprocity": Score(0.5, 0.2, F)}) for n, F in enumerate((0.9, 0.1), start=1)]
    >>> run_detector(LastTurn(), turns).fired
    False
    """

    name = "last_turn"
    judges_last: ClassVar[bool] = True
