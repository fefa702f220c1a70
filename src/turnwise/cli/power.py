"""``turnwise power``: how many sequences a study needs."""

from __future__ import annotations

from typing import Annotated

import typer

from turnwise.cli import options
from turnwise.cli.output import say


def power(
    stateless: Annotated[float, typer.Option(help="Recall expected of looking at single turns, in [0, 1].")],
    temporal: Annotated[float, typer.Option(help="Recall expected of looking over time, in [0, 1].")],
    power: Annotated[float, typer.Option(help="Wanted probability of finding the difference.")] = 0.8,
    alpha: Annotated[float, typer.Option(help="Level of the two-sided test.")] = 0.05,
    target_fpr: Annotated[float, typer.Option(help="False-positive rate of the thresholds.")] = 0.01,
    confidence: Annotated[float, typer.Option(help="Confidence with which that rate is to be kept.")] = 0.95,
    json: options.Json = False,
) -> None:
    """Say how many attacks and benign conversations a comparison needs, by the exact power of its tests."""
    from turnwise.cli.output import Table, note, print_json, print_table
    from turnwise.cli.study import require_study
    from turnwise.study import needed_benign
    from turnwise.study.stats.power import study_size
    from turnwise.study.stats.thresholds import check_rate

    require_study()
    check_rate("target fpr", target_fpr)
    check_rate("confidence", confidence)
    size = study_size(stateless, temporal, power, alpha)
    benign = needed_benign(target_fpr, confidence)
    if json:
        print_json(
            {
                "stateless": stateless,
                "temporal": temporal,
                "power": power,
                "alpha": alpha,
                "paired": size.paired,
                "unpaired": size.unpaired,
                "target_fpr": target_fpr,
                "confidence": confidence,
                "benign": benign,
            }
        )
        return
    table = Table("both arms judge the same attacks", "attacks needed", numeric=("attacks needed",))
    meanings = {
        "independent": "they catch the same ones by chance",
        "most favourable": "one catches all that the other does",
        "least favourable": "they catch different ones as far as can be",
    }
    for dependence, needed in size.paired.items():
        table.add_row(meanings[dependence], _count(needed))
    print_table(table)
    say(
        f"For a difference of {100 * stateless:g} % and {100 * temporal:g} % recall, found with probability "
        f"{power:g} by the exact McNemar test at level {alpha:g}.",
        f"Where each arm judges attacks of its own: {_count(size.unpaired)} an arm (Fisher's exact test).",
        f"Benign conversations, for {100 * target_fpr:g} % false positives with {100 * confidence:g} % "
        f"confidence: {benign} to set the threshold, and others to test it.",
    )
    note(
        "count groups, not conversations, where attacks share a goal: they are not independent of each other; "
        "of several detectors under Holm's correction, divide the level by their number"
    )


def _count(needed: int | None) -> str:
    return "more than can be worked out" if needed is None else str(needed)
