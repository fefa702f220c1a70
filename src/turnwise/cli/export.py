"""``turnwise export``: the store as files, of which another store can be made, or that others read."""

from __future__ import annotations

from typing import Annotated

import typer

from turnwise.cli import options
from turnwise.cli.output import note, print_json, say


def export(
    out: Annotated[str, typer.Option(help="Folder to make; one that is there must be empty.", show_default=False)],
    format: Annotated[
        str,
        typer.Option(
            help="parquet or jsonl, of which turnwise import --from-store makes an equal store; csv for "
            "spreadsheets; arangodb for arangoimport."
        ),
    ] = "parquet",
    runs: Annotated[
        list[str] | None,
        typer.Option("--run", help="Only this run and what it scored; may be given several times."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            help="Only sequences for which this holds, such as 'turns >= 5 and metadata.tactic = \"x\"'; see "
            "turnwise query."
        ),
    ] = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Write all of the store to files: sequences, runs, scores, failures, replies and the audit of guards.

    The files show the store as it was at one moment, whoever writes to it meanwhile. The folder is there once all
    of it is written.
    """
    from turnwise.store import Store

    def progress(table: str, rows: int) -> None:
        note(f"{table.replace('_', ' ')}: {rows}")

    with Store(store) as opened:
        done = opened.export(out, format=format, runs=runs or None, where=where, progress=progress)
    if json:
        print_json(done.to_dict())
    else:
        say(f"exported {sum(done.rows.values())} rows from {store} to {out}")
    for sentence in done.not_carried:
        note(sentence)
    corrected = sum(rows for name, rows in done.rows.items() if name.startswith("corrections."))
    if corrected:
        note(
            "labels of sequences are those that were imported; what people say of them stands beside them, in "
            f"{corrected} rows of corrections"
        )
