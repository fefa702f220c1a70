"""``turnwise runs``: what every run has come to, and with which settings; runs renamed and deleted."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise._support.visible import visible
from turnwise.cli import options
from turnwise.cli.output import note, print_json, say
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.store import Run, RunTally

runs = typer.Typer(
    help="List the runs of a store: counts, failures, tokens, cost, time and settings.",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
)

_DIGEST = 64
"""Characters of a SHA-256 in hexadecimal digits."""

Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for confirmation; required without a terminal.")
]


@runs.callback()
def list_runs(
    context: typer.Context, store: options.Store = options.DEFAULT_STORE, json: options.Json = False
) -> None:
    """List the runs of a store: counts, failures, tokens, cost, time and settings."""
    if context.invoked_subcommand is not None:
        for name in ("store", "json"):
            source = context.get_parameter_source(name)
            if source is not None and source.name == "COMMANDLINE":  # lost, it could delete from another store
                raise UsageError(
                    f"--{name} must come after the command: turnwise runs {context.invoked_subcommand} ..."
                )
        return
    with options.opened_store(store, prepared=False) as opened:
        found = opened.tallies()
    if json:
        print_json([run.to_dict() | _clean(tally).to_dict() for run, tally in found])
    elif found:
        _print(found)
    else:
        note(f"{opened.location} has no run yet; turnwise evaluate --store {opened.location} makes one")


@runs.command()
def delete(
    name: Annotated[str, typer.Argument(help="Name of the run.", show_default=False)],
    yes: Yes = False,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Delete a run with its scores, failures and calls. Sequences and replies that were paid for stay."""
    from turnwise.store import Store

    with Store(store) as opened:
        tally = opened.tally(name)
        scores = f"{tally.evaluations} scores and {tally.failures} failures of {tally.sequences} sequences"
        what = f"run {name!r}: {scores}, {tally.calls} calls"
        _confirm(f"Delete {what}?", yes)
        deleted = opened.delete_run(name)
    if json:
        print_json({"deleted": deleted.to_dict()})
    else:
        say(f"deleted {what}")


@runs.command()
def rename(
    old: Annotated[str, typer.Argument(help="Name of the run.", show_default=False)],
    new: Annotated[str, typer.Argument(help="Its new name.", show_default=False)],
    yes: Yes = False,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Give a run another name."""
    from turnwise.store import Store

    with Store(store) as opened:
        opened.run(old)
        _confirm(f"Rename run {old!r} to {new!r}?", yes)
        renamed = opened.rename_run(old, new)
    if json:
        print_json({"renamed": old, "run": renamed.to_dict()})
    else:
        say(f"run {old!r} is now {new!r}")


def _confirm(question: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} No terminal to ask on: add --yes")
    if not typer.confirm(visible(question), err=True):
        raise typer.Exit(1)


def _print(found: tuple[tuple[Run, RunTally], ...]) -> None:
    from turnwise.cli.output import Table, print_table
    from turnwise.cli.run_notes import notes
    from turnwise.scoring import unread_in_words

    rows = [_figures(run, tally) for run, tally in found]
    columns = [column for column in rows[0] if any(row[column] for row in rows)]  # --json has the others
    figures = Table(*columns, numeric=columns[1:-1])
    settings = Table("run", "started", "observer", "context", "settings", title="Settings")
    for row, (run, _) in zip(rows, found, strict=True):
        figures.add_row(*(row[column] for column in columns))
        values = ", ".join(
            f"{name}={_short(value)}" for name, value in run.parameters.items() if value not in ({}, None)
        )
        settings.add_row(run.name, f"{run.created_at:%Y-%m-%d %H:%M}", run.observer, run.context, values)
    print_table(figures)
    print_table(settings)
    for run, tally in found:
        if tally.unread:
            say(f"run {run.name}: {unread_in_words(tally.unread)}")
        told = notes(tally.structured, run.parameters.get("structured"), tally.commonest_failure)
        say(*(f"run {run.name}: {line}" for line in told))


def _clean(tally: RunTally) -> RunTally:
    from turnwise.cli.run_notes import without_secrets

    return dataclasses.replace(tally, commonest_failure=without_secrets(tally.commonest_failure))


def _figures(run: Run, tally: RunTally) -> dict[str, str]:
    """What a run has come to, by column; what a run without a language model can't have is empty."""
    from turnwise.cli.output import dollars

    calls = (tally.calls, tally.cached, tally.prompt_tokens, tally.completion_tokens) if tally.calls else ("",) * 4
    return {
        "run": run.name,
        "sequences": str(tally.sequences),
        "evaluations": str(tally.evaluations),
        "failed": str(tally.failed),
        "not read": str(sum(tally.unread.values())) if tally.unread else "",
        **dict(zip(("calls", "cached", "tokens sent", "received"), map(str, calls), strict=True)),
        "cost": dollars(tally.cost_usd) if tally.calls or tally.cost_usd is not None else "",
        "seconds": f"{tally.seconds:.1f}" if tally.seconds else "",
        "last score": f"{tally.last:%Y-%m-%d %H:%M}" if tally.last else "",
    }


def _short(value: object) -> str:
    """The value of a setting; of a digest its beginning."""
    text = str(value)
    is_digest = len(text) == _DIGEST and set(text) <= set("0123456789abcdef")
    return f"{text[:12]}…" if is_digest else text
