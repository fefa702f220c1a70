"""How many sequences a study needs: exact power of the tests it will use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from turnwise.errors import UsageError
from turnwise.stats.thresholds import needed_benign

Dependence = Literal["independent", "most favourable", "least favourable"]
"""How often the two arms catch the same attacks: by chance, as often as can be, as seldom as can be."""

DEPENDENCES: tuple[Dependence, ...] = ("independent", "most favourable", "least favourable")

MOST = 20_000
"""Sequences beyond which the search gives up."""

MOST_UNPAIRED = 1_000
"""Sequences an arm up to which Fisher's test is worked out exactly; its cost grows with their square."""


@dataclass(frozen=True, slots=True)
class StudySize:
    """How many attacks a comparison of two recalls needs.

    Args:
        stateless: recall expected of the arm that sees one turn.
        temporal: recall expected of the arm that looks over time.
        power: probability of finding the difference.
        alpha: level of the two-sided test.
        paired: attacks that both arms judge, by assumption on how the arms depend; None where even `MOST` are too
            few.
        unpaired: attacks an arm, where the arms judge different ones; None where even `MOST_UNPAIRED` are too few.
        benign: benign conversations that a threshold at 1 % with 95 % confidence needs.
    """

    stateless: float
    temporal: float
    power: float
    alpha: float
    paired: dict[Dependence, int | None]
    unpaired: int | None
    benign: int


def study_size(stateless: float, temporal: float, power: float = 0.8, alpha: float = 0.05) -> StudySize:
    """Return how many sequences a study needs to tell two recalls apart.

    Args:
        stateless: recall of one arm, in [0, 1].
        temporal: recall of the other, in [0, 1] and different.
        power: wanted probability of finding the difference, in (alpha, 1).
        alpha: level of the two-sided test, in (0, 1).

    Raises:
        UsageError: an argument out of range, or equal recalls.

    >>> size = study_size(0.3, 0.8)
    >>> size.paired["independent"], size.paired["most favourable"], size.paired["least favourable"]
    (19, 15, 30)
    >>> size.unpaired, size.benign
    (18, 299)
    """
    _check(stateless, temporal, alpha)
    if stateless == temporal:
        raise UsageError("the two recalls must differ: no study can find a difference that is not there")
    if not alpha < power < 1:
        raise UsageError(f"power must lie in (alpha, 1), not {power:g}")
    paired: dict[Dependence, int | None] = {}
    for dependence in DEPENDENCES:
        only_stateless, only_temporal = discordant(stateless, temporal, dependence)
        paired[dependence] = _least(
            lambda n, b=only_stateless, c=only_temporal: _mcnemar_power(n, b, c, alpha),  # type: ignore[misc]
            power,
            MOST,
        )
    unpaired = _least(lambda n: unpaired_power(n, stateless, temporal, alpha), power, MOST_UNPAIRED)
    return StudySize(stateless, temporal, power, alpha, paired, unpaired, needed_benign(0.01))


def discordant(stateless: float, temporal: float, dependence: Dependence) -> tuple[float, float]:
    """The shares of attacks that only one of the arms catches, stateless first.

    Recalls alone don't give them. Independent arms catch the same attacks by chance; the most favourable case is
    that one arm catches all the other does; the least favourable, that they catch different ones as far as can be.

    >>> [round(share, 3) for share in discordant(0.3, 0.8, "independent")]
    [0.06, 0.56]
    >>> [round(share, 3) for share in discordant(0.3, 0.8, "least favourable")]
    [0.2, 0.7]
    """
    both = {
        "independent": stateless * temporal,
        "most favourable": min(stateless, temporal),
        "least favourable": max(0.0, stateless + temporal - 1),
    }[dependence]
    return max(0.0, stateless - both), max(0.0, temporal - both)


def paired_power(
    pairs: int, stateless: float, temporal: float, dependence: Dependence = "independent", alpha: float = 0.05
) -> float:
    """Return the exact probability that the exact McNemar test finds the difference.

    Unconditional: the number of attacks on which the arms differ is itself chance, so the power given that
    number is averaged over it. Source: S. W. Duffy, "Asymptotic and exact power for the McNemar test and its
    analogue with R controls per case", Biometrics 40 (1984).

    Args:
        pairs: attacks that both arms judge, at least 1.
        stateless: recall of one arm, in [0, 1].
        temporal: recall of the other, in [0, 1].
        dependence: one of `DEPENDENCES`.
        alpha: level of the two-sided test, in (0, 1).

    Raises:
        UsageError: an argument out of range.

    >>> round(paired_power(21, 0.3, 0.8), 4)
    0.8542
    """
    _check(stateless, temporal, alpha)
    if pairs < 1:
        raise UsageError(f"a study needs at least 1 pair, not {pairs}")
    return _mcnemar_power(pairs, *discordant(stateless, temporal, dependence), alpha)


