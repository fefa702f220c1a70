"""Sequential tests for the turn at which a conversation turns bad: sums over F, ratios of two densities of F."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from turnwise.detectors.base import ByPrinciple, check_number
from turnwise.errors import DetectorError
from turnwise.scoring import Score, TurnScores

EDGE = 1e-3
"""F is moved this far from 0 and 1, where a beta density may vanish or be infinite."""

LARGEST = 4.0
"""Most that the logarithm of the ratio counts for in one turn, about 55 to 1: one turn is one piece of evidence,
however far it lies in the tail of a fitted density."""

_FEWEST = 10
_log, _log1p = math.log, math.log1p

_MOST_ODDS = 700.0
"""Log odds at which the exponential is still finite."""


@dataclass(frozen=True, slots=True)
class Cusum(ByPrinciple):
    """Fires when F stays above what a harmless turn may have for long enough, or far enough above it.

    S_k = max(0, S_{k-1} + F_k - drift) with S_0 = 0, for each principle on its own over its evaluated
    turns; score = max over principles of S. Source: the one-sided cumulative sum of E. S. Page, "Continuous
    inspection schemes", Biometrika 41 (1954).

    With the defaults one turn of F 0.75, two of 0.5 or six of 0.35 are enough, and a turn of F below 0.25
    takes evidence away. They fit no observer in particular: calibrate `limit` on harmless conversations.

    Args:
        drift: F that a harmless turn may have before evidence adds up, in [0, 1]; best halfway between the
            mean F of harmless turns and that of the turns to catch.
        limit: sum from which it fires, at least 0; infinity never fires.

    >>> detector = Cusum(drift=0.25, limit=0.5)
    >>> state = detector.start()
    >>> for turn in (1, 2):
    ...     signal = detector.update(state, TurnScores(turn, {"reciprocity": Score(T=0.4, I=0.3, F=0.5)}))
    ...     print(signal.score, signal.fired)
    0.25 False
    0.5 True
    """

    name = "cusum"
    label: ClassVar[str] = "CUSUM"

    drift: float = 0.25
    limit: float = 0.5

    def __post_init__(self) -> None:
        check_number(self, "drift", 0.0, 1.0)
        check_number(self, "limit", 0.0, never=True)

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        total = max(0.0, (memory or 0.0) + score.F - self.drift)
        return total, total


@dataclass(frozen=True, slots=True)
class PageHinkley(ByPrinciple):
    """Fires when F has risen above its own average so far, by enough or for long enough.

    mean_k = average of F_1 to F_k; U_k = U_{k-1} + F_k - mean_k - drift with U_0 = 0; PH_k = U_k - min over j ≤ k
    of U_j, for each principle on its own over its evaluated turns; score = max over principles of PH. Source: the
    one-sided test for an increase of E. S. Page (Biometrika 41, 1954) and D. V. Hinkley, "Inference about the
    change-point from cumulative sum tests", Biometrika 58 (1971). The fading that libraries for streams add is
    left out: it lets U rise from its minimum while nothing happens.

    It compares with the conversation itself, not with a fixed level: a user whose turns all have the same high F
    does not fire.

    Args:
        drift: F above the average that a turn may have before evidence adds up, at least 0.
        limit: evidence from which it fires, at least 0; infinity never fires.

    >>> detector = PageHinkley(drift=0.0, limit=0.5)
    >>> state = detector.start()
    >>> for turn, F in enumerate((0.1, 0.1, 0.5, 0.7), start=1):
    ...     signal = detector.update(state, TurnScores(turn, {"reciprocity": Score(T=0.5, I=0.2, F=F)}))
    >>> signal.reason
    'reciprocity Page-Hinkley 0.617 ≥ 0.500 at turn 4'
    """

    name = "page_hinkley"
    label: ClassVar[str] = "Page-Hinkley"

    drift: float = 0.02
    limit: float = 0.5

    def __post_init__(self) -> None:
        check_number(self, "drift", 0.0)
        check_number(self, "limit", 0.0, never=True)

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        n, mean, total, least = memory or (0, 0.0, 0.0, 0.0)
        n += 1
        mean += (score.F - mean) / n
        total += score.F - mean - self.drift
        least = total if n == 1 else min(least, total)
        return [n, mean, total, least], total - least


class Densities(NamedTuple):
    """The logarithm of the ratio of two beta densities: on_log · log F + on_rest · log(1 - F) + constant.

    >>> terms = Densities.of(benign_a=1, benign_b=4, attack_a=1, attack_b=1)
    >>> terms.log_ratio(0.2) < 0 < terms.log_ratio(0.8)
    True
    """

    on_log: float
    on_rest: float
    constant: float

    @classmethod
    def of(cls, benign_a: float, benign_b: float, attack_a: float, attack_b: float) -> Densities:
        """The terms for a beta density of F on harmless turns and one on bad turns; all parameters are above 0."""
        constant = _log_beta(benign_a, benign_b) - _log_beta(attack_a, attack_b)
        return cls(attack_a - benign_a, attack_b - benign_b, constant)

    def log_ratio(self, F: float) -> float:
        """log(density of F on bad turns / density of F on harmless turns), within ±`LARGEST`; F in [0, 1]."""
        inside = EDGE if F < EDGE else 1.0 - EDGE if F > 1.0 - EDGE else F
        on_log, on_rest, constant = self
        ratio = on_log * _log(inside) + on_rest * _log1p(-inside) + constant
        return -LARGEST if ratio < -LARGEST else LARGEST if ratio > LARGEST else ratio


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def fit_beta(values: Collection[float]) -> tuple[float, float]:
    """The parameters of the beta density with the mean and variance of some values of F, each in [0, 1].

    The method of moments: a = m·c and b = (1 - m)·c with c = m(1 - m)/v - 1 (N. L. Johnson, S. Kotz and
    N. Balakrishnan, "Continuous Univariate Distributions", volume 2, 1995, chapter 25). `DetectorError` where
    there are fewer than 10 values, or no spread among them.

    >>> a, b = fit_beta([n / 20 for n in range(21)])
    >>> round(a, 3), round(b, 3)
    (0.865, 0.865)
    """
    if len(values) < _FEWEST:
        raise DetectorError(
            f"{len(values)} values of F are too few to fit a density: at least {_FEWEST} are needed"
        )
    inside = [min(max(value, EDGE), 1.0 - EDGE) for value in values]
    mean = math.fsum(inside) / len(inside)
    variance = math.fsum((value - mean) ** 2 for value in inside) / len(inside)
    if variance <= 0.0 or variance >= mean * (1.0 - mean):
        raise DetectorError("the values of F are all the same, or all 0 and 1: a density needs values that differ")
    concentration = mean * (1.0 - mean) / variance - 1.0
    return mean * concentration, (1.0 - mean) * concentration


@dataclass(frozen=True, slots=True)
class LikelihoodRatio(ByPrinciple):
    """A detector over two beta densities of F, one of harmless turns and one of bad turns.

    The defaults take a harmless F as falling off steeply and a bad one as equally likely everywhere; ``turnwise
    tune`` learns the densities from a run.
    """

    limit: float = 4.6
    benign_a: float = field(default=1.0, kw_only=True)
    benign_b: float = field(default=4.0, kw_only=True)
    attack_a: float = field(default=1.0, kw_only=True)
    attack_b: float = field(default=1.0, kw_only=True)
    _densities: Densities = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_number(self, "limit", never=True)
        for name in ("benign_a", "benign_b", "attack_a", "attack_b"):
            check_number(self, name, 0.0, above=True)
        densities = Densities.of(self.benign_a, self.benign_b, self.attack_a, self.attack_b)
        object.__setattr__(self, "_densities", densities)


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
        check_number(self, "lower", -1e6, -1e-6)

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        total: float = (memory or 0.0) + self._densities.log_ratio(score.F)
        # The value shown is that at which the test decided; what goes on is a test begun anew.
        return (0.0 if total <= self.lower else total), total


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
        ratio = self._densities.log_ratio(score.F)
        odds = ratio if memory is None else ratio + _log_one_plus_exp(memory)
        return odds, odds


def _log_one_plus_exp(x: float) -> float:
    """log(1 + e^x) without overflow.

    >>> _log_one_plus_exp(0.0) == math.log(2), _log_one_plus_exp(5_000.0)
    (True, 5000.0)
    """
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


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
            check_number(self, name, 1e-9, 1.0 - 1e-9)

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        bad = self.start_bad if memory is None else 1.0 / (1.0 + math.exp(min(-memory, _MOST_ODDS)))
        predicted = bad * (1.0 - self.leave) + (1.0 - bad) * self.enter
        odds = math.log(predicted / (1.0 - predicted))
        odds += self._densities.log_ratio(score.F)
        return odds, odds
