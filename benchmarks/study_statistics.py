"""Whether thresholds keep their rate and intervals contain the truth: ``python benchmarks/study_statistics.py``.

Prints what must hold beside what was measured, and exits with 1 where the simulation shows that something does not
hold. The simulations are of made-up worlds in which the truth is known; the seed is fixed. ``--repeats`` sets how
many studies are simulated for each interval, ``--only`` picks intervals by a part of their name.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from turnwise.rates import Rate
from turnwise.study.calibrate import threshold_for, threshold_with_confidence
from turnwise.study.coverage import World, exact_coverage, simulate
from turnwise.study.matched_rates import RATES, matched_rates, roc_heads
from turnwise.study.metrics import compare, measure
from turnwise.study.redraw import Redraw, draw_parts, redraws
from turnwise.study.split_samples import TEST, TRAIN

SEED = 0
RESAMPLES = 1_000
POPULATION = 500_000
NEAR = 0.93
"""Coverage that an interval of nominally 95 % must have where its method is approximate."""

MOST = 0.97
"""Coverage above which the interval of a whole study would be wider than it says."""

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
            realised(everyone, threshold_with_confidence(list(rng.choice(everyone, size)), alpha))
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
    areas = [f"partial AUC difference to {100 * rate:g} %" for rate in RATES]
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

    def study(replicates: int) -> tuple[NDArray[np.float64], Redraw]:
        scores = world.draw(rng, attack, place)
        arms = followed(scores, parts, attack, place)
        return scores, redraws(scores, groups, list(attack), parts, arms, replicates=replicates)

    further = [study(1)[1] for _ in range(2 * repeats)]
    truth = float(np.mean([one.overall.expected.value for one in further]))
    gains = np.array([one.gain[0] for one in further])
    everyone = np.arange(400_000)  # each its own group
    attacks = everyone % 2 == 0
    scores = world.draw(rng, attacks, everyone)
    true_areas = [roc_heads(scores[arm], attacks, np.ones((len(everyone), 1)), RATES)[0][:, 0] for arm in (0, 1)]
    ends: dict[str, list[tuple[float, float, float]]] = {name: [] for name in (EXPECTED, CONDITIONAL, *areas)}
    inside, helps = [], []
    for _ in range(repeats):
        scores, found = study(DRAWS)
        chosen = int(found.followed[0])
        gain, one = found.overall.expected, found.overall.one_study
        ends[EXPECTED].append((gain.low, gain.high, truth))
        inside.append(np.mean((one.low <= gains) & (gains <= one.high)))
        helps.append(one.helps)
        limits = float(found.limits[0, 0]), float(found.limits[0, chosen])
        judged = matched_rates(
            scores[0][tested], scores[chosen][tested], of, labels, limits=limits, rates=(0.01,), replicates=DRAWS
        )
        assert judged.carried_over is not None
        ends[CONDITIONAL].append((judged.carried_over.low, judged.carried_over.high, truth))
        # The second arm whatever was followed: the choice was made by the same scores.
        pair = matched_rates(scores[0][tested], scores[1][tested], of, labels, replicates=DRAWS).partial_auc
        for row, (rate, area) in enumerate(zip(RATES, areas, strict=True)):
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


def speed(rng: np.random.Generator) -> None:
    """Print what it takes to measure and compare detectors on 2,400 conversations."""
    first, second = World(groups=400, size=3, turns=12).draw(rng)
    began = time.process_time()
    results = [
        measure(arm, np.random.default_rng(0), name=str(n), threshold=1.0) for n, arm in enumerate((first, second))
    ]
    middle = time.process_time()
    compare(results)
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
    speed(rng)
    print(f"{missed} requirements missed")
    raise SystemExit(bool(missed))


if __name__ == "__main__":
    main()
