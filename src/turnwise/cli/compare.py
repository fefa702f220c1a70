"""``turnwise compare``: does looking over time help, which of two runs finds more, and how sure are we."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import options
from turnwise.cli.output import say
from turnwise.cli.patterns import PatternsFile

if TYPE_CHECKING:
    from turnwise.study.compare import Study


PRINTED = ("runs", "reader", "over_splits", "followed", "detectors", "tests")
"""Tables that the terminal shows; the report has all."""


def compare(
    run: Annotated[
        list[str] | None,
        typer.Option(
            help="Run to compare; may be given several times: two observers are two runs of the same --context. "
            "[default: all that are scored by turn]"
        ),
    ] = None,
    detector: options.Detectors = None,
    patterns: PatternsFile = None,
    target_fpr: Annotated[
        float, typer.Option(help="Share of benign conversations that may be flagged, the same for all.")
    ] = 0.01,
    thresholds: Annotated[
        str, typer.Option(help="calibrated on conversations of their own, or given: those of --detector and run.")
    ] = "calibrated",
    guarantee: Annotated[
        str, typer.Option(help="The rate holds in expectation, or with confidence (needs more conversations).")
    ] = "expectation",
    folds: Annotated[
        int,
        typer.Option(help="0: one split into train, calibrate, test. From 2: every conversation is tested once."),
    ] = 0,
    splits: Annotated[
        int,
        typer.Option(
            help="Splits that the gain is judged on. 1: a single split, which says nothing about others."
        ),
    ] = 50,
    seeds: Annotated[
        int, typer.Option(help="How often these splits are drawn, each time others: does the gain stay?")
    ] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the split and of the bootstrap.")] = 0,
    replicates: Annotated[int, typer.Option(help="Resamples of the bootstrap.", min=1)] = 2000,
    truth: Annotated[
        str | None,
        typer.Option(
            help="Run whose F says at which turns a reader flags something (from 0.5), such as judged-history."
        ),
    ] = None,
    keep_trained: Annotated[
        bool,
        typer.Option(
            "--keep-trained", help="Test false positives on data sets that an observer was trained on, too."
        ),
    ] = False,
    corrected_by: options.CorrectedBy = None,
    report: Annotated[
        Path | None, typer.Option(help="Folder to write report.html, tables, figures and results.json to.")
    ] = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Compare detectors, and runs, at the same rate of false positives, with baselines, intervals and tests.

    Runs of different contexts ask whether looking over time helps. Runs that all have the same context, by two
    observers, ask which of them finds more: the report opens with that, detector by detector.
    """
    from turnwise.cli.output import note, print_json
    from turnwise.cli.study import require_study, rescorer
    from turnwise.study.compare import Settings
    from turnwise.study.compare import compare as run_study
    from turnwise.study.report import check_folder, summary, write_report

    require_study()
    if report is not None:
        check_folder(report)
    with options.opened_store(store) as opened:
        runs = tuple(run or _runs_by_turn(opened))
        settings = Settings(
            runs=runs,
            detectors=tuple(detector or ("cusum", "trust_ema", "slope")),
            target_fpr=target_fpr,
            thresholds=thresholds,  # type: ignore[arg-type]  # checked by Settings
            guarantee=guarantee,  # type: ignore[arg-type]
            folds=folds,
            splits=splits,
            seeds=seeds,
            seed=seed,
            replicates=replicates,
            patterns=patterns,
            truth=truth,
            keep_trained=keep_trained,
            corrected_by=tuple(corrected_by or ()),
        )
        if not corrected_by:
            options.CountedLabels((), 0, 0).tell(opened)
        study = run_study(opened, settings, rescore=rescorer(), tell=note)
    if report is not None:
        note("writing the report")
        write_report(study, report, tell=note)
    if json:
        print_json(summary(study))
    else:
        _print(study)
    if report is not None:
        note(f"wrote {report / 'report.html'}")


def _runs_by_turn(store: object) -> list[str]:
    from turnwise.errors import UsageError
    from turnwise.observers.protocol import Context, ContextMode
    from turnwise.store import Store

    assert isinstance(store, Store)
    modes = (ContextMode.TURN, ContextMode.HISTORY)
    names = [known.name for known in store.runs() if Context.parse(known.context).mode in modes]
    if not names:
        raise UsageError(
            f"{store.location} has no run with context turn or history: make one with turnwise evaluate"
        )
    return names


def _print(study: Study) -> None:
    from turnwise.cli.output import Table, note, print_table
    from turnwise.study.report.tables import all_tables
    from turnwise.study.report.words import verdict

    for line in verdict(study):
        say(line, "")
    for table in all_tables(study):
        if table.name not in PRINTED:
            continue
        shown = Table(*table.columns, numeric=table.columns[table.left :], title=table.title)
        for row in table.rows:
            shown.add_row(*row)
        print_table(shown)
    for warning in study.warnings:
        note(f"warning: {warning}")
