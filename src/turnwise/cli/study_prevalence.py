"""``turnwise study prevalence``: how common attacks are among what was scanned, from flags and from labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import options
from turnwise.cli.output import note, print_json, print_table, say
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.findings import Findings
    from turnwise.study.prevalence import Labelled, LabelSample, Prevalence


def prevalence(
    findings: Annotated[str, typer.Argument(help="Folder of a scan's findings, or its URL.", show_default=False)],
    rates: options.Rates = None,
    labels: Annotated[
        str | None,
        typer.Option(
            help="Labels of the label sample: a store in which people gave them, or JSONL with id and label."
        ),
    ] = None,
    author: Annotated[
        list[str] | None, typer.Option(help="Only labels of this person; may be given several times.")
    ] = None,
    label_sample: Annotated[
        int | None,
        typer.Option(min=1, help="Draw that many conversations for people to label into the findings."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of --label-sample.")] = 0,
    json: options.Json = False,
) -> None:
    """Estimate how common attacks are among what was scanned: from the flags, and from labels of a sample."""
    from turnwise.findings import open_findings

    opened = open_findings(findings)
    if label_sample is not None:
        if labels is not None:
            raise UsageError("give --label-sample to draw a sample, or --labels to use its labels, not both")
        from turnwise.study.prevalence import TEXTS, write_label_sample

        sample = write_label_sample(opened, label_sample, seed)
        if json:
            print_json({"file": str(opened.folder / TEXTS), **sample.to_dict()})
        else:
            print_label_sample(sample, opened)
        return
    from turnwise.study.prevalence import read_rates, summarise

    found = summarise(opened, None if rates is None else read_rates(rates, opened.manifest))
    labelled = None
    if labels is not None:
        from turnwise.study.prevalence import estimate_from_labels, read_label_sample, read_labels

        labelled = estimate_from_labels(read_label_sample(opened), read_labels(labels, author or ()))
    elif author:
        raise UsageError("--author says whose labels count: give --labels too")
    if json:
        print_json(
            {"from_flags": found.to_dict(), "from_labels": None if labelled is None else labelled.to_dict()}
        )
        return
    print_prevalence(found)
    if labelled is not None:
        _print_labelled(labelled)


def print_prevalence(found: Prevalence) -> None:
    """Print what the flags of a scan say of all conversations, with what a reader must know."""
    print_table(("from the flags", ""), found.rows())
    for caution in found.cautions:
        note(caution)


def _print_labelled(labelled: Labelled) -> None:
    print_table(("from the labels", ""), labelled.rows())
    columns = "stratum", "conversations", "labelled", "attacks"
    strata = ((one.name, f"{one.population:,}", str(one.labelled), str(one.attacks)) for one in labelled.strata)
    print_table(columns, strata, numeric=columns[1:])
    for caution in labelled.cautions:
        note(caution)


def print_label_sample(sample: LabelSample, findings: Findings) -> None:
    """Print what was drawn for people to label, and what to do with it."""
    from turnwise.study.prevalence import TEXTS

    columns = "stratum", "conversations", "drawn", "each stands for"
    strata = ((one.name, f"{one.population:,}", str(one.drawn), f"{one.weight:,.1f}") for one in sample.strata)
    print_table(columns, strata, numeric=columns[1:])
    say(f"{len(sample.conversations)} conversations drawn with seed {sample.seed}")
    note(
        f"wrote {findings.folder / TEXTS}: import it into a store of its own (turnwise import), label it there "
        f"(turnwise explore, turnwise judgements label), then turnwise study prevalence {findings.folder} "
        "--labels STORE"
    )
