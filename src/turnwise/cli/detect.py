"""``turnwise check`` and ``detect``: what detectors say of a conversation in a file, and of those of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.cli import options
from turnwise.cli.files import CountedLabels, opened_store, read_people, read_run
from turnwise.cli.options import ObserverOptions
from turnwise.cli.output import note, print_json, print_table, say
from turnwise.cli.show import print_trajectory

if TYPE_CHECKING:
    from turnwise.detectors import Verdict
    from turnwise.runs import Detection


@options.grouped
def check(
    file: Annotated[
        str,
        typer.Argument(
            help="JSON file with an OpenAI messages list, or - for standard input.", show_default=False
        ),
    ],
    *,
    observer: Annotated[str, typer.Option(help="Observer that scores; see turnwise list observers.")] = "local",
    context: options.Context = "history",
    principle: options.Principles = None,
    detector: options.Detectors = None,
    patterns: options.PatternsFile = None,
    sides: options.Sides = "prompt",
    fail_on_findings: options.FailOnFindings = False,
    settings: ObserverOptions,
    json: options.Json = False,
) -> None:
    """Score one conversation and print the verdicts of the detectors; nothing is stored.

    Exits with 1 where evaluations failed; texts that the observer does not read are listed, and are no failures.
    """
    from turnwise.cli.files import read_conversation
    from turnwise.front_door import check as check_conversation
    from turnwise.observers import build_observer
    from turnwise.runs import DEFAULT_DETECTORS

    spec = settings.spec(observer)
    settings.check([spec])
    report = check_conversation(
        read_conversation(file),
        build_observer(spec, **settings.of(spec, None)),
        dict.fromkeys(detector or DEFAULT_DETECTORS),
        context=context,
        principles=options.read_principles(principle),
        sides=options.read_sides(sides),
        patterns=patterns,
    )
    if json:
        print_json(report.to_dict())
    else:
        print_trajectory(report.turns, report.conversation)
        print_table(
            ("detector", *VERDICT_COLUMNS),
            [(verdict.detector, *verdict_cells(verdict)) for verdict in report.verdicts],
            numeric=("turn", "score"),
        )
        note_threshold_sources(report.verdicts)
    for missing in (*report.failures, *report.unread):
        note(str(missing))
    if not report.scored:
        note("no score: no turn could be evaluated, so there is no verdict")
        raise typer.Exit(0 if report.unread and not report.failures else 1)
    if fail_on_findings and report.fired:
        raise typer.Exit(3)
    if report.failures:
        note(f"{len(report.failures)} evaluations failed; the same command tries them again")
        raise typer.Exit(1)


NOT_CHECKED = "not checked: the run has no scores that this detector needs"
"""What stands in place of a verdict where nothing was scored."""

NOT_READ = "not read: the run's observer does not read the language"
"""Likewise where that is since its texts were not read."""

VERDICT_COLUMNS = ("fired", "turn", "score", "threshold", "reason")
"""Headings of `verdict_cells`."""

COLUMNS = {
    "sequence_id": "VARCHAR",
    "label": "VARCHAR",
    "imported_label": "VARCHAR",
    "source": "VARCHAR",
    "turns": "BIGINT",
    "missing": "BIGINT",
    "run": "VARCHAR",
    "detector": "VARCHAR",
    "fired": "BOOLEAN",
    "turn": "BIGINT",
    "score": "DOUBLE",
    "threshold": "DOUBLE",
    "threshold_source": "VARCHAR",
    "reason": "VARCHAR",
}
"""Columns of ``--export`` and ``--json``, with their types in DuckDB's words."""


@options.grouped
def detect(
    *,
    run: options.Run = None,
    detector: options.Detectors = None,
    patterns: options.PatternsFile = None,
    selection: options.Selection,
    corrected_by: options.CorrectedBy = None,
    fired: Annotated[
        bool, typer.Option("--fired", help="List only verdicts that fired; the rates stay those of all.")
    ] = False,
    export: Annotated[
        str | None, typer.Option(help="Write the verdicts with all columns to this file: .csv, .parquet or .json.")
    ] = None,
    store: options.Store = options.DEFAULT_STORE,
    fail_on_findings: options.FailOnFindings = False,
    json: options.Json = False,
) -> None:
    """Run detectors over every sequence of a run, and print which fire, at which turn and why."""
    from turnwise.cli.files import ROW_FILES, check_export, write_rows
    from turnwise.runs import detect as detect_in_run
    from turnwise.runs import judges_of

    if export is not None:
        check_export(export, ROW_FILES)
    with opened_store(store) as opened:
        name = read_run(opened, run)
        given = list(dict.fromkeys(detector or ()))
        specs = [one.spec for one in judges_of(opened, name, given, patterns)]
        ids, wanted, people = selection.ids(opened), selection.read_label(), read_people(corrected_by)
        found = list(
            detect_in_run(opened, name, given, ids=ids, label=wanted, patterns=patterns, corrected_by=people)
        )
        heads = {one.head.sequence_id: one for one in found}.values()
        corrected = sum(one.label not in (None, one.head.label) for one in heads)
        counted = CountedLabels(people, corrected, sum(one.label is None for one in heads))
        counted.tell(opened, [one.head for one in heads])
    listed = [one for one in found if one.verdict and one.verdict.fired] if fired else found
    if export is not None:
        count = write_rows(export, COLUMNS, (as_json(one, name) for one in listed))
        note(f"{count} verdicts written to {export}")
    if json:
        print_json([as_json(one, name) for one in listed])
    else:
        _print_detections(listed, found, specs)
    if fail_on_findings and any(one.verdict and one.verdict.fired for one in found):
        raise typer.Exit(3)


