"""Whether thresholds keep their rate and intervals contain the truth: ``python benchmarks/study_statistics.py``.

Prints what must hold beside what was measured, and exits with 1 where the simulation shows that something does not
hold. The simulations are of made-up worlds in which the truth is known; the seed is fixed. ``--repeats`` sets how
many studies are simulated for each interval, ``--only`` picks intervals by a part of their name.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from turnwise.errors import UnknownNameError, UsageError
from turnwise.rates import Rate, clopper_pearson
from turnwise.scoring import Score, TurnScores
from turnwise.stats import (
    MATCHED_RATES,
    TEST,
    TRAIN,
    Judged,
    Method,
    Scale,
    SplitGains,
    auc_of,
    auc_with_interval,
    compare_pairs,
    confusion,
    delay_of,
    delong_test,
    difference,
    draw_parts,
    f1_of,
    false_alarms,
    fpr_of,
    icc_within,
    interval,
    kaplan_meier,
    krippendorff_alpha,
    matched_rates,
    measure,
    precision_of,
    recall_at_of,
    recall_of,
    resamples,
    roc_heads,
    split_gains,
)
from turnwise.store import Run
from turnwise.study import Example, threshold_for
from turnwise.study.compare import LabelledConversation, RunData, Settings, StudyData, strata_of
from turnwise.study.compare.context_and_trajectory import Kind, two_by_two
from turnwise.study.compare.judging import ArmScores
from turnwise.study.compare.plan import plan_arms

if TYPE_CHECKING:
    from turnwise.stats import Statistic

SEED = 0
RESAMPLES = 1_000
POPULATION = 500_000
NEAR = 0.93
"""Coverage that an interval of nominally 95 % must have where its method is approximate."""

MOST = 0.97
"""Coverage above which the interval of a whole study would be wider than it says."""


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
    >>> round(world.auc, 4), round(world.recall, 4), round(world.fpr, 4)
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
    def fpr(self) -> float:
        """The true false-positive rate."""
        return _normal(-self.threshold)

    @property
    def precision(self) -> float:
        """The true precision, with as many attacks as benign conversations."""
        return self.recall / (self.recall + self.fpr)

    @property
    def f1(self) -> float:
        """The true F1, with as many attacks as benign conversations."""
        return 2 * self.recall / (1 + self.recall + self.fpr)

    def recall_at(self, rate: float) -> float:
        """Return the true recall where the threshold has this false-positive rate, in (0, 1)."""
        from statistics import NormalDist

        return _normal(self.gap - NormalDist().inv_cdf(1 - rate))

    def delay(self, horizon: int) -> float:
        """Return the true mean turn of the first flag, cut off at a horizon."""
        return sum((1 - self.hazard) ** turn for turn in range(horizon))

    def draw(self, rng: np.random.Generator) -> tuple[list[Judged], list[Judged]]:
        """Return the same conversations as two detectors of the same quality judged them."""
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
    "false-positive rate, bootstrap": _bootstrap(_final(fpr_of), lambda world: world.fpr),
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

ALONE = World(groups=150, size=1, resemblance=0.0)
HIGH = World(groups=60, size=1, resemblance=0.0, gap=3.0)
GROUPED = World()

SIMULATED = (
    ("150 + 150 conversations", ALONE, "rate, Clopper-Pearson", 0.95),
    ("150 + 150 conversations", ALONE, "F1, Clopper-Pearson", 0.95),
    ("150 + 150 conversations", ALONE, "AUC, DeLong", NEAR),
    ("150 + 150 conversations", ALONE, "AUC, DeLong plain", None),
    ("150 + 150 conversations", ALONE, "AUC difference, DeLong", NEAR),
    ("60 + 60, AUC 0.983", HIGH, "AUC, DeLong", NEAR),
    ("60 + 60, AUC 0.983", HIGH, "AUC, DeLong plain", None),
    ("60 + 60 groups of 3", GROUPED, "AUC, DeLong", None),
    ("60 + 60 groups of 3", GROUPED, "recall, bootstrap", NEAR),
    ("60 + 60 groups of 3", GROUPED, "recall, bootstrap BCa", None),
    ("60 + 60 groups of 3", GROUPED, "false-positive rate, bootstrap", NEAR),
    ("60 + 60 groups of 3", GROUPED, "precision, bootstrap", NEAR),
    ("60 + 60 groups of 3", GROUPED, "F1, bootstrap", NEAR),
    ("60 + 60 groups of 3", GROUPED, "F1, bootstrap BCa", None),
    ("60 + 60 groups of 3", GROUPED, "recall at 5 % false positives, bootstrap", NEAR),
    ("60 + 60 groups of 3", GROUPED, "AUC, bootstrap", NEAR),
    ("60 + 60 groups of 3", GROUPED, "AUC, bootstrap BCa", None),
    ("60 + 60 groups of 3", GROUPED, "delay, bootstrap", NEAR),
    ("60 + 60 groups of 3", GROUPED, "false alarms, bootstrap", NEAR),
    ("60 + 60 groups of 3", GROUPED, "recall difference, bootstrap", NEAR),
    ("60 + 60 groups of 3", GROUPED, "AUC difference, bootstrap", NEAR),
    ("60 + 60 groups of 3", GROUPED, "delay difference, bootstrap", NEAR),
    ("60 + 60 groups of 3", GROUPED, "survival, Greenwood", NEAR),
    ("60 units, 3 ratings", GROUPED, "agreement, Krippendorff bootstrap", NEAR),
    ("60 units, 3 ratings", GROUPED, "repeats, ICC F", NEAR),
)
"""World, interval, and the coverage it must have; None where it is shown to compare only."""


def population(rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the highest scores of benign conversations: heavy to the right, and longer ones score higher."""
    turns = rng.integers(2, 15, POPULATION)
    scores: NDArray[np.float64] = rng.beta(1.2, 6.0, (POPULATION,)) ** (1 / turns)
    return np.sort(scores)


