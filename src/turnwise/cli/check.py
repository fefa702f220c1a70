"""``turnwise check``: one conversation from a file or standard input, scores and verdict."""

from __future__ import annotations

from typing import Annotated

import typer

from turnwise.cli import observer_options, options
from turnwise.cli.patterns import PatternsFile


def check(
    file: Annotated[
        str,
        typer.Argument(
            help="JSON file with an OpenAI messages list, or - for standard input.", show_default=False
        ),
    ],
    observer: Annotated[str, typer.Option(help="What scores; see turnwise observers.")] = "local",
    context: Annotated[
        str, typer.Option(help="What it may see: turn, window:k, history, transcript.")
    ] = "history",
    principle: options.Principles = None,
    detector: options.Detectors = None,
    patterns: PatternsFile = None,
    sides: options.Sides = "prompt",
    fail_on_findings: options.FailOnFindings = False,
    observer_setting: observer_options.ObserverSettings = None,
    json: options.Json = False,
) -> None:
    """Score one conversation and say what the detectors make of it. Nothing is stored.

    Exits with 1 where evaluations failed.
    """
    from turnwise.cli.arguments import read_principles, read_sides
    from turnwise.cli.files import read_conversation
    from turnwise.cli.output import Table, note, print_json, print_table
    from turnwise.cli.trajectories import VERDICT_COLUMNS, print_trajectory, verdict_cells
    from turnwise.evaluation import DEFAULT_DETECTORS
    from turnwise.observers import build_observer, read_settings
    from turnwise.report import check as check_conversation

    report = check_conversation(
        read_conversation(file),
        build_observer(observer, **read_settings(observer, observer_setting or ())),
        dict.fromkeys(detector or DEFAULT_DETECTORS),
        context=context,
        principles=read_principles(principle),
        sides=read_sides(sides),
        patterns=patterns,
    )
    if json:
        print_json(report.to_dict())
    else:
        print_trajectory(report.turns, report.conversation)
        table = Table("detector", *VERDICT_COLUMNS, numeric=("turn", "score"))
        for verdict in report.verdicts:
            table.add_row(verdict.detector, *verdict_cells(verdict))
        print_table(table)
    for failure in report.failures:
        note(str(failure))
    if not report.scored:
        note("nothing was scored, so nothing is known of this conversation")
        raise typer.Exit(1)
    if fail_on_findings and report.fired:
        raise typer.Exit(3)
    if report.failures:
        note(f"{len(report.failures)} evaluations failed; the same command tries them again")
        raise typer.Exit(1)
