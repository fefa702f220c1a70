"""``turnwise calibrate``: a threshold with a guarantee, or why there is none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import options
from turnwise.cli.patterns import PatternsFile

if TYPE_CHECKING:
    from turnwise.store import Run
    from turnwise.study.fitting.calibrate import Guaranteed


def calibrate(
    detector: Annotated[
        str, typer.Option(help="Detector, such as cusum or cusum:drift=0.05, a YAML file, or one that is fitted.")
    ] = "cusum",
    run: options.Run = None,
    patterns: PatternsFile = None,
    alpha: Annotated[float, typer.Option(help="Share of benign conversations that may be flagged.")] = 0.01,
    confidence: Annotated[float, typer.Option(help="Probability with which that is kept.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the split, for a detector that is fitted.")] = 0,
    out: Annotated[Path | None, typer.Option(help="YAML file to write, for --detector of other commands.")] = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Set a threshold whose false-positive rate is kept with confidence, or say how many chats that needs."""
    from turnwise.cli.arguments import read_run
    from turnwise.cli.files import write_text
    from turnwise.cli.output import note, print_json
    from turnwise.cli.study import check_file, require_study
    from turnwise.detectors import to_mapping
    from turnwise.store import Store
    from turnwise.study import load_examples
    from turnwise.study.fitting.calibrate import guaranteed

    require_study()
    check_file(out)
    with Store(store) as opened:
        known = opened.run(read_run(opened, run))
        loaded = load_examples(opened, known.name)
    found = guaranteed(detector, loaded.examples, alpha, confidence, seed, patterns=patterns)
    if out is not None:
        write_text(out, _as_yaml(found, known, seed))
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
            }
        )
    else:
        _print(found)
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


def _as_yaml(found: Guaranteed, run: Run, seed: int) -> str:
    import yaml

    from turnwise.detectors import to_mapping

    heading = (
        f"# {found.detector.name}: threshold for at most {100 * found.alpha:g} % of benign conversations with "
        f"{100 * found.confidence:g} % confidence, set on {found.flagged_benign.of} of them.\n"
        f"# Run {run.name}, observer {run.observer} {run.observer_version}, context {run.context}, seed {seed}.\n"
    )
    return heading + yaml.safe_dump(to_mapping(found.detector), sort_keys=False, allow_unicode=True)


def _print(found: Guaranteed) -> None:
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