def realised(everyone: NDArray[np.float64], limit: float) -> float:
    """Return the false-positive rate of a threshold on the whole population."""
    return 1 - float(np.searchsorted(everyone, limit, side="left")) / len(everyone)


def calibration(rng: np.random.Generator) -> int:
    """Print what calibrated thresholds do on the population; return how many requirements are missed."""
    everyone = population(rng)
    print(f"conversation-level calibration, {RESAMPLES:,} resamples; in brackets the simulation's own doubt")
    print(f"  {'guarantee':40} {'benign':>7} {'required':>10} {'measured':>10} {'':16} {'by theory':>10}")
    missed = 0
    for alpha, size in ((0.01, 299), (0.01, 500), (0.01, 1_000), (0.05, 100)):
        rates = [
            realised(everyone, threshold_for(list(rng.choice(everyone, size)), alpha, 0.95))
            for _ in range(RESAMPLES)
        ]
        found = Rate(sum(rate <= alpha for rate in rates), RESAMPLES)
        # A threshold lies between two scores, so the rate is kept more often than the bound says.
        flagged = max(k for k in range(size) if binom.cdf(k, size, alpha) <= 0.05)
        theory = f"≥ {1 - binom.cdf(flagged, size, alpha):.3f}"
        low, high = found.interval
        missed += high < 0.95
        name, share = f"rate at most {alpha:g} with 95 % confidence", found.count / RESAMPLES
        around = f"[{low:.3f}, {high:.3f}]"
        print(f"  {name:40} {size:7,} {'≥ 0.950':>10} {share:10.3f} {around:16} {theory:>10}{_mark(high >= 0.95)}")
    for alpha, size in ((0.01, 150), (0.01, 450), (0.05, 110)):
        rates = [
            realised(everyone, threshold_for(list(rng.choice(everyone, size)), alpha)) for _ in range(RESAMPLES)
        ]
        mean, error = float(np.mean(rates)), float(np.std(rates)) / RESAMPLES**0.5
        theory = f"≤ {np.floor(alpha * (size + 1) + 1e-9) / (size + 1):.4f}"
        low, high = mean - 1.96 * error, mean + 1.96 * error
        missed += low > alpha
        name, around, kept = f"mean rate at most {alpha:g}", f"[{low:.4f}, {high:.4f}]", low <= alpha
        print(f"  {name:40} {size:7,} {f'≤ {alpha:g}':>10} {mean:10.4f} {around:16} {theory:>10}{_mark(kept)}")
    return missed


