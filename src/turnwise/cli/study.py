"""``turnwise power``, and what the commands of a study share: the extra they need, an observer to score again."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import options
from turnwise.cli.output import say_paragraphs
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.observers import Observer
    from turnwise.study.compare.checks import Rescore
    from turnwise.study.stats.power import Dependence


EXTRA = 'python -m pip install "turnwise[study]"'
"""What installs the libraries that a study needs."""

FOR_A_REPORT = ("scipy", "altair", "vl_convert")
"""Packages that a report rests on."""


def require_study(*packages: str) -> None:
    """Check that the statistics library and these packages are there, before any work is done."""
    lacking = [package for package in ("scipy", *packages) if not is_installed(package)]
    if lacking:
        raise UsageError(f"a study needs {', '.join(lacking)}: {EXTRA}")


def is_installed(*packages: str) -> bool:
    """Whether packages can be imported, without importing them."""
    return all(find_spec(package) is not None for package in packages)


def rescorer() -> Rescore:
    """What scores a conversation again by the observer that made the run, where that computes its scores."""
    from turnwise.conversation import Conversation
    from turnwise.front_door import score
    from turnwise.scoring import TurnScores
    from turnwise.store import Run

    observers: dict[str, Observer | None] = {}

    def rescore(run: Run, conversation: Conversation) -> tuple[TurnScores, ...] | None:
        if run.observer not in observers:
            observers[run.observer] = _built_again(run.observer)
        observer = observers[run.observer]
        if observer is None:
            return None
        if observer.info.version != run.observer_version:
            return None
        return score(conversation, observer, context=run.context).turns

    return rescore


def _built_again(spec: str) -> Observer | None:
    """An observer that computes its scores from the texts alone; None for any other."""
    from turnwise.errors import TurnwiseError
    from turnwise.observers import Workers, build_observer, describe_observer

    try:
        if describe_observer(spec).workers is Workers.PROCESSES:
            return build_observer(spec)
    except TurnwiseError:
        return None
    return None


def power(
    stateless: Annotated[float, typer.Option(help="Recall expected of looking at single turns, in [0, 1].")],
    temporal: Annotated[float, typer.Option(help="Recall expected of looking over time, in [0, 1].")],
    power: Annotated[float, typer.Option(help="Wanted probability of finding the difference.")] = 0.8,
    alpha: Annotated[float, typer.Option(help="Level of the two-sided test.")] = 0.05,
    target_fpr: Annotated[float, typer.Option(help="False-positive rate of the thresholds.")] = 0.01,
    confidence: Annotated[float, typer.Option(help="Confidence with which that rate is to be kept.")] = 0.95,
    attacks: Annotated[
        int | None,
        typer.Option(help="Attacks that you have: how probably do they show the difference?", min=1, max=20_000),
    ] = None,
    json: options.Json = False,
) -> None:
    """Compute how many attacks and benign conversations a comparison needs, by the exact power of its tests.

    The two recalls may as well be those of two observers.
    """
    from turnwise.cli.output import Table, note, print_json, print_table
    from turnwise.study import needed_benign, paired_power, study_size, unpaired_power
    from turnwise.study.stats.power import MOST_UNPAIRED
    from turnwise.study.stats.thresholds import check_rate

    require_study()
    check_rate("target fpr", target_fpr)
    check_rate("confidence", confidence)
    size = study_size(stateless, temporal, power, alpha)
    benign = needed_benign(target_fpr, confidence)
    paired: dict[Dependence, float] = {}
    unpaired = None
    if attacks is not None:
        paired = {how: paired_power(attacks, stateless, temporal, how, alpha) for how in size.paired}
        unpaired = unpaired_power(attacks, stateless, temporal, alpha) if attacks <= MOST_UNPAIRED else None
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
                "attacks": attacks,
                "power_of_attacks": None if attacks is None else {"paired": paired, "unpaired": unpaired},
            }
        )
        return
    columns = ("attacks needed",) if attacks is None else ("attacks needed", f"probability with {attacks}")
    table = Table("both arms judge the same attacks", *columns, numeric=columns)
    meanings = {
        "independent": "they catch the same ones by chance",
        "most favourable": "one catches all that the other does",
        "least favourable": "they catch different ones as far as can be",
    }
    for dependence, needed in size.paired.items():
        table.add_row(
            meanings[dependence], _count(needed), *([] if attacks is None else [f"{paired[dependence]:.3f}"])
        )
    print_table(table)
    say_paragraphs(
        f"For a difference of {100 * stateless:g} % and {100 * temporal:g} % recall, found with probability "
        f"{power:g} by the exact McNemar test at level {alpha:g}.",
        f"Where each arm judges attacks of its own: {_count(size.unpaired)} an arm (Fisher's exact test)"
        + ("." if unpaired is None else f"; with {attacks} an arm the probability is {unpaired:.3f}."),
        f"Benign conversations, for {100 * target_fpr:g} % false positives with {100 * confidence:g} % "
        f"confidence: {benign} to set the threshold, and others to test it.",
    )
    note(
        "count groups, not conversations, where attacks share a goal: they are not independent of each other; "
        "of several detectors under Holm's correction, divide the level by their number"
    )


def _count(needed: int | None) -> str:
    return "too many to compute" if needed is None else str(needed)
