"""``turnwise tune`` and ``calibrate``: a detector for one's own data, and a threshold with a guarantee."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import options
from turnwise.cli.patterns import PatternsFile

if TYPE_CHECKING:
    from turnwise.store import Run, Store
    from turnwise.study import Loaded, Tuned
    from turnwise.study.compare.tuning import Tuning
    from turnwise.study.fitting.calibrate import Guaranteed


def tune(
    detector: Annotated[
        str, typer.Option(help="A detector that is fitted (learned, sprt, shiryaev_roberts, hmm), or any other.")
    ] = "learned",
    run: options.Run = None,
    patterns: PatternsFile = None,
    budget: Annotated[
        int | None,
        typer.Option(
            help="Search the parameters with that many trials, on the conversations alone that compare trains on "
            "with the same seed. [default: no search]"
        ),
    ] = None,
    objective: Annotated[
        str, typer.Option(help="recall at --target-fpr, or f1, whatever the rate of false positives.")
    ] = "recall",
    target_fpr: Annotated[float, typer.Option(help="Share of benign conversations that may be flagged.")] = 0.01,
    seed: Annotated[int, typer.Option(help="Seed of the split and of the search.")] = 0,
    corrected_by: options.CorrectedBy = None,
    out: Annotated[Path | None, typer.Option(help="YAML file to write, for --detector of other commands.")] = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Fit a detector, or search its parameters, on a run's labelled conversations, and set its threshold."""
    from turnwise.cli.files import check_file, write_text
    from turnwise.cli.options import read_run
    from turnwise.cli.output import note

    if out is not None:
        check_file(out)
    with options.opened_store(store) as opened:
        known = opened.run(read_run(opened, run))
        people = tuple(dict.fromkeys(corrected_by or ()))
        if budget is None:
            written = _fit(opened, known, people, detector, patterns, objective, target_fpr, seed, json)
        else:
            written = _search(opened, known, people, detector, objective, target_fpr, budget, seed, json)
    if out is not None:
        write_text(out, written)
        note(f"wrote {out}: turnwise detect --run {known.name} --detector {out}")


def _search(
    store: Store,
    run: Run,
    people: tuple[str, ...],
    detector: str,
    objective: str,
    target_fpr: float,
    budget: int,
    seed: int,
    json: bool,
) -> str:
    """Search, tell what was found, and return the file."""
    from turnwise.cli.output import note, print_json
    from turnwise.cli.study import require_study
    from turnwise.detectors import to_mapping
    from turnwise.study.compare import load_study_data
    from turnwise.study.compare.tuning import as_file, origin, tune_inside_training
    from turnwise.study.fitting.search import check_objective, check_search

    require_study("optuna")
    check_objective(objective)
    check_search(detector, budget)
    study_data = load_study_data(store, [run.name], people)
    labels = options.CountedLabels(people, study_data.corrected, study_data.disputed)
    labels.tell(store)
    note(f"{budget} trials on the training part of {len(study_data.known)} conversations")
    found = tune_inside_training(study_data, detector, target_fpr, budget, seed, objective)  # type: ignore[arg-type]
    if json:
        print_json({"detector": to_mapping(found.searched.detector), **origin(found), **labels._asdict()})
    else:
        _print_search(found)
    return labels.as_heading() + as_file(found)


def _print_search(found: Tuning) -> None:
    from turnwise.cli.output import Table, note, print_table
    from turnwise.detectors import format_spec

    searched = found.searched
    table = Table("", "")
    table.add_row("detector", format_spec(searched.detector))
    table.add_row(
        "searched on", f"the training part: {found.attacks} attacks, {found.benign} benign conversations"
    )
    table.add_row("trials", f"{searched.trials}, of which number {searched.best} was best")
    if found.objective == "f1":
        table.add_row("F1 there, tuned", f"{searched.after.f1:.3f}")
        table.add_row("F1 there, as given", f"{searched.before.f1:.3f}")
    table.add_row("recall there, tuned", str(searched.after.recall))
    table.add_row("recall there, as given", str(searched.before.recall))
    table.add_row("false positives there, tuned", str(searched.after.false_positives))
    print_table(table)
    note(
        "cross-fitted by group inside the training part, and the best of many: not a "
        "test result. turnwise compare "
        f"with --seed {found.settings.seed} on the same conversations tests it on others"
    )


