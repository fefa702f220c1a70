"""``turnwise observers``, ``detectors``, ``principles`` and ``datasets``: what there is to choose from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from turnwise.cli import options
from turnwise.cli.output import say_text
from turnwise.errors import UsageError


def detectors(json: options.Json = False) -> None:
    """List detectors with their parameters."""
    from turnwise.detectors import describe_detectors

    rows = [
        {"name": info.name, "parameters": _plain(info.parameters), "summary": info.summary}
        for info in describe_detectors()
    ]
    print_rows(rows, json)


def principles(json: options.Json = False) -> None:
    """List the principles that ship, and those of installed packages."""
    from turnwise.principles import list_principles

    rows = [
        {"name": principle.name, "version": principle.version, "summary": principle.summary}
        for principle in list_principles()
    ]
    print_rows(rows, json)


def datasets(json: options.Json = False) -> None:
    """List the formats that can be imported: licence, what the label means, where the data come from."""
    from turnwise.datasets import list_datasets

    rows = [
        {
            "name": info.name,
            "title": info.title,
            "shape": info.shape,
            "licence": info.licence,
            "label": info.label_meaning,
            "source": info.source,
        }
        for info in list_datasets()
    ]
    print_rows(rows, json)


def print_rows(rows: Sequence[Mapping[str, object]], json: bool) -> None:
    """Print what there is to choose from, as a table or as JSON; all rows have the same keys."""
    from turnwise.cli.output import Table, print_json, print_table

    if json:
        print_json(list(rows))
        return
    columns = list(rows[0]) if rows else ["name"]
    table = Table(*columns)
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    print_table(table)


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as JSON has them: paths as text, and as ``inf`` infinity, a threshold that nothing reaches."""
    return {
        name: str(value) if value == math.inf or isinstance(value, Path) else value
        for name, value in parameters.items()
    }


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
            "settings": _plain({one.name: one.default for one in observer_settings(info.name).values()}),
            "summary": info.summary,
            "principles": "any" if info.principles is None else list(info.principles),
            "costs": info.costs,
        }
        for info in list_observers()
    ]
    if json:
        print_rows(rows, json)
        return
    for columns in (("name", "contexts", "needs", "summary"), ("name", "settings")):  # --json has the rest
        print_rows([{column: row[column] for column in columns} for row in rows], json)


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