def unpaired_power(arm: int, stateless: float, temporal: float, alpha: float = 0.05) -> float:
    """Return the exact probability that Fisher's exact test finds the difference between two arms of equal size.

    Source: R. A. Fisher, "The Design of Experiments", 1935; the power is the sum over all outcomes.

    Args:
        arm: attacks that each arm judges, others than the other arm's; at least 1.
        stateless: recall of one arm, in [0, 1].
        temporal: recall of the other, in [0, 1].
        alpha: level of the two-sided test, in (0, 1).

    Raises:
        UsageError: an argument out of range.

    >>> round(unpaired_power(20, 0.3, 0.8), 4)
    0.8461
    """
    _check(stateless, temporal, alpha)
    if arm < 1:
        raise UsageError(f"an arm needs at least 1 sequence, not {arm}")
    from scipy.special import gammaln
    from scipy.stats import binom

    first = binom.pmf(np.arange(arm + 1), arm, stateless)
    second = binom.pmf(np.arange(arm + 1), arm, temporal)
    ways = gammaln(arm + 1) - gammaln(np.arange(arm + 1) + 1) - gammaln(arm - np.arange(arm + 1) + 1)
    found = 0.0
    for total in range(1, 2 * arm):
        counts = np.arange(max(0, total - arm), min(arm, total) + 1)
        chance = np.exp(
            ways[counts] + ways[total - counts] - np.logaddexp.reduce(ways[counts] + ways[total - counts])
        )
        order = np.argsort(chance, kind="stable")
        upto = np.cumsum(chance[order])
        last = np.searchsorted(chance[order], chance * (1 + 1e-7), side="right") - 1
        rejected = upto[last] <= alpha
        found += float((first[counts] * second[total - counts])[rejected].sum())
    return found


def _mcnemar_power(pairs: int, only_first: float, only_second: float, alpha: float) -> float:
    from scipy.stats import binom

    either = min(1.0, only_first + only_second)
    if either == 0:
        return 0.0
    # What is less likely than 1e-15 adds nothing that a float could show.
    least, most = binom.ppf(1e-15, pairs, either), binom.isf(1e-15, pairs, either)
    differing = np.arange(int(least), int(most) + 1)
    largest = _critical(differing, alpha)
    toward = only_second / (only_first + only_second)
    # sf(m - k - 1) is P(X ≥ m - k); a critical value of -1 gives P(X ≥ m + 1) = 0.
    rejected = binom.cdf(largest, differing, toward) + binom.sf(differing - largest - 1, differing, toward)
    return float(binom.pmf(differing, pairs, either) @ rejected)


def _critical(differing: NDArray[np.int_], alpha: float) -> NDArray[np.int_]:
    """For each number of differing pairs, the largest smaller count that is rejected; -1 if none."""
    from scipy.stats import binom

    guess = binom.ppf(alpha / 2, differing, 0.5)
    guess = np.where(differing == 0, 0, guess).astype(int)
    for _ in range(2):
        guess = np.where(2 * binom.cdf(guess, differing, 0.5) > alpha * (1 + 1e-12), guess - 1, guess)
    return np.where(differing == 0, -1, np.maximum(guess, -1))


def _least(power_at: Callable[[int], float], wanted: float, most: int) -> int | None:
    """The least number from which on the power suffices."""
    # Exact power goes up and down from one size to the next, so after the bisection the last size that fails is
    # looked for around it.
    high = 2
    while power_at(high) < wanted:
        if high == most:
            return None
        high = min(2 * high, most)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power_at(middle) >= wanted else (middle, high)
    tooth = max(12, high // 50)
    last_failing = next(
        (size for size in range(high + tooth, high - tooth, -1) if size > 0 and power_at(size) < wanted), 0
    )
    return last_failing + 1


def _check(stateless: float, temporal: float, alpha: float) -> None:
    for name, value in (("stateless", stateless), ("temporal", temporal)):
        if not 0 <= value <= 1:
            raise UsageError(f"{name} recall must lie in [0, 1], not {value:g}")
    if not 0 < alpha < 1:
        raise UsageError(f"alpha must lie in (0, 1), not {alpha:g}")