def exact() -> int:
    """Print the least coverage of the exact interval over many shares; return how many requirements are missed."""
    shares = [number / 100 for number in range(1, 100)]
    missed = 0
    for of in (10, 50, 200):
        least = min(exact_coverage(of, shares))
        missed += least < 0.95
        name = f"Clopper-Pearson, {of} trials, least of 99 shares, worked out"
        print(f"  {name:60} {'≥ 0.950':>10} {least:9.4f}{_mark(least >= 0.95)}")
    return missed


def coverage(repeats: int, only: str) -> int:
    """Print how often intervals contain the truth; return how many requirements are missed."""
    print(f"\ncoverage of 95 % intervals, {repeats:,} studies each; in brackets the simulation's own doubt")
    missed = exact()
    for where, world, name, least in SIMULATED:
        if only not in name:
            continue
        # Each with its own chance, so that --only gives the same figures; variants share their studies.
        kind = name.removesuffix(" BCa").removesuffix(" plain")
        rng = np.random.default_rng([SEED, *f"{kind} {where}".encode()])
        found = simulate(name, world, rng, repeats)
        low, high = found.covered.interval
        # A requirement is missed where the simulation shows that the coverage lies below it.
        kept = least is None or high >= least
        missed += not kept
        required = "" if least is None else f"≥ {least:.3f}"
        share = found.covered.count / found.covered.of
        print(
            f"  {name:41} {where:25} {required:>10} {share:9.3f} [{low:.3f}, {high:.3f}]  "
            f"width {found.width:.3g}{_mark(kept)}",
            flush=True,
        )
    return missed


