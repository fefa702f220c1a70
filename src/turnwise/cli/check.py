"""``turnwise check``: what detectors say of one conversation, in a file."""

from __future__ import annotations

from typing import Annotated

import typer

from turnwise.cli import options
from turnwise.cli.output import note, print_json, print_table
from turnwise.cli.show import VERDICT_COLUMNS, note_threshold_sources, print_trajectory, verdict_cells


@options.grouped
def check(
    file: Annotated[
        str,
        typer.Argument(
            help="JSON file with an OpenAI messages list, or - for standard input.", show_default=False
        ),
    ],
    *,
    observer: Annotated[str, typer.Option(help="Observer that scores; see turnwise list observers.")] = "local",
    context: options.Context = "history",
    principle: options.Principles = None,
    detector: options.Detectors = None,
    patterns: options.PatternsFile = None,
    sides: options.Sides = "prompt",
    fail_on_findings: options.FailOnFindings = False,
    settings: options.Settings,
    json: options.Json = False,
) -> None:
    """Score one conversation and print the verdicts of the detectors; nothing is stored.

    Exits with 1 where evaluations failed; texts that the observer does not read are listed, and are no failures.
    """
    from turnwise.cli.files import read_conversation
    from turnwise.front_door import check as check_conversation
    from turnwise.observers import build_observer
    from turnwise.runs import DEFAULT_DETECTORS

    spec = settings.spec(observer)
    settings.check([spec])
    report = check_conversation(
        read_conversation(file),
        build_observer(spec, **settings.of(spec, None)),
        dict.fromkeys(detector or DEFAULT_DETECTORS),
        context=context,
        principles=options.read_principles(principle),
        sides=options.read_sides(sides),
        patterns=patterns,
    )
    if json:
        print_json(report.to_dict())
    else:
        print_trajectory(report.turns, report.conversation)
        print_table(
            ("detector", *VERDICT_COLUMNS),
            [(verdict.detector, *verdict_cells(verdict)) for verdict in report.verdicts],
            numeric=("turn", "score"),
        )
        note_threshold_sources(report.verdicts)
    for missing in (*report.failures, *report.unread):
        note(str(missing))
    if not report.scored:
        note("no score: no turn could be evaluated, so there is no verdict")
        raise typer.Exit(0 if report.unread and not report.failures else 1)
    if fail_on_findings and report.fired:
        raise typer.Exit(3)
    if report.failures:
        note(f"{len(report.failures)} evaluations failed; the same command tries them again")
        raise typer.Exit(1)