def _fit(
    store: Store,
    run: Run,
    people: tuple[str, ...],
    detector: str,
    patterns: str | None,
    objective: str,
    target_fpr: float,
    seed: int,
    json: bool,
) -> str:
    """Fit, set the threshold, tell what was found, and return the file."""
    from turnwise.cli.output import print_json
    from turnwise.detectors import to_mapping
    from turnwise.study import load_examples
    from turnwise.study import tune as tune_detector

    loaded = load_examples(store, run.name, people)
    labels = options.CountedLabels(people, loaded.corrected, loaded.disputed)
    labels.tell(store)
    tuned = tune_detector(
        detector,
        loaded.examples,
        target_fpr,
        seed,
        objective=objective,  # type: ignore[arg-type]  # checked there
        patterns=patterns,
    )
    rate = None if objective == "f1" else target_fpr
    if json:
        print_json(
            {
                "detector": to_mapping(tuned.detector),
                "run": run.name,
                "objective": objective,
                "target_fpr": rate,
                "f1": tuned.f1,
                "seed": seed,
                "fitted": tuned.fitted,
                "train": tuned.train,
                "calibrate": tuned.calibrate,
                "flagged_benign": [tuned.flagged_benign.count, tuned.flagged_benign.of],
                "flagged_attacks": [tuned.flagged_attacks.count, tuned.flagged_attacks.of],
                "unlabelled": loaded.unlabelled,
                "not_evaluated": loaded.not_evaluated,
                **labels._asdict(),
            }
        )
    else:
        _print_fit(tuned, loaded)
    return labels.as_heading() + _as_yaml(tuned, run, rate, seed)


def _as_yaml(tuned: Tuned, run: Run, target_fpr: float | None, seed: int) -> str:
    import yaml

    from turnwise.detectors import to_mapping

    what = f"fitted on {tuned.train} conversations, its" if tuned.fitted else "the"
    benign, attacks = tuned.flagged_benign.of, tuned.flagged_attacks.of
    aim = (
        f"{attacks} attacks and {benign} benign ones for the highest F1"
        if target_fpr is None
        else f"{benign} benign ones for at most {100 * target_fpr:g} % of them"
    )
    heading = (
        f"# {tuned.detector.name}: {what} threshold set on {aim}.\n"
        f"# Run {run.name}, observer {run.observer} {run.observer_version}, context {run.context}, seed {seed}.\n"
    )
    return heading + yaml.safe_dump(to_mapping(tuned.detector), sort_keys=False, allow_unicode=True)


def _print_fit(tuned: Tuned, loaded: Loaded) -> None:
    from turnwise.cli.output import Table, note, print_table
    from turnwise.detectors import format_spec

    if loaded.unlabelled:
        note(f"{loaded.unlabelled} unlabelled sequences were left out")
    if loaded.not_evaluated:
        note(f"{loaded.not_evaluated} labelled sequences have no evaluation in this run and were left out")
    table = Table("", "")
    table.add_row("detector", format_spec(tuned.detector))
    table.add_row(
        "fitted on", f"{tuned.train} conversations" if tuned.fitted else "nothing: only its threshold is set"
    )
    table.add_row(
        "threshold", f"{tuned.detector.threshold:.6g}, set with {tuned.flagged_benign.of} benign conversations"
    )
    table.add_row("of these it flags", str(tuned.flagged_benign))
    table.add_row("of the attacks beside them", str(tuned.flagged_attacks))
    table.add_row("F1 on both", f"{tuned.f1:.3f}")
    print_table(table)
    note("these conversations set the threshold, so this is not a test result: evaluate on other conversations")


