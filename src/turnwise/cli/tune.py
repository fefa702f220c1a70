"""``turnwise tune``: a detector for one's own data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import options

if TYPE_CHECKING:
    from turnwise.store import Run
    from turnwise.study import Loaded, Tuned


def tune(
    detector: Annotated[
        str, typer.Option(help="A detector that is fitted (learned, sprt, shiryaev_roberts, hmm), or any other.")
    ] = "learned",
    run: options.Run = None,
    target_fpr: Annotated[float, typer.Option(help="Share of benign conversations that may be flagged.")] = 0.01,
    seed: Annotated[int, typer.Option(help="Seed of the split.")] = 0,
    out: Annotated[Path | None, typer.Option(help="YAML file to write, for --detector of other commands.")] = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Fit a detector on a run's labelled conversations and set its threshold on benign ones kept apart."""
    from turnwise.cli.arguments import read_run
    from turnwise.cli.output import note, print_json
    from turnwise.detectors import to_mapping
    from turnwise.errors import UsageError
    from turnwise.store import Store
    from turnwise.study import load_examples
    from turnwise.study import tune as tune_detector

    if out is not None and not out.parent.is_dir():
        raise UsageError(f"can't write {out}: there is no folder {out.parent}")
    with Store(store) as opened:
        known = opened.run(read_run(opened, run))
        loaded = load_examples(opened, known.name)
    tuned = tune_detector(detector, loaded.examples, target_fpr, seed)
    if out is not None:
        out.write_text(_as_yaml(tuned, known, target_fpr, seed), encoding="utf-8")
    if json:
        print_json(
            {
                "detector": to_mapping(tuned.detector),
                "run": known.name,
                "target_fpr": target_fpr,
                "seed": seed,
                "fitted": tuned.fitted,
                "train": tuned.train,
                "calibrate": tuned.calibrate,
                "flagged_benign": [tuned.flagged_benign.count, tuned.flagged_benign.of],
                "flagged_attacks": [tuned.flagged_attacks.count, tuned.flagged_attacks.of],
                "unlabelled": loaded.unlabelled,
                "not_evaluated": loaded.not_evaluated,
            }
        )
        return
    _print(tuned, loaded)
    if out is not None:
        note(f"wrote {out}: turnwise detect --run {known.name} --detector {out}")


def _as_yaml(tuned: Tuned, run: Run, target_fpr: float, seed: int) -> str:
    import yaml

    from turnwise.detectors import to_mapping

    what = f"fitted on {tuned.train} conversations, its" if tuned.fitted else "the"
    heading = (
        f"# {tuned.detector.name}: {what} threshold set on {tuned.flagged_benign.of} benign ones for at most "
        f"{100 * target_fpr:g} % of them.\n"
        f"# Run {run.name}, observer {run.observer} {run.observer_version}, context {run.context}, seed {seed}.\n"
    )
    return heading + yaml.safe_dump(to_mapping(tuned.detector), sort_keys=False, allow_unicode=True)


def _print(tuned: Tuned, loaded: Loaded) -> None:
    from turnwise.cli.output import new_table, note, print_table
    from turnwise.detectors import format_spec

    if loaded.unlabelled:
        note(f"{loaded.unlabelled} unlabelled sequences were left out")
    if loaded.not_evaluated:
        note(f"{loaded.not_evaluated} labelled sequences have no evaluation in this run and were left out")
    table = new_table("", "")
    table.add_row("detector", format_spec(tuned.detector))
    table.add_row(
        "fitted on", f"{tuned.train} conversations" if tuned.fitted else "nothing: only its threshold is set"
    )
    table.add_row(
        "threshold", f"{tuned.detector.threshold:.6g}, set on {tuned.flagged_benign.of} benign conversations"
    )
    table.add_row("of these it flags", str(tuned.flagged_benign))
    table.add_row("of the attacks beside them", str(tuned.flagged_attacks))
    print_table(table)
    note("these conversations set the threshold, so this is no test result: report on others")
