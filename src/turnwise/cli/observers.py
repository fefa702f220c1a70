"""``turnwise observers``: what scores turns, and the card of one observer."""

from __future__ import annotations

from typing import Annotated

import typer

from turnwise.cli import options
from turnwise.cli.listings import print_rows
from turnwise.cli.output import say_text
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
    name: Annotated[
        str, typer.Argument(help="local, local-small, or local:path/to/model.", show_default=False)
    ] = "",
    json: options.Json = False,
) -> None:
    """Print the model card: data, licences, figures with intervals, known limits. Of all that ships by default."""
    from turnwise.cli.output import print_json
    from turnwise.observers.local.card import render_card
    from turnwise.observers.local.weights import SHIPPED, read_metrics, shipped

    kind, _, path = name.partition(":")
    if name and kind not in SHIPPED:
        known = ", ".join(SHIPPED)
        raise UsageError(
            f"observer {name!r} has no model card; {known} have one, and weights of your own: local:PATH"
        )
    folders = {name: path or shipped(kind)} if name else {one: shipped(one) for one in SHIPPED}
    metrics = {one: read_metrics(folder) for one, folder in folders.items()}
    if json:
        print_json(metrics)
    else:
        say_text(render_card(metrics))
