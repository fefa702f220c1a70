"""All commands in one application."""

from __future__ import annotations

from copy import copy
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from turnwise._version import __version__
from turnwise.cli.compare import compare
from turnwise.cli.demo import demo
from turnwise.cli.detect import check, detect
from turnwise.cli.discover import discover
from turnwise.cli.evaluate import evaluate, retry
from turnwise.cli.explore import explore
from turnwise.cli.export import export
from turnwise.cli.forensics import forensics
from turnwise.cli.guard import guard
from turnwise.cli.import_ import import_
from turnwise.cli.judgements import judgements
from turnwise.cli.language_models import cache, cost, prompt
from turnwise.cli.listings import datasets, detectors, observers, principles
from turnwise.cli.output import keep_quiet, say
from turnwise.cli.patterns import app as patterns
from turnwise.cli.presets import guardrails, presets
from turnwise.cli.prevalence import prevalence
from turnwise.cli.project import defaults_of, find_project, status
from turnwise.cli.query import query
from turnwise.cli.runs import runs
from turnwise.cli.scan import scan
from turnwise.cli.serve import serve
from turnwise.cli.sessions import sessions
from turnwise.cli.show import show
from turnwise.cli.study import power
from turnwise.cli.tune import calibrate, tune


class Commands(TyperGroup):
    """A group of commands whose summaries are never cut, and each of which takes ``--quiet`` as well."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command with its whole summary, and with the option ``--quiet`` of the application."""
        found = super().get_command(ctx, cmd_name)
        if found is None:
            return None
        command = _with_summary(found)
        if not any(one.name == "quiet" for one in command.params):
            quiet = [one for one in ctx.find_root().command.params if one.name == "quiet"]
            command.params = [*command.params, *quiet]
        return command


def _with_summary(command: Any) -> Any:
    """A command, and those below it, with the first paragraph of their help as their summary."""
    command = copy(command)
    command.short_help = " ".join((command.help or "").partition("\n\n")[0].split())
    if isinstance(command, TyperGroup):
        command.commands = {name: _with_summary(below) for name, below in command.commands.items()}
    return command


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command("import")(import_)
app.command()(export)
app.command()(evaluate)
app.command()(retry)
app.add_typer(runs, name="runs", cls=Commands)
app.command()(cost)
app.command()(prompt)
app.add_typer(cache, name="cache", cls=Commands)
app.command()(detect)
app.command()(scan)
app.command()(discover)
app.command()(show)
app.command()(query)
app.command()(explore)
app.command()(check)
app.add_typer(observers, name="observers", cls=Commands)
app.command()(detectors)
app.command()(principles)
app.command()(datasets)
app.command()(tune)
app.command()(calibrate)
app.command()(compare)
app.command()(power)
app.command()(prevalence)
app.add_typer(judgements, name="judgements", cls=Commands)
app.add_typer(sessions, name="sessions", cls=Commands)
app.add_typer(patterns, name="patterns", cls=Commands)
app.add_typer(guard, name="guard", cls=Commands)
app.command()(forensics)
app.add_typer(presets, name="presets", cls=Commands)
app.command()(guardrails)
app.command()(serve)
app.command()(status)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"turnwise {__version__}")
        raise typer.Exit


def _keep_quiet(wanted: bool) -> None:
    if wanted:
        keep_quiet()


@app.callback()
def turnwise(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            callback=_keep_quiet,
            is_eager=True,
            expose_value=False,
            help="Print errors only: no progress, no notes on standard error.",
        ),
    ] = False,
) -> None:
    """Catch manipulation that unfolds over several turns of a conversation.

    A file turnwise.toml, in the working directory or above it, may name store, run and observer of a project;
    turnwise status says what holds.
    """
    if values := find_project().values:
        context.default_map = defaults_of(context.command, values)
