"""Whether thresholds keep their rate and intervals contain the truth: ``python benchmarks/study_statistics.py``.

Prints what must hold beside what was measured, and exits with 1 where the simulation shows that something does not
hold. The simulations are of made-up worlds in which the truth is known; the seed is fixed. ``--repeats`` sets how
many studies are simulated for each interval, ``--only`` picks intervals by a part of their name.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from turnwise.rates import Rate
from turnwise.study.calibrate import threshold_for, threshold_with_confidence
from turnwise.study.coverage import World, exact_coverage, simulate
from turnwise.study.metrics import compare, measure

SEED = 0
RESAMPLES = 1_000
POPULATION = 500_000
NEAR = 0.93
"""Coverage that an interval of nominally 95 % must have where its method is approximate."""

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
    speed(rng)
    print(f"{missed} requirements missed")
    raise SystemExit(bool(missed))


if __name__ == "__main__":
    main()
