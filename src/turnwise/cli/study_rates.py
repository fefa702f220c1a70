"""``turnwise study prevalence``, ``second-look`` and ``session-rules``: rates of what was scanned and recorded."""

from __future__ import annotations

import json as json_
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import options
from turnwise.cli.files import opened_store, read_run
from turnwise.cli.output import note, print_json, print_table, rate_json, say, say_paragraphs
from turnwise.errors import SessionError, StoreError, TurnwiseError, UsageError

if TYPE_CHECKING:
    from turnwise.findings import Findings
    from turnwise.sessions.recorded_sessions import SessionRecord
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
        int | None, typer.Option(min=1, help="Draw that many conversations for people to label into the findings.")
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
    strata = ((one.name, f"{one.population:,}", one.labelled, one.attacks) for one in labelled.strata)
    print_table(columns, strata, numeric=columns[1:])
    for caution in labelled.cautions:
        note(caution)


def print_label_sample(sample: LabelSample, findings: Findings) -> None:
    """Print what was drawn for people to label, and what to do with it."""
    from turnwise.study.prevalence import TEXTS

    columns = "stratum", "conversations", "drawn", "each stands for"
    strata = ((one.name, f"{one.population:,}", one.drawn, f"{one.weight:,.1f}") for one in sample.strata)
    print_table(columns, strata, numeric=columns[1:])
    say(f"{len(sample.conversations)} conversations drawn with seed {sample.seed}")
    note(
        f"wrote {findings.folder / TEXTS}: import it into a store of its own (turnwise import), label it there "
        f"(turnwise explore, turnwise judgements label), then turnwise study prevalence {findings.folder} "
        "--labels STORE"
    )


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
        rows = [(name, *(rates.get(label, "none") for label in labels)) for name, rates in found.by_label.items()]
        print_table(("flagged, by label", *labels), rows, title="Labelled conversations")
    say_paragraphs(found.sentence)
    for caution in found.cautions:
        note(caution)


def session_rules(
    file: Annotated[
        str | None,
        typer.Argument(
            help="JSON file of recorded sessions (scenario, label, balances, trust, recorded_trajectory), or - "
            "for standard input; without one, the labelled sequences of a run of the store.",
            show_default=False,
        ),
    ] = None,
    run: options.Run = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Rate the rules of the session memory: what each catches and flags falsely, with exact intervals."""
    from turnwise.sessions.recorded_sessions import RULES, largest_difference, rate_rules

    records = _read(file) if file is not None else _of_run(store, run)
    try:
        rows = rate_rules(records)
    except SessionError as error:
        raise SessionError(f"{file}: {error}") from error
    difference = largest_difference(records) if file is not None else None
    counts = {label: sum(record.label == label for record in records) for label in ("attack", "benign")}
    if json:
        print_json(
            {
                "records": len(records),
                **counts,
                "trust_difference": difference,
                "rules": [
                    {
                        "rule": row.rule.name,
                        "source": row.rule.source,
                        **{label: rate_json(rate) for label, rate in row.rates.items()},
                        "flagged": list(row.flagged),
                    }
                    for row in rows
                ],
            }
        )
        return
    say(f"{len(records)} sessions: {counts['attack']} attack, {counts['benign']} benign")
    if difference is not None:
        turns = sum(len(record.trust) for record in records)
        say(f"trust computed again from strengths: differs by at most {difference:.1e} over {turns} turns")
    table = []
    for row in rows:
        mark = "" if row.rule.source == "summary" else " *"
        table.append((row.rule.name + mark, row.rates["attack"], row.rates["benign"]))
    columns = "rule", "attacks caught", "benign flagged"
    print_table(columns, table, title="With 95 % intervals (Clopper-Pearson)")
    if any(rule.source != "summary" for rule in RULES):
        say("* not in the validation summary's table; see docs/reference/session-rules.md")


def _read(file: str) -> tuple[SessionRecord, ...]:
    from turnwise._support.bounded import read_json
    from turnwise._support.locations import to_path
    from turnwise.sessions.recorded_sessions import read_records

    where = "standard input" if file == "-" else file
    try:
        text = sys.stdin.read() if file == "-" else to_path(file).read_text(encoding="utf-8-sig")
        return read_records(read_json(text))
    except (OSError, UnicodeDecodeError) as error:
        raise SessionError(f"can't read the records in {where}: {error}") from error
    except json_.JSONDecodeError as error:
        raise SessionError(
            f"{where} is not JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        ) from error
    except (TurnwiseError, ValueError) as error:
        raise SessionError(f"{where}: {error}") from error


def _of_run(path: str, run: str | None) -> tuple[SessionRecord, ...]:
    from turnwise.sessions.recorded_sessions import LABELS, record_of
    from turnwise.store import Store

    try:
        opened = Store(path)
    except StoreError as error:
        raise SessionError(f"{error}; or name a FILE of recorded sessions") from error
    with opened:
        name = read_run(opened, run)
        labelled = [item for item in opened.trajectories(name) if str(item[0].label) in LABELS]
        found = [record_of(head.sequence_id, str(head.label), turns) for head, turns in labelled]
    records = tuple(record for record in found if record is not None)
    if not records:
        raise SessionError(f"run {name!r} has no scores of sequences labelled attack or benign; name a FILE")
    if len(records) < len(found):
        note(f"{len(found) - len(records)} sequences were left out: the run has no scores of them")
    return records
