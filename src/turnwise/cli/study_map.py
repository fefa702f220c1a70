"""``turnwise study map``: on which kinds of conversation following them over time helps, by simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turnwise.cli import options
from turnwise.cli.output import print_json, print_table, say, say_paragraphs
from turnwise.cli.study import require_study


def map_(
    out: Annotated[
        Path | None, typer.Option(help="File for the map as a figure: .html, .svg, .png or .pdf.")
    ] = None,
    conversations: Annotated[int, typer.Option(help="Simulated attacks of each kind.", min=50)] = 300,
    seed: Annotated[int, typer.Option(help="Seed; the same one gives the same map.", min=0)] = 0,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Processes.", min=1)] = 1,
    json: options.Json = False,
) -> None:
    """Show when an accumulator beats the highest F: by noise, shape, length and share of bad turns."""
    require_study()
    from turnwise.plots.render import check_target, save
    from turnwise.study import gain_map

    if out is not None:
        check_target(out)
    found = gain_map(conversations=conversations, seed=seed, jobs=jobs)
    if out is not None:
        save(found.spec(), out)
    if json:
        print_json(found.to_dict())
        return
    heads = ("shape", "share of bad turns", "mean gain in recall", "gain and loss shown", "best accumulator")
    print_table(heads, found.summary(), title="The best accumulator against the highest F, at 5 % false positives")
    longest = max(one.turns for one in found.lengths)
    rows = [
        (f"{one.noise:g}", one.decision, f"{100 * one.rate:.0f} %")
        for one in found.lengths
        if one.turns == longest
    ]
    print_table(("noise", "decision", f"of {longest} turns flagged"), rows, title="Long harmless conversations")
    say_paragraphs(
        "Thresholds of the second table flag 5 % of harmless conversations of 10 turns. The simulation is "
        "described in docs/when-watching-helps.md."
    )
    if out is not None:
        say(f"wrote {out}")
