"""``shiryaev_roberts``: the odds that a conversation turned at some point so far, all points weighed alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from turnwise.detectors.kit.likelihood import LikelihoodRatio
from turnwise.scoring import Score, TurnScores


@dataclass(frozen=True, slots=True)
class ShiryaevRoberts(LikelihoodRatio):
    """Fires when it is likely that the conversation turned bad at some turn so far, whichever it was.

    R_k = (1 + R_{k-1}) · f1(F_k) / f0(F_k) with R_0 = 0, where f1 and f0 are beta densities of F on bad and on
    harmless turns, for each principle on its own over its evaluated turns; score = max over principles of log R.
    Unlike CUSUM it adds up the evidence for every possible turning point, which finds slow changes sooner. Source:
    A. N. Shiryaev, "On optimum methods in quickest detection problems", Theory of Probability and its Applications
    8 (1963); S. W. Roberts, "A comparison of some control chart procedures", Technometrics 8 (1966).

    Args:
        limit: log R from which it fires; infinity never fires.
        benign_a: first parameter of the density of harmless turns, above 0.
        benign_b: second parameter of the density of harmless turns, above 0.
        attack_a: first parameter of the density of bad turns, above 0.
        attack_b: second parameter of the density of bad turns, above 0.

    Raises:
        DetectorError: a parameter is out of range.

    >>> from turnwise.scoring import Score
    >>> detector = ShiryaevRoberts(limit=2.0)
    >>> state = detector.start()
    >>> for turn, F in enumerate((0.1, 0.5, 0.6), start=1):
    ...     signal = detector.update(state, TurnScores(turn, {"reciprocity": Score(T=0.5, I=0.2, F=F)}))
    >>> signal.reason
    'reciprocity log of Shiryaev-Roberts odds 2.667 ≥ 2.000 at turn 3'
    """

    name = "shiryaev_roberts"
    label: ClassVar[str] = "log of Shiryaev-Roberts odds"

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        """Take one more F into the log odds of a principle."""
        ratio = self._densities.log_ratio(score.F)
        odds = ratio if memory is None else ratio + _log_one_plus_exp(memory)
        return odds, odds


def _log_one_plus_exp(x: float) -> float:
    """log(1 + e^x) without overflow.

    >>> _log_one_plus_exp(0.0) == math.log(2), _log_one_plus_exp(5_000.0)
    (True, 5000.0)
    """
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))