def calibrate(
    detector: Annotated[
        str, typer.Option(help="Detector, such as cusum or cusum:drift=0.05, a YAML file, or one that is fitted.")
    ] = "cusum",
    run: options.Run = None,
    patterns: PatternsFile = None,
    alpha: Annotated[float, typer.Option(help="Share of benign conversations that may be flagged.")] = 0.01,
    confidence: Annotated[float, typer.Option(help="Probability with which that is kept.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the split, for a detector that is fitted.")] = 0,
    corrected_by: options.CorrectedBy = None,
    out: Annotated[Path | None, typer.Option(help="YAML file to write, for --detector of other commands.")] = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Set a threshold with a guaranteed false-positive rate, or say how many conversations that needs."""
    from turnwise.cli.files import check_file, write_text
    from turnwise.cli.options import read_run
    from turnwise.cli.output import note, print_json
    from turnwise.cli.study import require_study
    from turnwise.detectors import to_mapping
    from turnwise.study import load_examples
    from turnwise.study.fitting.calibrate import guaranteed

    require_study()
    if out is not None:
        check_file(out)
    with options.opened_store(store) as opened:
        known = opened.run(read_run(opened, run))
        people = tuple(dict.fromkeys(corrected_by or ()))
        loaded = load_examples(opened, known.name, people)
        labels = options.CountedLabels(people, loaded.corrected, loaded.disputed)
        labels.tell(opened)
    found = guaranteed(detector, loaded.examples, alpha, confidence, seed, patterns=patterns)
    if out is not None:
        write_text(out, labels.as_heading() + _guarantee_as_yaml(found, known, seed))
    if json:
        print_json(
            {
                "detector": to_mapping(found.detector),
                "run": known.name,
                "threshold": found.detector.threshold,
                "alpha": alpha,
                "confidence": confidence,
                "fitted_on": found.fitted_on,
                "benign": found.flagged_benign.of,
                "groups": found.groups,
                "flagged_benign": found.flagged_benign.count,
                "flagged_attacks": [found.flagged_attacks.count, found.flagged_attacks.of],
                "upper_bound": found.upper_bound,
                "unlabelled": loaded.unlabelled,
                "not_evaluated": loaded.not_evaluated,
                **labels._asdict(),
            }
        )
    else:
        _print_guarantee(found)
    if loaded.not_evaluated:
        note(f"{loaded.not_evaluated} labelled sequences have no evaluation in this run and were left out")
    if found.groups < found.flagged_benign.of:
        note(
            f"the {found.flagged_benign.of} benign conversations fall into {found.groups} groups: the "
            "guarantee takes conversations for independent, and holds the less the more those of a group are "
            "alike"
        )
    if out is not None:
        note(f"wrote {out}: turnwise detect --run {known.name} --detector {out}")


def _guarantee_as_yaml(found: Guaranteed, run: Run, seed: int) -> str:
    import yaml

    from turnwise.detectors import to_mapping

    heading = (
        f"# {found.detector.name}: threshold for at most {100 * found.alpha:g} % of benign conversations with "
        f"{100 * found.confidence:g} % confidence, set on {found.flagged_benign.of} of them.\n"
        f"# Run {run.name}, observer {run.observer} {run.observer_version}, context {run.context}, seed {seed}.\n"
    )
    return heading + yaml.safe_dump(to_mapping(found.detector), sort_keys=False, allow_unicode=True)


def _print_guarantee(found: Guaranteed) -> None:
    from turnwise.cli.output import Table, note, print_table
    from turnwise.detectors import format_spec

    table = Table("", "")
    table.add_row("detector", format_spec(found.detector))
    if found.fitted_on:
        table.add_row("fitted on", f"{found.fitted_on} other conversations")
    table.add_row("threshold", f"{found.detector.threshold:.6g}")
    table.add_row(
        "guarantee",
        f"at most {100 * found.alpha:g} % of benign conversations are flagged, with {100 * found.confidence:g} % "
        "confidence over the choice of the calibration conversations",
    )
    table.add_row(
        "set on", f"{found.flagged_benign.of} benign conversations, of which it flags {found.flagged_benign.count}"
    )
    table.add_row("upper bound", f"{100 * found.upper_bound:.2f} % false positives, one-sided")
    table.add_row("of the attacks beside them", str(found.flagged_attacks))
    print_table(table)
    note("it holds for conversations like these; those of another service need a threshold of their own")
