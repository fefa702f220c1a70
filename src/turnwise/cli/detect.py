"""``turnwise detect``: detectors over the trajectories of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from turnwise.cli import options
from turnwise.cli.patterns import PatternsFile

if TYPE_CHECKING:
    from turnwise.evaluation import Detection
    from turnwise.rates import Rate


def detect(
    run: options.Run = None,
    detector: options.Detectors = None,
    patterns: PatternsFile = None,
    sequence: options.Sequences = None,
    label: options.Label = None,
    store: options.Store = options.DEFAULT_STORE,
    fail_on_findings: options.FailOnFindings = False,
    json: options.Json = False,
) -> None:
    """Say of every sequence of a run which detectors fire, at which turn and why."""
    from turnwise.cli.arguments import read_label, read_run
    from turnwise.cli.output import print_json
    from turnwise.evaluation import DEFAULT_DETECTORS
    from turnwise.evaluation import detect as detect_in_run
    from turnwise.store import Store

    with Store(store) as opened:
        name = read_run(opened, run)
        specs = list(dict.fromkeys(detector or DEFAULT_DETECTORS))
        wanted = read_label(label)
        chosen = list(detect_in_run(opened, name, specs, ids=sequence or None, label=wanted, patterns=patterns))
    if json:
        print_json(list(map(as_json, chosen)))
    else:
        _print(chosen, specs)
    if fail_on_findings and any(found.verdict and found.verdict.fired for found in chosen):
        raise typer.Exit(3)


def as_json(found: Detection) -> dict[str, Any]:
    """Return a detection in the shape of ``--json``; what was not scored has null for its verdict."""
    from turnwise.cli.trajectories import NOT_CHECKED

    head = {"sequence_id": found.head.sequence_id, "label": str(found.head.label)}
    if found.verdict:
        return {**head, **found.verdict.to_dict()}
    known = ("fired", "turn", "score", "threshold", "threshold_source")
    unknown = {"detector": found.detector, **dict.fromkeys(known)}
    return {**head, **unknown, "reason": NOT_CHECKED}


def shares(found: Sequence[Detection]) -> dict[str, Rate]:
    """Return by label the share of checked sequences that fired; a label without any is absent."""
    from turnwise.rates import Rate

    rates = {}
    for label in ("attack", "benign", "unlabelled"):
        verdicts = [item.verdict for item in found if item.head.label == label and item.verdict]
        if verdicts:
            rates[label] = Rate(sum(verdict.fired for verdict in verdicts), len(verdicts))
    return rates


def _print(found: Sequence[Detection], specs: Sequence[str]) -> None:
    from turnwise.cli.output import Table, note, print_table
    from turnwise.cli.trajectories import VERDICT_COLUMNS, verdict_cells

    table = Table("sequence", "label", "detector", *VERDICT_COLUMNS, numeric=("turn", "score"))
    for item in found:
        table.add_row(item.head.sequence_id, str(item.head.label), item.detector, *verdict_cells(item.verdict))
    print_table(table)
    summary = Table("detector", "of attacks", "of benign", "of unlabelled", title="Fired, with 95 % intervals")
    for spec in specs:
        rates = shares([item for item in found if item.detector == spec])
        summary.add_row(spec, *(str(rates.get(label, "none")) for label in ("attack", "benign", "unlabelled")))
    print_table(summary)
    heads = {item.head.sequence_id: item for item in found}.values()
    unchecked = sum(item.verdict is None for item in heads)
    partial = sum(item.verdict is not None and item.missing > 0 for item in heads)
    if unchecked:
        note(f"{unchecked} sequences were not checked: every evaluation of them failed")
    if partial:
        note(f"{partial} sequences have turns without an evaluation in this run; their verdicts skip those turns")
    if not found:
        note("the run has no evaluation of these sequences; turnwise evaluate makes them")
