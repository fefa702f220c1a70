"""All commands in one application."""

from __future__ import annotations

from typing import Annotated

import typer

from turnwise._version import __version__
from turnwise.cli.cache import cache
from turnwise.cli.calibrate import calibrate
from turnwise.cli.check import check
from turnwise.cli.compare import compare
from turnwise.cli.cost import cost
from turnwise.cli.demo import demo
from turnwise.cli.detect import detect
from turnwise.cli.discover import discover
from turnwise.cli.evaluate import evaluate
from turnwise.cli.forensics import forensics
from turnwise.cli.guard import guard
from turnwise.cli.import_ import import_
from turnwise.cli.listings import datasets, detectors, principles
from turnwise.cli.observers import observers
from turnwise.cli.output import say
from turnwise.cli.patterns import app as patterns
from turnwise.cli.power import power
from turnwise.cli.presets import guardrails, presets
from turnwise.cli.prompt import prompt
from turnwise.cli.query import query
from turnwise.cli.retry import retry
from turnwise.cli.runs import runs
from turnwise.cli.sessions import sessions
from turnwise.cli.show import show
from turnwise.cli.tune import tune

app = typer.Typer(
    help="Catch manipulation that unfolds over several turns of a conversation.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command("import")(import_)
app.command()(evaluate)
app.command()(retry)
app.add_typer(runs, name="runs")
app.command()(cost)
app.command()(prompt)
app.add_typer(cache, name="cache")
app.command()(detect)
app.command()(discover)
app.command()(show)
app.command()(query)
app.command()(check)
app.add_typer(observers, name="observers")
app.command()(detectors)
app.command()(principles)
app.command()(datasets)
app.command()(tune)
app.command()(calibrate)
app.command()(compare)
app.command()(power)
app.add_typer(sessions, name="sessions")
app.add_typer(patterns, name="patterns")
app.add_typer(guard, name="guard")
app.command()(forensics)
app.add_typer(presets, name="presets")
app.command()(guardrails)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"turnwise {__version__}")
        raise typer.Exit


@app.callback()
def turnwise(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Catch manipulation that unfolds over several turns of a conversation."""
