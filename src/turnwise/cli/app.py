"""All commands in one application."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from turnwise._version import __version__
from turnwise.cli.bench import compare as compare_records
from turnwise.cli.bench import run as run_bench
from turnwise.cli.check import check
from turnwise.cli.demo import demo
from turnwise.cli.detect import detect
from turnwise.cli.erase import erase
from turnwise.cli.evaluate import evaluate
from turnwise.cli.explore import explore
from turnwise.cli.guard import approve_tools, replay
from turnwise.cli.guard import check as guard_check
from turnwise.cli.guard_alert import alert
from turnwise.cli.guard_audit import audit, verify
from turnwise.cli.guard_chat import chat
from turnwise.cli.guard_forensics import forensics
from turnwise.cli.guard_report import report
from turnwise.cli.guard_state import expire, forget, sessions
from turnwise.cli.hook import hook
from turnwise.cli.import_export import export, import_
from turnwise.cli.judgements import (
    agreement,
    export_judgements,
    hand_out_sheets,
    label,
    list_inbox,
    list_judgements,
    review,
    take_in_sheets,
    turn,
)
from turnwise.cli.list_ import list_
from turnwise.cli.llm import cache, cost, prompt
from turnwise.cli.mcp import mcp
from turnwise.cli.observers import test as test_observer
from turnwise.cli.output import keep_quiet, say
from turnwise.cli.project import defaults_of, find_project, status
from turnwise.cli.query import query
from turnwise.cli.runs import delete_run, list_runs, publish, rename_run
from turnwise.cli.runs_compare import compare_runs, run_trends
from turnwise.cli.scan import scan
from turnwise.cli.serve import serve
from turnwise.cli.show import show
from turnwise.cli.study import compare, power
from turnwise.cli.study_discover import discover
from turnwise.cli.study_map import map_
from turnwise.cli.study_prevalence import prevalence
from turnwise.cli.study_second_look import second_look
from turnwise.cli.study_sessions import session_rules
from turnwise.cli.study_tune import calibrate, tune
from turnwise.cli.teach import teach


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


def _add_group(name: str, about: str, commands: Mapping[str, Callable[..., None]]) -> None:
    group = typer.Typer(help=about, no_args_is_help=True, rich_markup_mode=None)
    for below, command in commands.items():
        group.command(below)(command)
    app.add_typer(group, name=name, cls=Commands)


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
_add_group(
    "runs",
    "Runs: list them with counts, failures, tokens, cost, time and settings; compare, delete or rename them.",
    {
        "list": list_runs,
        "compare": compare_runs,
        "publish": publish,
        "trends": run_trends,
        "delete": delete_run,
        "rename": rename_run,
    },
)
app.command()(detect)
app.command()(scan)
app.command()(show)
app.command()(query)
app.command()(erase)
app.command()(explore)
app.command()(check)
app.command()(teach)
app.command("list")(list_)
_add_group("observers", "Observers: what one is worth as a judge.", {"test": test_observer})
_add_group(
    "llm",
    "A language model as observer: what it costs, what it is asked, and its stored replies.",
    {"cost": cost, "prompt": prompt, "cache": cache},
)
_add_group(
    "study",
    "Studies of labelled conversations: compare detectors and runs, set thresholds, find patterns, rate rules.",
    {
        "compare": compare,
        "power": power,
        "tune": tune,
        "calibrate": calibrate,
        "discover": discover,
        "prevalence": prevalence,
        "second-look": second_look,
        "map": map_,
        "session-rules": session_rules,
    },
)
_add_group(
    "bench",
    "The yardstick: any guard, turn by turn, on the same conversations; a record of it, and records compared.",
    {"run": run_bench, "compare": compare_records},
)
_add_group(
    "judgements",
    "What people say of conversations: where flagged ones stand, corrected labels, scores of turns.",
    {
        "list": list_judgements,
        "inbox": list_inbox,
        "status": review,
        "label": label,
        "turn": turn,
        "agreement": agreement,
        "export": export_judgements,
        "hand-out": hand_out_sheets,
        "take-in": take_in_sheets,
    },
)
_add_group(
    "guard",
    "Guardrails: check a text, chat under guard, replay recorded conversations, ask the audit, forget.",
    {
        "check": guard_check,
        "approve-tools": approve_tools,
        "chat": chat,
        "replay": replay,
        "forensics": forensics,
        "audit": audit,
        "report": report,
        "alert": alert,
        "verify": verify,
        "sessions": sessions,
        "forget": forget,
        "expire": expire,
    },
)
app.command()(serve)
app.command()(mcp)
app.command()(hook)
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
