"""``hmm``: the probability that a conversation is in its bad state now, given all scores so far."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from turnwise.detectors.kit.base import number
from turnwise.detectors.kit.likelihood import LikelihoodRatio
from turnwise.scoring import Score, TurnScores

_LARGEST = 700.0
"""Log odds at which the exponential is still finite."""


@dataclass(frozen=True, slots=True)
class Hmm(LikelihoodRatio):
    """Fires when the conversation is probably in its bad state now, given all scores so far.

    A hidden Markov model of two states, harmless and bad, with beta densities f0 and f1 of F. p_0 = start_bad;
    predicted_k = p_{k-1} · (1 - leave) + (1 - p_{k-1}) · enter; odds of p_k = odds of predicted_k · f1(F_k) /
    f0(F_k), for each principle on its own over its evaluated turns; score = max over principles of the log odds of
    p, which tells probabilities near 1 apart. Source: the forward filter of L. E. Baum and T. Petrie, "Statistical
    inference for probabilistic functions of finite state Markov chains", Annals of Mathematical Statistics 37
    (1966).

    Args:
        limit: log odds of the bad state from which it fires, such as 2.2 for 90 %; infinity never fires.
        enter: probability that a harmless conversation turns bad at a turn, in (0, 1).
        leave: probability that a bad one turns harmless again, in (0, 1).
        start_bad: probability that a conversation is bad before its first turn, in (0, 1).
        benign_a: first parameter of the density of harmless turns, above 0.
        benign_b: second parameter of the density of harmless turns, above 0.
        attack_a: first parameter of the density of bad turns, above 0.
        attack_b: second parameter of the density of bad turns, above 0.

    Raises:
        DetectorError: a parameter is out of range.

    >>> from turnwise.scoring import Score
    >>> detector = Hmm()
    >>> state = detector.start()
    >>> for turn, F in enumerate((0.1, 0.8, 0.8), start=1):
    ...     signal = detector.update(state, TurnScores(turn, {"reciprocity": Score(T=0.5, I=0.2, F=F)}))
    >>> signal.reason
    'reciprocity log odds of the bad state 4.051 ≥ 2.197 at turn 3'
    """

    name = "hmm"
    label: ClassVar[str] = "log odds of the bad state"

    limit: float = 2.1972245773362196
    enter: float = 0.05
    leave: float = 0.1
    start_bad: float = 0.02

    def __post_init__(self) -> None:
        LikelihoodRatio.__post_init__(self)
        for name in ("enter", "leave", "start_bad"):
            checked = number(self.name, name, getattr(self, name), 1e-9, 1.0 - 1e-9)
            object.__setattr__(self, name, checked)

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        """Take one more F into the log odds of a principle."""
        bad = self.start_bad if memory is None else 1.0 / (1.0 + math.exp(min(-memory, _LARGEST)))
        predicted = bad * (1.0 - self.leave) + (1.0 - bad) * self.enter
        odds = math.log(predicted / (1.0 - predicted))
        odds += self._densities.log_ratio(score.F)
        return odds, odds
