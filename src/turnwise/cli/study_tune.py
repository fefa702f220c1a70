"""``turnwise study tune`` and ``calibrate``: a detector for one's own data, and a threshold with a guarantee."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import options
from turnwise.cli.files import CountedLabels, opened_store, read_people, read_run
from turnwise.cli.output import note, print_json, print_table
from turnwise.cli.study import load_labelled, require_study

if TYPE_CHECKING:
    from turnwise.detectors import Detector
    from turnwise.store import Run, Store
    from turnwise.study import Loaded, Tuned
    from turnwise.study.compare import Tuning
    from turnwise.study.fitting import Guaranteed


def tune(
    detector: Annotated[
        str, typer.Option(help="A detector that is fitted (learned, sprt, shiryaev_roberts, hmm), or any other.")
    ] = "learned",
    run: options.Run = None,
    patterns: options.PatternsFile = None,
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
    out: options.DetectorFile = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Fit a detector, or search its parameters, on a run's labelled conversations, and set its threshold."""
    from turnwise.cli.files import check_file, write_text

    if out is not None:
        check_file(out)
    with opened_store(store) as opened:
        known = opened.run(read_run(opened, run))
        people = read_people(corrected_by)
        if budget is None:
            written = _fit(opened, known, people, detector, patterns, objective, target_fpr, seed, json)
        else:
            written = _search(opened, known, people, detector, objective, target_fpr, budget, seed, json)
    if out is not None:
        write_text(out, written)
        note(f"wrote {out}: turnwise detect --store {store} --run {known.name} --detector {out}")


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
    from turnwise.detectors import to_mapping
    from turnwise.study.compare import load_study_data, tune_inside_training
    from turnwise.study.fitting import check_objective, check_search

    require_study("optuna")
    check_objective(objective)
    check_search(detector, budget)
    study_data = load_study_data(store, [run.name], people)
    labels = CountedLabels(people, study_data.corrected, study_data.disputed)
    labels.tell(store)
    note(f"{budget} trials on the training part of {len(study_data.known)} conversations")
    found = tune_inside_training(study_data, detector, target_fpr, budget, seed, objective)  # type: ignore[arg-type]
    if json:
        print_json({"detector": to_mapping(found.searched.detector), **found.origin(), **labels._asdict()})
    else:
        _print_search(found)
    return labels.as_heading() + found.to_yaml()


def _print_search(found: Tuning) -> None:
    from turnwise.detectors import format_spec

    searched = found.searched
    f1 = [("F1 there, tuned", f"{searched.after.f1:.3f}"), ("F1 there, as given", f"{searched.before.f1:.3f}")]
    rows = [
        ("detector", format_spec(searched.detector)),
        ("searched on", f"the training part: {found.attacks} attacks, {found.benign} benign conversations"),
        ("trials", f"{searched.trials}, of which number {searched.best} was best"),
        *(f1 if found.objective == "f1" else ()),
        ("recall there, tuned", searched.after.recall),
        ("recall there, as given", searched.before.recall),
        ("false positives there, tuned", searched.after.false_positives),
    ]
    print_table(("", ""), rows)
    note(
        "cross-fitted by group inside the training part, and the best of many: not a "
        "test result. turnwise study compare "
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
    from turnwise.detectors import to_mapping
    from turnwise.study import tune as tune_detector

    loaded, labels = load_labelled(store, run, people)
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
    what = f"fitted on {tuned.train} conversations, its" if tuned.fitted else "the"
    benign, attacks = tuned.flagged_benign.of, tuned.flagged_attacks.of
    aim = (
        f"{attacks} attacks and {benign} benign ones for the highest F1"
        if target_fpr is None
        else f"{benign} benign ones for at most {100 * target_fpr:g} % of them"
    )
    return _detector_file(tuned.detector, f"{what} threshold set on {aim}", run, seed)


def _detector_file(detector: Detector, what: str, run: Run, seed: int) -> str:
    """A detector as YAML under a heading that says how it was made."""
    import yaml

    from turnwise.detectors import to_mapping

    heading = (
        f"# {detector.name}: {what}.\n"
        f"# Run {run.name}, observer {run.observer} {run.observer_version}, context {run.context}, seed {seed}.\n"
    )
    return heading + yaml.safe_dump(to_mapping(detector), sort_keys=False, allow_unicode=True)


def _print_fit(tuned: Tuned, loaded: Loaded) -> None:
    from turnwise.detectors import format_spec

    if loaded.unlabelled:
        note(f"{loaded.unlabelled} unlabelled sequences were left out")
    if loaded.not_evaluated:
        note(f"{loaded.not_evaluated} labelled sequences have no evaluation in this run and were left out")
    threshold = f"{tuned.detector.threshold:.6g}, set with {tuned.flagged_benign.of} benign conversations"
    fitted_on = f"{tuned.train} conversations" if tuned.fitted else "nothing: only its threshold is set"
    rows = [
        ("detector", format_spec(tuned.detector)),
        ("fitted on", fitted_on),
        ("threshold", threshold),
        ("of these it flags", tuned.flagged_benign),
        ("of the attacks beside them", tuned.flagged_attacks),
        ("F1 on both", f"{tuned.f1:.3f}"),
    ]
    print_table(("", ""), rows)
    note("these conversations set the threshold, so this is not a test result: evaluate on other conversations")


def calibrate(
    detector: Annotated[
        str, typer.Option(help="Detector, such as cusum or cusum:drift=0.05, a YAML file, or one that is fitted.")
    ] = "cusum",
    run: options.Run = None,
    patterns: options.PatternsFile = None,
    alpha: Annotated[float, typer.Option(help="Share of benign conversations that may be flagged.")] = 0.01,
    confidence: Annotated[float, typer.Option(help="Probability with which that is kept.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the split, for a detector that is fitted.")] = 0,
    corrected_by: options.CorrectedBy = None,
    out: options.DetectorFile = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Set a threshold with a guaranteed false-positive rate, or say how many conversations that needs."""
    from turnwise.cli.files import check_file, write_text
    from turnwise.detectors import to_mapping
    from turnwise.study.fitting import guaranteed

    require_study()
    if out is not None:
        check_file(out)
    with opened_store(store) as opened:
        known = opened.run(read_run(opened, run))
        loaded, labels = load_labelled(opened, known, read_people(corrected_by))
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
        note(f"wrote {out}: turnwise detect --store {store} --run {known.name} --detector {out}")


def _guarantee_as_yaml(found: Guaranteed, run: Run, seed: int) -> str:
    what = (
        f"threshold for at most {100 * found.alpha:g} % of benign conversations with "
        f"{100 * found.confidence:g} % confidence, set on {found.flagged_benign.of} of them"
    )
    return _detector_file(found.detector, what, run, seed)


def _print_guarantee(found: Guaranteed) -> None:
    from turnwise.detectors import format_spec

    benign = found.flagged_benign
    guarantee = (
        f"at most {100 * found.alpha:g} % of benign conversations are flagged, with {100 * found.confidence:g} % "
        "confidence over the choice of the calibration conversations"
    )
    rows = [
        ("detector", format_spec(found.detector)),
        *([("fitted on", f"{found.fitted_on} other conversations")] if found.fitted_on else ()),
        ("threshold", f"{found.detector.threshold:.6g}"),
        ("guarantee", guarantee),
        ("set on", f"{benign.of} benign conversations, of which it flags {benign.count}"),
        ("upper bound", f"{100 * found.upper_bound:.2f} % false positives, one-sided"),
        ("of the attacks beside them", found.flagged_attacks),
    ]
    print_table(("", ""), rows)
    note("it holds for conversations like these; those of another service need a threshold of their own")
