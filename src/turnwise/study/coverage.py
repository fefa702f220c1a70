"""Whether intervals keep their word: the share that contain the truth, in a made-up world where it is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnwise.errors import UnknownNameError, UsageError
from turnwise.rates import Rate, clopper_pearson
from turnwise.study.agreement import icc_within, krippendorff_alpha
from turnwise.study.auc import Scale, auc_with_interval, delong_test
from turnwise.study.bootstrap import Method, difference, interval, resamples
from turnwise.study.operating import false_alarms
from turnwise.study.survival import kaplan_meier
from turnwise.study.verdicts import Judged, confusion
from turnwise.study.weighted import (
    auc_of,
    delay_of,
    f1_of,
    false_positive_rate_of,
    precision_of,
    recall_at_of,
    recall_of,
)

if TYPE_CHECKING:
    import numpy as np

    from turnwise.study.bootstrap import Statistic


@dataclass(frozen=True, slots=True)
class World:
    """A made-up world of conversations in groups, in which every number is known.

    The score of a conversation is normal with variance 1: around 0 where it is benign, around `gap` where it is
    an attack. Scores of a group share `resemblance` of their variance, and two detectors correlate by 0.71.
    What scores above `threshold` is flagged. The turn of an attack's first flag is geometric, and it ends by
    chance.

    Args:
        groups: groups of each label.
        size: conversations of a group.
        gap: how far attacks lie above benign conversations, in standard deviations.
        resemblance: share of the variance that conversations of a group have in common, in [0, 1).
        threshold: score from which a conversation is flagged.
        hazard: probability that an attack not yet flagged is flagged at its next turn, in (0, 1).
        turns: turns of the longest conversation.
        alarm: mean probability that a benign turn begins an alarm, in (0, 1).

    Raises:
        UsageError: an argument out of range.

    >>> world = World()
    >>> round(world.auc, 4), round(world.recall, 4), round(world.false_positive_rate, 4)
    (0.8556, 0.6915, 0.1587)
    """

    groups: int = 60
    size: int = 3
    gap: float = 1.5
    resemblance: float = 0.4
    threshold: float = 1.0
    hazard: float = 0.15
    turns: int = 12
    alarm: float = 0.02

    def __post_init__(self) -> None:
        if min(self.groups, self.size, self.turns) < 1 or not 0 <= self.resemblance < 1:
            raise UsageError("a made-up world needs groups, conversations, turns, and a resemblance in [0, 1)")
        if not (0 < self.hazard < 1 and 0 < self.alarm < 1):
            raise UsageError("hazard and alarm are probabilities in (0, 1)")

    @property
    def auc(self) -> float:
        """The true area under the ROC curve."""
        return _normal(self.gap / math.sqrt(2))

    @property
    def recall(self) -> float:
        """The true recall."""
        return _normal(self.gap - self.threshold)

    @property
    def false_positive_rate(self) -> float:
        """The true false-positive rate."""
        return _normal(-self.threshold)

    @property
    def precision(self) -> float:
        """The true precision, with as many attacks as benign conversations."""
        return self.recall / (self.recall + self.false_positive_rate)

    @property
    def f1(self) -> float:
        """The true F1, with as many attacks as benign conversations."""
        return 2 * self.recall / (1 + self.recall + self.false_positive_rate)

    def recall_at(self, rate: float) -> float:
        """Return the true recall where the threshold has this false-positive rate, in (0, 1)."""
        from statistics import NormalDist

        return _normal(self.gap - NormalDist().inv_cdf(1 - rate))

    def delay(self, horizon: int) -> float:
        """Return the true mean turn of the first flag, cut off at a horizon."""
        return sum((1 - self.hazard) ** turn for turn in range(horizon))

    def draw(self, rng: np.random.Generator) -> tuple[list[Judged], list[Judged]]:
        """Return the same conversations as two detectors of the same quality judged them."""
        import numpy as np

        first: list[Judged] = []
        second: list[Judged] = []
        shape = (self.groups, self.size)
        for attack in (True, False):
            common = rng.standard_normal((2, self.groups, 1)) * math.sqrt(self.resemblance)
            own = rng.standard_normal((2, *shape)) * math.sqrt(1 - self.resemblance)
            scores = common + own + self.gap * attack
            scores[1] = (scores[0] + scores[1] - 2 * self.gap * attack) / math.sqrt(2) + self.gap * attack
            seen = rng.geometric(self.hazard, (2, *shape))
            last = rng.integers(1, self.turns + 1, shape)
            alarms = rng.binomial(last, rng.beta(1, (1 - self.alarm) / self.alarm, (self.groups, 1)))
            for arm, judged in enumerate((first, second)):
                for group, one in np.ndindex(shape):
                    judged.append(
                        Judged(
                            sequence_id=f"{attack}{group}-{one}",
                            group=f"{attack}{group}",
                            attack=attack,
                            turns=int(last[group, one]),
                            score=float(scores[arm, group, one]),
                            fired=bool(seen[arm, group, one] <= last[group, one]),
                            turn=_within(int(seen[arm, group, one]), int(last[group, one])),
                            final=bool(scores[arm, group, one] >= self.threshold),
                            alarms=int(alarms[group, one]),
                        )
                    )
        return first, second


@dataclass(frozen=True, slots=True)
class Coverage:
    """How often an interval contained the truth.

    Args:
        interval: which interval.
        nominal: how often it should.
        covered: how often it did, with the interval of the simulation itself.
        width: mean width.
    """

    interval: str
    nominal: float
    covered: Rate
    width: float


_Ends = tuple[float, float, float]
"""Ends of an interval, and the truth."""


def simulate(name: str, world: World, rng: np.random.Generator, repeats: int, replicates: int = 400) -> Coverage:
    """Return the coverage of an interval of nominally 95 %.

    Args:
        name: one of `INTERVALS`.
        world: where the truth is known.
        rng: the source of chance.
        repeats: how many studies to simulate, at least 1.
        replicates: resamples of each bootstrap.

    Raises:
        UnknownNameError: no such interval.

    >>> import numpy as np
    >>> found = simulate("AUC, DeLong", World(groups=40, size=1, resemblance=0.0), np.random.default_rng(0), 60)
    >>> found.covered.count >= 50
    True
    """
    if name not in INTERVALS:
        raise UnknownNameError("interval", name, INTERVALS)
    hits, width = 0, 0.0
    for _ in range(repeats):
        low, high, truth = INTERVALS[name](world, rng, replicates)
        hits += low - 1e-12 <= truth <= high + 1e-12
        width += (high - low) / repeats
    return Coverage(name, 0.95, Rate(hits, repeats), width)


def exact_coverage(of: int, shares: Sequence[float], confidence: float = 0.95) -> tuple[float, ...]:
    """Return the coverage of the Clopper-Pearson interval, worked out and not simulated.

    Args:
        of: trials, at least 1.
        shares: true proportions, each in [0, 1].
        confidence: two-sided confidence, in (0, 1).

    >>> [round(covered, 4) for covered in exact_coverage(20, [0.3, 0.5])]
    [0.9752, 0.9586]
    """
    import numpy as np
    from scipy.stats import binom

    counts = np.arange(of + 1)
    low, high = np.array([clopper_pearson(count, of, confidence) for count in range(of + 1)]).T
    return tuple(float(binom.pmf(counts[(low <= share) & (share <= high)], of, share).sum()) for share in shares)


def _normal(z: float) -> float:
    return (1 + math.erf(z / math.sqrt(2))) / 2


def _within(seen: int, last: int) -> int | None:
    return seen if seen <= last else None


def _scores(judged: list[Judged], attack: bool) -> list[float]:
    return [one.score for one in judged if one.attack is attack and one.score is not None]


def _delong(scale: Scale) -> Callable[[World, np.random.Generator, int], _Ends]:
    def ends(world: World, rng: np.random.Generator, replicates: int) -> _Ends:
        judged, _ = world.draw(rng)
        found = auc_with_interval(_scores(judged, True), _scores(judged, False), scale=scale)
        return found.low, found.high, world.auc

    return ends


def _delong_difference(world: World, rng: np.random.Generator, replicates: int) -> _Ends:
    first, second = world.draw(rng)
    above, below = ((_scores(first, label), _scores(second, label)) for label in (True, False))
    found = delong_test(above, below)
    return found.low, found.high, 0.0


def _bootstrap(
    what: Callable[[list[Judged]], Statistic], truth: Callable[[World], float], method: Method = "percentile"
) -> Callable[[World, np.random.Generator, int], _Ends]:
    def ends(world: World, rng: np.random.Generator, replicates: int) -> _Ends:
        judged, _ = world.draw(rng)
        drawn = resamples([one.group for one in judged], [one.attack for one in judged], rng, replicates)
        found = interval(what(judged), drawn, method=method)
        return found.low, found.high, truth(world)

    return ends


def _bootstrap_difference(
    what: Callable[[list[Judged]], Statistic],
) -> Callable[[World, np.random.Generator, int], _Ends]:
    def ends(world: World, rng: np.random.Generator, replicates: int) -> _Ends:
        first, second = world.draw(rng)
        drawn = resamples([one.group for one in first], [one.attack for one in first], rng, replicates)
        found = interval(difference(what(first), what(second)), drawn)
        return found.low, found.high, 0.0

    return ends


def _alarms(world: World, rng: np.random.Generator, replicates: int) -> _Ends:
    judged, _ = world.draw(rng)
    drawn = resamples([one.group for one in judged], [one.attack for one in judged], rng, replicates)
    found = false_alarms(judged, drawn)
    return found.low or 0.0, found.high or 0.0, 1000 * world.alarm


def _clopper_pearson(world: World, rng: np.random.Generator, replicates: int) -> _Ends:
    of = world.groups * world.size
    low, high = clopper_pearson(int(rng.binomial(of, world.recall)), of)
    return low, high, world.recall


def _f1(world: World, rng: np.random.Generator, replicates: int) -> _Ends:
    low, high = confusion(world.draw(rng)[0], final=True).f1_interval or (0.0, 1.0)
    return low, high, world.f1


def _kaplan_meier(world: World, rng: np.random.Generator, replicates: int) -> _Ends:
    attacks = [one for one in world.draw(rng)[0] if one.attack]
    middle = world.turns // 2
    curve = kaplan_meier([one.turn or one.turns for one in attacks], [one.fired for one in attacks])
    # The step at that turn or the last before it.
    low, high = 1.0, 1.0
    for turn, below, above in zip(curve.turns, curve.low, curve.high, strict=True):
        if turn <= middle:
            low, high = below, above
    return low, high, (1 - world.hazard) ** middle


def _ratings(world: World, rng: np.random.Generator) -> list[list[float]]:
    unit = rng.standard_normal((world.groups, 1)) * math.sqrt(world.resemblance)
    own = rng.standard_normal((world.groups, world.size)) * math.sqrt(1 - world.resemblance)
    rows: list[list[float]] = (unit + own).tolist()
    return rows


def _alpha(world: World, rng: np.random.Generator, replicates: int) -> _Ends:
    found = krippendorff_alpha(_ratings(world, rng), rng, replicates=replicates)
    return found.low, found.high, world.resemblance


def _icc(world: World, rng: np.random.Generator, replicates: int) -> _Ends:
    found = icc_within(_ratings(world, rng))
    return found.low, found.high, world.resemblance


def _final(statistic: Callable[..., Statistic]) -> Callable[[list[Judged]], Statistic]:
    """Return the statistic of the verdict by score; the world draws the turn of the first flag apart."""

    def of(judged: list[Judged]) -> Statistic:
        return statistic(judged, final=True)

    return of


def _delay(judged: list[Judged]) -> Statistic:
    return delay_of(judged, _HORIZON)


def _recall_at(judged: list[Judged]) -> Statistic:
    return recall_at_of(judged, _RATE)


_HORIZON = 6
_RATE = 0.05

INTERVALS: Mapping[str, Callable[[World, np.random.Generator, int], _Ends]] = {
    "rate, Clopper-Pearson": _clopper_pearson,
    "AUC, DeLong": _delong("logit"),
    "AUC, DeLong plain": _delong("plain"),
    "AUC difference, DeLong": _delong_difference,
    "recall, bootstrap": _bootstrap(_final(recall_of), lambda world: world.recall),
    "recall, bootstrap BCa": _bootstrap(_final(recall_of), lambda world: world.recall, "bca"),
    "false-positive rate, bootstrap": _bootstrap(
        _final(false_positive_rate_of), lambda world: world.false_positive_rate
    ),
    "precision, bootstrap": _bootstrap(_final(precision_of), lambda world: world.precision),
    "F1, Clopper-Pearson": _f1,
    "F1, bootstrap": _bootstrap(_final(f1_of), lambda world: world.f1),
    "F1, bootstrap BCa": _bootstrap(_final(f1_of), lambda world: world.f1, "bca"),
    "recall at 5 % false positives, bootstrap": _bootstrap(_recall_at, lambda world: world.recall_at(_RATE)),
    "AUC, bootstrap": _bootstrap(auc_of, lambda world: world.auc),
    "AUC, bootstrap BCa": _bootstrap(auc_of, lambda world: world.auc, "bca"),
    "delay, bootstrap": _bootstrap(_delay, lambda world: world.delay(_HORIZON)),
    "false alarms, bootstrap": _alarms,
    "recall difference, bootstrap": _bootstrap_difference(_final(recall_of)),
    "AUC difference, bootstrap": _bootstrap_difference(auc_of),
    "delay difference, bootstrap": _bootstrap_difference(_delay),
    "survival, Greenwood": _kaplan_meier,
    "agreement, Krippendorff bootstrap": _alpha,
    "repeats, ICC F": _icc,
}
"""The intervals that a study gives, each as a simulation of one study."""
