"""``turnwise show``: the trajectory of one sequence, all principles side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from turnwise.cli import options
from turnwise.cli.output import say

SHOWN = 50
"""Turns that are shown where nobody says how many."""


def show(
    sequence_id: Annotated[str, typer.Argument(help="Id of the sequence.", show_default=False)],
    run: options.Run = None,
    first: Annotated[int, typer.Option("--from", min=1, help="Turn to begin with.")] = 1,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help=f"Turns to show at most. Default: {SHOWN}, with --json all.", show_default=False),
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option(help="Draw these turns as well: .html (texts on hover), .svg, .png or .pdf."),
    ] = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Show T, I and F of every principle over the turns of a sequence."""
    from turnwise.cli.arguments import read_run
    from turnwise.cli.output import Table, note, print_json, print_table
    from turnwise.cli.trajectories import print_trajectory
    from turnwise.errors import UsageError
    from turnwise.plots import check_target, save, trajectory_chart
    from turnwise.store import Store

    if plot is not None:
        check_target(plot)
    with Store(store) as opened:
        name = read_run(opened, run)
        sequence = next(opened.heads(ids=[sequence_id]))
        if first > sequence.turns:
            raise UsageError(f"--from {first}: {sequence_id} has {sequence.turns} turns")
        most = limit or (sequence.turns if json else SHOWN)
        part = range(first, min(first + most, sequence.turns + 1))
        said = opened.turns(sequence_id, part)
        trajectory = opened.trajectory(name, sequence_id, turns=part, replies=True)
        tried = opened.failures(name, ids=[sequence_id], turns=part)
    mended = {evaluation.key for evaluation in trajectory.evaluations}
    failures = [failure for failure in tried if failure.key not in mended]
    turns = tuple(trajectory)
    apart = [(evaluation, evaluation.spread) for evaluation in trajectory.evaluations if evaluation.spread]
    prompts = [turn.prompt for turn in said]
    if plot is not None:
        subtitle = f"{sequence.label}, {sequence.source}; run {name}"
        save(trajectory_chart(turns, said, title=sequence_id, subtitle=subtitle), plot)
        note(f"{plot} written")
    if json:
        print_json(
            {
                "sequence_id": sequence_id,
                "label": str(sequence.label),
                "source": sequence.source,
                "run": name,
                "turns": [
                    {"prompt": prompt, **scores.to_dict()} for prompt, scores in zip(prompts, turns, strict=True)
                ],
                "spread": [
                    {
                        "turn": evaluation.key.turn,
                        "side": str(evaluation.key.side),
                        "principle": evaluation.key.principle,
                        "calls": len(evaluation.calls),
                        **spread._asdict(),
                    }
                    for evaluation, spread in apart
                ],
                "failures": [
                    {**failure.key._asdict(), "reason": failure.reason, "message": failure.message}
                    for failure in failures
                ],
            }
        )
        return
    say(f"{sequence_id}  ({sequence.label}, {sequence.source})  run {name}")
    print_trajectory(turns, prompts)
    if apart:
        columns = "turn", "side", "principle", "calls", "T", "I", "F"
        table = Table(*columns, numeric=columns[3:], title="Standard deviation over repeated calls")
        for evaluation, spread in apart:
            key = evaluation.key
            about = str(key.turn), str(key.side), key.principle, str(len(evaluation.calls))
            table.add_row(*about, *(f"{value:.3f}" for value in spread))
        print_table(table)
    for failure in failures:
        key = failure.key
        note(f"turn {key.turn}, {key.principle}, {key.side}: {failure.reason}: {failure.message}")
    if not trajectory:
        note(f"run {name!r} has no evaluation of these turns; turnwise evaluate makes them")
    if len(part) < sequence.turns:
        more = f"; --from {part.stop} shows the next, --limit more of them" if part.stop <= sequence.turns else ""
        note(f"turns {first} to {part.stop - 1} of {sequence.turns}{more}")
