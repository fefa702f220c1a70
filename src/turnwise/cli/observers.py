"""``turnwise observers``: what scores turns, and the card of one observer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from turnwise.cli import options
from turnwise.cli.listings import print_rows
from turnwise.cli.output import say_text
from turnwise.errors import UsageError

observers = typer.Typer(
    help="List observers: context modes, what they need, and what can be set of them.",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
)


@observers.callback()
def list_all(context: typer.Context, json: options.Json = False) -> None:
    """List observers: context modes, what they need, and what can be set of them."""
    if context.invoked_subcommand is not None:
        return
    from turnwise.observers import list_observers, observer_settings

    rows = [
        {
            "name": info.name,
            "version": info.version,
            "contexts": list(map(str, info.contexts)),
            "needs": info.needs,
            "settings": {one.name: _plain(one.default) for one in observer_settings(info.name).values()},
            "summary": info.summary,
            "principles": "any" if info.principles is None else list(info.principles),
            "costs": info.costs,
        }
        for info in list_observers()
    ]
    if not json:  # what fits a terminal; the rest is in --json
        rows = [{name: row[name] for name in ("name", "contexts", "needs", "settings", "summary")} for row in rows]
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
    from turnwise.observers import OBSERVERS

    observers: dict[str, Any] = {one: OBSERVERS.get(one) for one in OBSERVERS.names()}
    with_card = {one: part for one, part in observers.items() if hasattr(part, "card_data")}
    kind, _, path = name.partition(":")
    if name and kind not in with_card:
        raise UsageError(f"observer {name!r} has no model card; {', '.join(with_card)} have one")
    chosen = {name: with_card[kind]} if name else with_card
    data = {one: part.card_data(path or None) for one, part in chosen.items()}
    if json:
        print_json(data)
        return
    for render in dict.fromkeys(part.render_card for part in chosen.values()):
        say_text(render({one: data[one] for one, part in chosen.items() if part.render_card is render}))


def _plain(default: object) -> object:
    """Return a default as JSON has it."""
    return str(default) if isinstance(default, Path) else default
