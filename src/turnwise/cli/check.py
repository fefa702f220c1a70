"""``turnwise check``: one conversation from a file or standard input, scores and verdict."""

from __future__ import annotations

from typing import Annotated

import typer

from turnwise.cli import options
from turnwise.cli.conversation_file import read_conversation
from turnwise.cli.detect import DEFAULT_DETECTORS


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
    sides: options.Sides = "prompt",
    fail_on_findings: options.FailOnFindings = False,
    json: options.Json = False,
) -> None:
    """Score one conversation and say what the detectors make of it. Nothing is stored."""
    from turnwise.cli.arguments import read_principles, read_sides
    from turnwise.cli.output import Table, note, print_json, print_table
    from turnwise.cli.trajectories import (
        VERDICT_COLUMNS,
        print_trajectory,
        turn_as_json,
        verdict_as_json,
        verdict_cells,
    )
    from turnwise.detectors import run_detector
    from turnwise.evaluate import calibrated, score_conversation
    from turnwise.observers import Context, ObservationFailure, build_observer

    conversation = read_conversation(file)
    scorer = build_observer(observer)
    seen = Context.parse(context)
    points = scorer.info.operating_points.get(str(seen), {})
    built = [(spec, calibrated(spec, points)) for spec in dict.fromkeys(detector or DEFAULT_DETECTORS)]
    turns, outcomes = score_conversation(
        scorer, conversation, principles=read_principles(principle), context=seen, sides=read_sides(sides)
    )
    verdicts = [run_detector(item, turns, spec) for spec, item in built]
    failures = [(turn, given) for turn, given in outcomes if isinstance(given, ObservationFailure)]
    fired = any(verdict.fired for verdict in verdicts)
    if json:
        print_json(
            {
                "turns": list(map(turn_as_json, turns)),
                "detectors": list(map(verdict_as_json, verdicts)),
                "fired": fired,
                "failures": [
                    {"turn": turn, "principle": given.principle, "reason": given.reason, "message": given.message}
                    for turn, given in failures
                ],
            }
        )
    else:
        print_trajectory(turns, [turn.prompt for turn in conversation])
        table = Table("detector", *VERDICT_COLUMNS, numeric=("turn", "score"))
        for verdict in verdicts:
            table.add_row(verdict.detector, *verdict_cells(verdict))
        print_table(table)
    for turn, given in failures:
        note(f"not scored: turn {turn}, {given.principle}, {given.side}: {given.message}")
    if not any(scores.scores or scores.response_scores for scores in turns):
        note("nothing was scored, so nothing is known of this conversation")
        raise typer.Exit(1)
    if fail_on_findings and fired:
        raise typer.Exit(3)