@dataclass(frozen=True)
class Procedure:
    """A whole study, of the size of a real one, in a world of three arms: the first is the one to beat.

    1,957 benign conversations, 250 of their groups with three, and 600 attacks in groups of four; about 587 benign
    ones calibrate. A score is normal with variance 1, 40 % of it shared by a group and all arms, 30 % by all arms;
    three in a hundred benign groups are hard and score 1.5 higher. Of the other two arms a split follows the one
    that catches more attacks on train.

    Args:
        gaps: how far attacks lie above benign conversations by each arm.
    """

    gaps: tuple[float, float, float]

    def layout(self) -> tuple[list[str], NDArray[np.bool_], NDArray[np.intp]]:
        """Return group and label of each conversation, and the place of its group."""
        sizes = [("b", 1)] * 1207 + [("b", 3)] * 250 + [("a", 4)] * 150
        groups = [f"{kind}{number:04}" for number, (kind, size) in enumerate(sizes) for _ in range(size)]
        attack = np.array([group[0] == "a" for group in groups])
        return groups, attack, np.unique(groups, return_inverse=True)[1]

    def draw(
        self, rng: np.random.Generator, attack: NDArray[np.bool_], place: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """Return new scores of each arm; shape (3, conversations)."""
        groups = int(place.max()) + 1
        shared = rng.standard_normal(groups)[place] * 0.4**0.5 + rng.standard_normal(len(place)) * 0.3**0.5
        alone = rng.standard_normal((3, len(place))) + rng.standard_normal((3, groups))[:, place]
        hard = (rng.random(groups) < 0.03)[place] & ~attack
        above = hard * (1.5 + 0.7 * rng.standard_normal((3, len(place))))
        scores: NDArray[np.float64] = shared + alone * 0.15**0.5 + above + attack * np.array(self.gaps)[:, None]
        return scores


SPLITS = 20
DRAWS = 250
WORLDS = (
    ("a study, arms that gain", Procedure((1.9, 2.2, 2.1))),
    ("a study, arms that do not", Procedure((2.0, 2.0, 2.0))),
)


def followed(
    scores: NDArray[np.float64], parts: NDArray[np.intp], attack: NDArray[np.bool_], place: NDArray[np.intp]
) -> list[int]:
    """Return the arm that each split follows."""
    chosen = []
    for part in parts[:, place]:
        benign, attacks = (np.flatnonzero((part == TRAIN) & (attack == label)) for label in (False, True))
        limits = [threshold_for(list(arm[benign]), 0.01) for arm in scores[1:]]
        caught = [np.sum(arm[attacks] >= limit) for arm, limit in zip(scores[1:], limits, strict=True)]
        chosen.append(1 + int(np.argmax(caught)))
    return chosen


def procedures(repeats: int, only: str) -> int:
    """Print how intervals of redrawn studies and of arms at matched rates do; return how many requirements are
    missed.

    The true gain is the mean over twice as many further studies, known to about 0.15 points.
    """
    missed = 0
    areas = [f"partial AUC difference to {100 * rate:g} %" for rate in MATCHED_RATES]
    if only in "".join((EXPECTED, CONDITIONAL, SINGLE, *areas)):
        for where, world in WORLDS:
            missed += _procedure(where, world, repeats, areas, only)
    return missed


EXPECTED = "expected gain, redrawn"
CONDITIONAL = "the same, one split at its thresholds"
SINGLE = "one study, redrawn: holds a further one"


def _procedure(where: str, world: Procedure, repeats: int, areas: list[str], only: str) -> int:
    groups, attack, place = world.layout()
    parts = draw_parts(groups, list(attack), SPLITS)
    tested = parts[0][place] == TEST
    of, labels = [groups[number] for number in np.flatnonzero(tested)], list(attack[tested])
    rng = np.random.default_rng([SEED, *where.encode()])

    def study(replicates: int) -> tuple[NDArray[np.float64], SplitGains]:
        scores = world.draw(rng, attack, place)
        arms = followed(scores, parts, attack, place)
        return scores, split_gains(scores, groups, list(attack), parts, arms, replicates=replicates)

    further = [study(1)[1] for _ in range(2 * repeats)]
    truth = float(np.mean([one.overall.expected.value for one in further]))
    gains = np.array([one.gain[0] for one in further])
    everyone = np.arange(400_000)  # each its own group
    attacks = everyone % 2 == 0
    scores = world.draw(rng, attacks, everyone)
    true_areas = [
        roc_heads(scores[arm], attacks, np.ones((len(everyone), 1)), MATCHED_RATES)[0][:, 0] for arm in (0, 1)
    ]
    ends: dict[str, list[tuple[float, float, float]]] = {name: [] for name in (EXPECTED, CONDITIONAL, *areas)}
    inside, helps = [], []
    for _ in range(repeats):
        scores, found = study(DRAWS)
        chosen = int(found.followed_places[0])
        gain, one = found.overall.expected, found.overall.one_study
        ends[EXPECTED].append((gain.low, gain.high, truth))
        inside.append(np.mean((one.low <= gains) & (gains <= one.high)))
        helps.append(one.helps)
        limits = float(found.thresholds[0, 0]), float(found.thresholds[0, chosen])
        judged = matched_rates(
            scores[0][tested], scores[chosen][tested], of, labels, limits=limits, rates=(0.01,), replicates=DRAWS
        )
        assert judged.thresholds_used is not None
        ends[CONDITIONAL].append((judged.thresholds_used.low, judged.thresholds_used.high, truth))
        # The second arm whatever was followed: the choice was made by the same scores.
        pair = matched_rates(scores[0][tested], scores[1][tested], of, labels, replicates=DRAWS).partial_auc
        for row, (rate, area) in enumerate(zip(MATCHED_RATES, areas, strict=True)):
            ends[area].append((pair[rate].low, pair[rate].high, float(true_areas[1][row] - true_areas[0][row])))
    missed = 0
    for name in (name for name in ends if only in name):
        low, high, true = np.array(ends[name]).T
        held = Rate(int(((low - 1e-12 <= true) & (true <= high + 1e-12)).sum()), repeats)
        least, most = held.interval
        kept = name == CONDITIONAL or (most >= NEAR and least <= MOST)
        missed += not kept
        required = "" if name == CONDITIONAL else f"{NEAR:g}-{MOST:g}"
        print(
            f"  {name:41} {where:25} {required:>10} {held.count / held.of:9.3f} [{least:.3f}, {most:.3f}]  "
            f"width {np.mean(high - low):.3g}{_mark(kept)}",
            flush=True,
        )
    print(
        f"  {SINGLE:41} {where:25} {'':10} {np.mean(inside):9.3f}; the arm helps in {np.mean(helps):.3f} of "
        f"redrawn, {np.mean(gains > 0):.3f} of further studies; true gain {truth:+.4f}"
    )
    return missed


KINDS: tuple[Kind, Kind] = ("gain of context", "gain of trajectory")
CHATS = (
    ("neither gains", 0.0, 0.0),
    ("the history gains", 0.3, 0.0),
    ("accumulation gains", 0.0, 0.15),
)
"""Worlds, with what the history alone adds to a turn of most attacks, and what every turn of one has more."""


def chats(rng: np.random.Generator, context: float, steady: float) -> StudyData:
    """Return 60 attacks and 120 benign conversations, two a group, by one observer in both contexts."""
    made = datetime(2026, 1, 1, tzinfo=UTC)
    known = [LabelledConversation(f"c{n}", f"g{n // 2}", n < 60, 6, strata_of("made", {}, 6)) for n in range(180)]
    runs = []
    for seen, extra in (("turn", 0.0), ("history", context)):
        examples = []
        for one in known:
            F = 0.5 * rng.random(6) + steady * one.attack
            F[rng.integers(6)] += extra * one.attack * (rng.random() < 0.8)
            if steady and rng.random() < 0.3:  # single turns stand out by chance
                F[rng.integers(6)] = 0.8 + 0.2 * rng.random()
            turns = tuple(TurnScores(turn, {"p": Score(0.5, 0.2, float(f))}) for turn, f in enumerate(F, start=1))
            examples.append(Example(one.sequence_id, one.group, one.attack, turns))
        runs.append(RunData(Run(seen, "made", "1", seen, {}, {}, "0", made), tuple(examples)))
    return StudyData(tuple(known), tuple(runs), 0, 0, "0" * 64)


def apart(repeats: int, only: str) -> int:
    """Print how intervals of both gains do, and how often one is shown; return how many requirements are missed.

    The truth is the mean over these studies. Where nothing gains, a gain may be shown in 5 % of them.
    """
    settings = Settings(("turn", "history"), target_fpr=0.05, replicates=RESAMPLES)
    arms = plan_arms(settings, {"turn": "turn", "history": "history"}, [])
    missed = 0
    for where, context, steady in CHATS if only in "".join(KINDS) else ():
        rng = np.random.default_rng([SEED, *where.encode()])
        found = []
        for _ in range(repeats):
            data = chats(rng, context, steady)
            [one], _ = two_by_two(data, arms, ArmScores(settings), lambda _: None)
            found.append(one)
        for kind, planted in zip(KINDS, (context, steady), strict=True):
            if only not in kind:
                continue
            gains = [gain for one in found if (gain := one.first(kind)) is not None]
            truth = float(np.mean([gain.by_seed[0].value for gain in gains]))
            held = sum(gain.by_seed[0].low <= truth <= gain.by_seed[0].high for gain in gains)
            least, most = clopper_pearson(held, repeats)
            shown = Rate(sum(gain.says == "shown" for gain in gains), repeats)
            kept = most >= NEAR and (planted > 0 or shown.interval[0] <= 0.05)
            missed += not kept
            print(
                f"  {kind:41} {where:25} {f'{NEAR:g}':>10} {held / repeats:9.3f} [{least:.3f}, {most:.3f}]  gain "
                f"{truth:+.3f}, shown in {shown}{_mark(kept)}",
                flush=True,
            )
    return missed


def speed(rng: np.random.Generator) -> None:
    """Print what it takes to measure and compare detectors on 2,400 conversations."""
    first, second = World(groups=400, size=3, turns=12).draw(rng)
    began = time.process_time()
    results = [
        measure(arm, np.random.default_rng(0), name=str(n), threshold=1.0) for n, arm in enumerate((first, second))
    ]
    middle = time.process_time()
    compare_pairs(results)
    end = time.process_time()
    print(
        f"\n2,400 conversations, 2,000 resamples: {(middle - began) / 2:.2f} s of CPU to measure a detector, "
        f"{end - middle:.2f} s to compare two"
    )


def _mark(kept: bool) -> str:
    return "" if kept else "  MISSED"


def main() -> None:
    """Print the tables; exit with 1 where something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1_000, help="simulated studies for each interval")
    parser.add_argument("--only", default="", help="intervals whose name has this in it")
    options = parser.parse_args()
    rng = np.random.default_rng(SEED)
    missed = calibration(rng) if not options.only else 0
    missed += coverage(options.repeats, options.only)
    # Half as many: each of these is a whole study, on twenty splits.
    missed += procedures(max(1, options.repeats // 2), options.only)
    missed += apart(max(1, options.repeats // 25), options.only)  # each of these is thirty fits and choices
    speed(rng)
    print(f"{missed} requirements missed")
    raise SystemExit(bool(missed))


if __name__ == "__main__":
    main()
