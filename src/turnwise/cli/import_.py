"""``turnwise import``: a file of conversations into the store."""

from __future__ import annotations

from typing import Annotated

import typer

from turnwise.cli import options

_SHOWN = 20
"""Errors that are listed for people; --json lists all."""


def import_(
    file: Annotated[str, typer.Argument(help="File of conversations, or hf:org/name.", show_default=False)],
    store: options.Store = options.DEFAULT_STORE,
    format: options.Format = None,
    columns: options.Columns = None,
    label: options.DefaultLabel = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first bad line; store nothing after.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Read conversations into the store. Bad lines are skipped and listed; good ones are kept."""
    from turnwise.cli.arguments import read_label
    from turnwise.cli.output import note, print_json
    from turnwise.datasets import LoadOptions, open_dataset
    from turnwise.store import Store, import_sequences

    settings = LoadOptions.parse(columns, read_label(label))
    records = open_dataset(file, format=format, options=settings)
    with Store(store, create=True) as opened:
        result = import_sequences(opened, records, where=file, strict=strict)
    if json:
        errors = [{"line": error.line, "reason": error.reason} for error in result.errors]
        print_json({"imported": result.imported, "skipped": result.skipped, "errors": errors})
    else:
        typer.echo(f"imported {result.imported}, skipped {result.skipped} that were there, into {store}")
        for error in result.errors[:_SHOWN]:
            note(f"{file}, line {error.line}: {error.reason}")
        if len(result.errors) > _SHOWN:
            note(f"and {len(result.errors) - _SHOWN} more; --json lists all")
        if result.errors:
            note(f"{len(result.errors)} bad lines were left out")
    if result.errors and not (result.imported or result.skipped):
        raise typer.Exit(1)
