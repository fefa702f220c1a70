"""``sprt``: the sequential probability ratio test, started anew whenever a conversation looks harmless."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from turnwise.detectors.kit.base import number
from turnwise.detectors.kit.likelihood import LikelihoodRatio
from turnwise.scoring import Score, TurnScores


@dataclass(frozen=True, slots=True)
class Sprt(LikelihoodRatio):
    """Fires when the scores so far are much likelier for an attack than for a harmless conversation.

    L_k = L_{k-1} + log(f1(F_k) / f0(F_k)), where f1 and f0 are beta densities of F on bad and on harmless turns,
    for each principle on its own over its evaluated turns; score = max over principles of L. When L falls to
    `lower` the conversation is taken for harmless and the test starts anew at 0, so that a long harmless stretch
    can't outweigh what comes later. Source: A. Wald, "Sequential tests of statistical hypotheses", Annals of
    Mathematical Statistics 16 (1945); his limits are log((1 - miss) / false alarm) and log(miss / (1 - false
    alarm)), 4.6 and -2.3 for 1 % and 10 %. Turns are not independent: calibrate `limit` on conversations.

    Args:
        limit: L from which it fires; infinity never fires.
        lower: L at which the test starts anew, below 0.
        benign_a: first parameter of the density of harmless turns, above 0.
        benign_b: second parameter of the density of harmless turns, above 0.
        attack_a: first parameter of the density of bad turns, above 0.
        attack_b: second parameter of the density of bad turns, above 0.

    Raises:
        DetectorError: a parameter is out of range.

    >>> from turnwise.scoring import Score
    >>> detector = Sprt(limit=1.0)
    >>> state = detector.start()
    >>> for turn, F in enumerate((0.1, 0.5, 0.6), start=1):
    ...     signal = detector.update(state, TurnScores(turn, {"reciprocity": Score(T=0.5, I=0.2, F=F)}))
    >>> signal.reason
    'reciprocity log-likelihood ratio 0.986 < 1.000 at turn 3'
    """

    name = "sprt"
    label: ClassVar[str] = "log-likelihood ratio"

    lower: float = -2.3

    def __post_init__(self) -> None:
        LikelihoodRatio.__post_init__(self)
        object.__setattr__(self, "lower", number(self.name, "lower", self.lower, -1e6, -1e-6))

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        """Take one more F into the log-likelihood ratio of a principle."""
        total: float = (memory or 0.0) + self._densities.log_ratio(score.F)
        # The value shown is that at which the test decided; what goes on is a test begun anew.
        return (0.0 if total <= self.lower else total), total
