"""``turnwise import``: a file of conversations into the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from turnwise.cli import options
from turnwise.cli.output import say

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
    judged: Annotated[
        Path | None,
        typer.Option(
            help="Folder of judgements, such as corpus/judged: import only conversations that were judged, and "
            "record their scores as runs judged-history, judged-turn and the like."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Read conversations into the store. Bad lines are skipped and listed; good ones are kept."""
    from turnwise.cli.output import note, print_json
    from turnwise.conversation import Sequence
    from turnwise.datasets import BadRecord, open_dataset
    from turnwise.errors import DatasetError
    from turnwise.evaluation import judged_ids, record_judgements
    from turnwise.store import Store, import_sequences

    records = open_dataset(file, format=format, columns=columns, label=label)
    known = {} if judged is None else judged_ids(judged)
    wanted = None if judged is None else frozenset().union(*known.values())
    taken: list[str] = []

    def chosen() -> Iterator[Sequence | BadRecord]:
        for record in records:
            if wanted is None or isinstance(record, BadRecord) or record.sequence_id in wanted:
                if wanted is not None and isinstance(record, Sequence):
                    taken.append(record.sequence_id)
                yield record

    with Store(store, create=True) as opened:
        result = import_sequences(opened, chosen(), where=file, strict=strict)
        if judged is not None and not taken:
            raise DatasetError(f"none of the conversations of {file} was judged in {judged}")
        runs = [] if judged is None else record_judgements(opened, judged, taken, known)
    if json:
        errors = [{"line": error.line, "reason": error.reason} for error in result.errors]
        made = [{"run": run.run, "evaluations": run.evaluations, "failures": run.failures} for run in runs]
        judgements = {} if judged is None else {"judgements": made}
        print_json({"imported": result.imported, "skipped": result.skipped, "errors": errors, **judgements})
    else:
        say(f"imported {result.imported}, skipped {result.skipped} that were there, into {store}")
        for run in runs:
            void = f", {run.failures} void: the text is not the one that was read" if run.failures else ""
            say(f"run {run.run}: {run.evaluations} recorded scores{void}")
        for error in result.errors[:_SHOWN]:
            note(f"{file}, line {error.line}: {error.reason}")
        if len(result.errors) > _SHOWN:
            note(f"and {len(result.errors) - _SHOWN} more; --json lists all")
        if result.errors:
            note(f"{len(result.errors)} bad lines were left out")
    if result.errors and not (result.imported or result.skipped):
        raise typer.Exit(1)
