"""How often intervals of a prevalence hold the truth: melded ones beside those of Lang and Reiczigel (2014).

    python benchmarks/prevalence.py [--studies 400]

Each study draws flags of a scan, of the attacks that recall was measured on, and of the benign conversations that
the false-positive rate was measured on. A study in which nothing can be told counts as one whose interval misses.
"""

from __future__ import annotations

import argparse
import math
from statistics import NormalDist

import numpy as np

from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.stats import corrected_prevalence

WORLDS = (
    (1_000_000, 84, 1515, 0.74, 0.009, 0.0),
    (1_000_000, 84, 1515, 0.74, 0.009, 0.001),
    (1_000_000, 84, 1515, 0.74, 0.009, 0.01),
    (1_000_000, 84, 1515, 0.74, 0.009, 0.3),
    (100_000, 84, 970, 0.5, 0.002, 0.001),
    (100_000, 84, 970, 0.5, 0.002, 0.05),
    (5_000, 84, 970, 0.3, 0.008, 0.01),
    (5_000, 84, 970, 0.3, 0.008, 0.05),
    (200, 30, 50, 0.9, 0.1, 0.3),
)
"""Conversations scanned, attacks and benign ones that the rates were measured on, recall, false positives, and
prevalence."""

DRAWS = 4_000


def lang_reiczigel(flagged: Rate, recall: Rate, false_positives: Rate) -> tuple[float, float]:
    """Return the interval of Lang and Reiczigel, Preventive Veterinary Medicine 113 (2014)."""
    z = NormalDist().inv_cdf(0.975)
    attacks, benign, scanned = recall.of + 2, false_positives.of + 2, flagged.of + z * z
    sensitivity = (recall.count + 1) / attacks
    specificity = (false_positives.of - false_positives.count + 1) / benign
    share = (flagged.count + z * z / 2) / scanned
    above = sensitivity + specificity - 1
    value = (share + specificity - 1) / above
    of_recall = sensitivity * (1 - sensitivity) / attacks
    of_benign = specificity * (1 - specificity) / benign
    shift = 2 * z * z * (value * of_recall - (1 - value) * of_benign)
    variance = (share * (1 - share) / scanned + value**2 * of_recall + (1 - value) ** 2 * of_benign) / above**2
    middle, half = value + shift, z * math.sqrt(variance)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def main() -> None:
    """Print coverage and median width by world."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=400)
    studies = parser.parse_args().studies
    random = np.random.default_rng(7)
    print("| scanned | recall | false positives | prevalence | melded | Lang and Reiczigel |")
    print("|---:|---|---|---:|---|---|")
    for scanned, attacks, benign, recall, wrong, prevalence in WORLDS:
        held = {"melded": 0, "lang": 0}
        width: dict[str, list[float]] = {"melded": [], "lang": []}
        for seed in range(studies):
            share = prevalence * recall + (1 - prevalence) * wrong
            rates = [
                Rate(int(random.binomial(of, p)), of)
                for of, p in ((scanned, share), (attacks, recall), (benign, wrong))
            ]
            found = {"lang": lang_reiczigel(*rates)}
            try:
                made = corrected_prevalence(*rates, seed=seed, draws=DRAWS)
                found["melded"] = made.low, made.high
            except UsageError:
                pass
            for name, (low, high) in found.items():
                held[name] += low <= prevalence <= high
                width[name].append(high - low)
        cells = [f"{held[name] / studies:.3f} ({np.median(width[name]):.4f})" for name in ("melded", "lang")]
        world = f"{scanned:,} | {recall} of {attacks} | {wrong} of {benign:,} | {prevalence}"
        print(f"| {world} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
