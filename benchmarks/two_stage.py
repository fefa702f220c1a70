"""Whether intervals of two stages hold the truth.

    python benchmarks/two_stage.py [--studies 500] [--units turns]

Each study is a new world of conversations in which the judge's verdict on every turn is known. A screen of known
quality points at turns, chance draws others, and the rates are estimated from what the judge then saw. Printed are
the coverage of the 95 % intervals, the median width, and the bias with its standard error. It exits with 1 where a
coverage is below the band by more than the simulation's own chance, or above it although positives are not few.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from turnwise.rates import Rate
from turnwise.stats import TwoStageRates, Unit, two_stage_rates

if TYPE_CHECKING:
    from turnwise.stats import Interval

SCREENS: Mapping[str, float] = {"good": 3.0, "weak": 1.5, "near chance": 0.3}
"""How far the screen's scores of positive turns lie above those of others, in standard deviations."""

RATES = (0.05, 0.2)
CONVERSATIONS, TURNS = 800, 8
ATTACKS, POSITIVE_OF_ATTACK, POSITIVE_OF_BENIGN = 0.1, 0.5, 0.01
"""Share of conversations that are attacks, and of turns that the judge calls positive in these and in others."""

BAND = (0.93, 0.97)
FEW = 5
"""Positives in the sample below which an interval may hold the truth more often: counts are whole numbers."""

DRAWS = 2_000

Turns = list[tuple[str, bool, bool, bool]]
"""Conversation; whether the judge calls the turn positive, the screen points at it, and it is drawn."""


def turns_of_a_study(random: np.random.Generator, gap: float, rate: float, whole: bool) -> Turns:
    """Draw a study; the screen points at about a tenth of the turns that the judge would call negative."""
    turns: Turns = []
    for number in range(CONVERSATIONS):
        share = POSITIVE_OF_ATTACK if random.random() < ATTACKS else POSITIVE_OF_BENIGN
        of = int(random.integers(1, 2 * TURNS))
        positive = random.random(of) < share
        asked = random.standard_normal(of) + gap * positive > 1.28
        drawn = np.full(of, random.random() < rate) if whole else random.random(of) < rate
        turns += zip([str(number)] * of, positive.tolist(), asked.tolist(), drawn.tolist(), strict=True)
    return turns


def units_of_turns(turns: Turns, rate: float) -> list[Unit]:
    """What is known of each turn."""
    return [
        Unit(name, asked, 1.0 if asked else rate, positive if asked or drawn else None, asked and positive)
        for name, positive, asked, drawn in turns
    ]


def units_of_conversations(turns: Turns, rate: float) -> list[Unit]:
    """What is known of each conversation: whether a turn is positive that the judge saw."""
    grouped: dict[str, Turns] = defaultdict(list)
    for turn in turns:
        grouped[turn[0]].append(turn)
    units = []
    for name, members in grouped.items():
        found = any(positive and asked for _, positive, asked, _ in members)
        certain = found or all(asked for _, _, asked, _ in members)
        verdict = any(positive for _, positive, _, _ in members) if certain or members[0][3] else None
        units.append(Unit(name, any(turn[2] for turn in members), 1.0 if certain else rate, verdict, found))
    return units


def everything_judged(turns: Turns) -> Turns:
    """The same study with a judge that saw all of it."""
    return [(name, positive, asked, True) for name, positive, asked, _ in turns]


QUANTITIES: Mapping[str, Callable[[TwoStageRates], Interval | None]] = {
    "prevalence": lambda found: found.prevalence,
    "screen's recall": lambda found: found.screen.recall,
    "screen's false positives": lambda found: found.screen.false_positive_rate,
    "recall of both": lambda found: found.two_stages.recall,
}

UNITS: Mapping[str, tuple[Callable[[Turns, float], list[Unit]], bool, bool]] = {
    "turns": (units_of_turns, False, False),
    "conversations": (units_of_conversations, True, False),
    "turns of drawn conversations": (units_of_turns, True, True),
}
"""By name: how units are made, whether whole conversations are drawn, and whether their turns are counted."""


class Row(NamedTuple):
    """What came of the studies of one kind; `sampled` is how many positives their samples held on average."""

    units: str
    screen: str
    rate: float
    quantity: str
    sampled: float
    covered: Rate
    width: float
    bias: float
    error: float


def rows(studies: int, units: Sequence[str] = tuple(UNITS)) -> Iterator[Row]:
    """Simulate studies and yield a row for each quantity."""
    for unit, screen, rate in itertools.product(units, SCREENS, RATES):
        make, whole, clustered = UNITS[unit]
        random = np.random.default_rng(7)
        seen: dict[str, list[tuple[bool, float, float]]] = {name: [] for name in QUANTITIES}
        sampled = 0
        for study in range(studies):
            turns = turns_of_a_study(random, SCREENS[screen], rate, whole)
            estimated = two_stage_rates(make(turns, rate), by_conversation=clustered, seed=study, draws=DRAWS)
            sampled += estimated.missed
            # With a rate of 1 every verdict is known, so these are the truth.
            truth = two_stage_rates(make(everything_judged(turns), 1.0), draws=2)
            for name, of in QUANTITIES.items():
                one, true = of(estimated), of(truth)
                if one is not None and true is not None:
                    held = one.low - 1e-9 <= true.value <= one.high + 1e-9
                    seen[name].append((held, one.high - one.low, one.value - true.value))
        for name, those in seen.items():
            hits, widths, errors = (np.array(column, dtype=float) for column in zip(*those, strict=True))
            error = float(errors.std(ddof=1) / math.sqrt(len(errors)))
            covered = Rate(int(hits.sum()), len(hits))
            bias = float(errors.mean())
            yield Row(unit, screen, rate, name, sampled / studies, covered, float(np.median(widths)), bias, error)


def main() -> None:
    """Print a row for each interval."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=500)
    parser.add_argument("--units", choices=UNITS, action="append", help="only these")
    asked = parser.parse_args()
    failed = False
    print(
        "| units | screen | sample | its positives | quantity | coverage | median width | bias ± standard error |"
    )
    print("|---|---|---:|---:|---|---:|---:|---:|")
    for row in rows(asked.studies, asked.units or tuple(UNITS)):
        low, high = row.covered.interval
        outside = high < BAND[0] or (low > BAND[1] and row.sampled >= FEW)
        failed |= outside
        covered = f"{100 * row.covered.count / row.covered.of:.1f} %{' (!)' if outside else ''}"
        print(
            f"| {row.units} | {row.screen} | {row.rate} | {row.sampled:.1f} | {row.quantity} | {covered} | "
            f"{row.width:.3f} | {row.bias:+.4f} ± {row.error:.4f} |",
            flush=True,
        )
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