def as_json(found: Detection, run: str) -> dict[str, Any]:
    """A detection by `COLUMNS`; what was not scored has null for its verdict, a disputed label is null."""
    head, verdict = found.head, found.verdict
    why = NOT_READ if found.unread else NOT_CHECKED
    told = verdict.to_dict() if verdict else {"detector": found.detector, "reason": why}
    row = {
        "sequence_id": head.sequence_id,
        "label": None if found.label is None else str(found.label),
        "imported_label": str(head.label),
        "source": head.source,
        "turns": head.turns,
        "missing": found.missing,
        "run": run,
        **told,
    }
    return {name: row.get(name) for name in COLUMNS}


def _print_detections(listed: Sequence[Detection], found: Sequence[Detection], specs: Sequence[str]) -> None:
    """Print the verdicts that are listed, and the rates of all."""
    from turnwise.rates import rates_by_label

    if listed or not found:
        print_table(
            ("sequence", "label", "detector", *VERDICT_COLUMNS),
            [
                (
                    item.head.sequence_id,
                    _label_cell(item),
                    item.detector,
                    *verdict_cells(item.verdict, item.unread),
                )
                for item in listed
            ],
            numeric=("turn", "score"),
        )
    else:
        say("no detector fired", "")
    summary = []
    for spec in specs:
        checked = [(str(one.label), one.verdict) for one in found if one.detector == spec and one.verdict]
        rates = rates_by_label((label, verdict.fired) for label, verdict in checked)
        threshold = threshold_cell(checked[0][1]) if checked else ""
        of_labels = (rates.get(label, "none") for label in ("attack", "benign", "unlabelled"))
        summary.append((spec, threshold, *of_labels))
    columns = "detector", "threshold", "of attacks", "of benign", "of unlabelled"
    print_table(columns, summary, title="Fired, with 95 % intervals")
    note_threshold_sources(item.verdict for item in found)
    heads = {item.head.sequence_id: item for item in found}.values()
    unchecked = sum(item.verdict is None and not item.unread for item in heads)
    unread = sum(item.verdict is None and item.unread > 0 for item in heads)
    partial = sum(item.verdict is not None and item.missing > 0 for item in heads)
    if unread:
        note(f"{unread} sequences were not read: the observer does not read their language")
    if unchecked:
        note(f"{unchecked} sequences were not checked: all of their evaluations failed")
    if partial:
        note(f"{partial} sequences have turns without an evaluation in this run; their verdicts skip those turns")
    if not found:
        note("the run has no evaluation of these sequences; turnwise evaluate makes them")


def _label_cell(item: Detection) -> str:
    imported = item.head.label
    if item.label is imported:
        return str(imported)
    return f"{item.label or 'disputed'}, imported as {imported}"


def verdict_cells(verdict: Verdict | None, unread: int = 0) -> tuple[object, ...]:
    """What a table shows of a verdict, by `VERDICT_COLUMNS`."""
    if verdict is None:
        return ("not read", "", "", "", NOT_READ) if unread else ("not checked", "", "", "", NOT_CHECKED)
    score = "no evidence" if verdict.score is None else f"{verdict.score:.3f}"
    return "fired" if verdict.fired else "", verdict.turn, score, threshold_cell(verdict), verdict.reason


def threshold_cell(verdict: Verdict) -> str:
    return f"{verdict.threshold:.3f} {verdict.threshold_source}"


def note_threshold_sources(verdicts: Iterable[Verdict | None]) -> None:
    """Say so where some detectors have calibrated thresholds and others their defaults."""
    from turnwise.detectors import ThresholdSource

    source_of = {one.detector: one.threshold_source for one in verdicts if one}
    point, default = (
        ", ".join(name for name, source in source_of.items() if source is wanted)
        for wanted in (ThresholdSource.OPERATING_POINT, ThresholdSource.DEFAULT)
    )
    if point and default:
        note(
            f"{point}: at the observer's operating point, calibrated to a rate of false positives; {default}: at "
            "the default, calibrated to nothing. What they flag can't be compared; turnwise study calibrate sets "
            "a threshold"
        )
