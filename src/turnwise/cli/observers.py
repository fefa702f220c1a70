"""``turnwise observers``: what scores turns, and the card of one observer."""

from __future__ import annotations

from typing import Annotated

import typer

from turnwise.cli import options
from turnwise.cli.listings import print_rows
from turnwise.errors import UsageError

observers = typer.Typer(
    help="List observers: version, context modes and what they need.",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
)


@observers.callback()
def list_all(context: typer.Context, json: options.Json = False) -> None:
    """List observers: version, context modes and what they need."""
    if context.invoked_subcommand is not None:
        return
    from turnwise.observers import list_observers

    rows = [
        {
            "name": info.name,
            "version": info.version,
            "contexts": list(map(str, info.contexts)),
            "needs": info.needs,
            "summary": info.summary,
        }
        for info in list_observers()
    ]
    print_rows(rows, json)


@observers.command()
def card(
    name: Annotated[str, typer.Argument(help="local, or local:path/to/model.", show_default=False)],
    json: options.Json = False,
) -> None:
    """Print an observer's model card: data, licences, metrics with intervals, known failures, intended use."""
    from turnwise.cli.output import print_json
    from turnwise.observers.local.card import render_card
    from turnwise.observers.local.weights import read_metrics

    kind, _, path = name.partition(":")
    if kind != "local":
        raise UsageError(
            f"observer {name!r} has no model card; local has one, and so do weights of your own: local:PATH"
        )
    metrics = read_metrics(path or None)
    if json:
        print_json(metrics)
    else:
        typer.echo(render_card(metrics), nl=False)
