"""``turnwise study second-look``: what the screen of a run in two stages missed, by the sample of its judge."""

from __future__ import annotations

from typing import Annotated

import typer

from turnwise.cli import options
from turnwise.cli.output import note, print_json, print_table, say_paragraphs
from turnwise.cli.stores import opened_store, read_run


def second_look(
    run: options.Run = None,
    threshold: Annotated[
        float, typer.Option(help="Highest F from which the judge's verdict is positive.", min=0.0, max=1.0)
    ] = 0.5,
    count: Annotated[
        str | None, typer.Option(help="Count turns or conversations; by default what was drawn.")
    ] = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Estimate what the screen of a second_look run missed: recall and false positives, measured by the judge."""
    from turnwise.study import second_look_rates

    with opened_store(store) as opened:
        found = second_look_rates(opened, read_run(opened, run), threshold=threshold, counted=count)  # type: ignore[arg-type]  # checked there
    if json:
        print_json(found.to_dict())
        return
    print_table((found.counted, ""), found.rows())
    if found.by_label:
        labels = sorted({label for rates in found.by_label.values() for label in rates})
        rows = [
            (name, *(str(rates[label]) if label in rates else "none" for label in labels))
            for name, rates in found.by_label.items()
        ]
        print_table(("flagged, by label", *labels), rows, title="Labelled conversations")
    say_paragraphs(found.sentence)
    for caution in found.cautions:
        note(caution)
