"""``turnwise detectors``, ``principles`` and ``datasets``: what there is to choose from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from turnwise.cli import options


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
    """Print what there is to choose from, as a table or as JSON.

    Args:
        rows: the same keys in each.
        json: whether as JSON.
    """
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
    """Return parameters as JSON may hold them: infinity, a threshold that nothing reaches, as the text ``inf``."""
    return {name: str(value) if value == math.inf else value for name, value in parameters.items()}
