"""``turnwise demo``: the whole path on the examples that ship, without key or network."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.cli import options

if TYPE_CHECKING:
    from turnwise.evaluate import Detection
    from turnwise.observers import Observer
    from turnwise.store import Store

SINGLE = ("demo-turn", "turn", "any_turn")
"""Run, context and detector of the arm that looks at single turns."""

TRAJECTORY = ("demo-history", "history", "cusum")
"""Run, context and detector of the arm that looks at the trajectory."""


def demo(
    store: Annotated[str, typer.Option(help="File that keeps the conversations and scores.")] = "turnwise-demo.db",
    json: options.Json = False,
) -> None:
    """Evaluate the conversations that ship, compare single turns with trajectories, and write a report."""
    from turnwise.cli.output import note, print_json
    from turnwise.cli.study import EXTRA, FOR_A_REPORT, is_installed
    from turnwise.datasets import examples
    from turnwise.errors import UsageError
    from turnwise.observers import build_observer
    from turnwise.store import Store

    began = time.perf_counter()
    sequences = list(examples())
    ids = [sequence.sequence_id for sequence in sequences]
    observer = build_observer("local")
    with Store(store, create=True) as opened:
        try:
            opened.add_sequences(sequences)
            single, temporal = (_arm(opened, observer, ids, *arm) for arm in (SINGLE, TRAJECTORY))
        except UsageError as error:
            raise UsageError(
                f"{store} holds a demo of another version ({error}); remove the file, or name another with --store"
            ) from error
        graphs = _graphs(opened, ids)
        seconds = time.perf_counter() - began
        if not json:
            _print(store, single, temporal, graphs, seconds)
        able = is_installed(*FOR_A_REPORT)
        report = _write_report(opened) if able else None
    if json:
        print_json(_as_json(store, single, temporal, graphs, seconds, report))
    told = (
        f"\nA study of these examples, with tables and figures: {report}"
        if report
        else f"\nThe demo ends with the report of a study once this is installed:\n  {EXTRA}"
    )
    if json:
        note(told.strip())
    else:
        typer.echo(told)


def _write_report(store: Store) -> Path:
    """Write the report of a study on the examples into a folder beside the store, and return its page."""
    from turnwise.cli.output import note
    from turnwise.cli.study import rescorer
    from turnwise.study.compare import Settings, compare
    from turnwise.study.report import write_report

    runs, detector = (SINGLE[0], TRAJECTORY[0]), TRAJECTORY[2]
    note("writing the report of a study on these examples")
    study = compare(store, Settings(runs=runs, detectors=(detector,), thresholds="given"), rescore=rescorer())
    place = Path(store.path)
    return write_report(study, place.with_name(f"{place.stem}-report"))[0]


def _arm(
    store: Store, observer: Observer, ids: Sequence[str], run: str, context: str, detector: str
) -> list[Detection]:
    from turnwise.evaluate import detect, evaluate
    from turnwise.principles import builtin_principles

    evaluate(store, run, observer, principles=builtin_principles(), context=context, ids=ids)
    return list(detect(store, run, [detector], ids=ids))


def _graphs(store: Store, ids: Sequence[str]) -> dict[str, list[float | None]]:
    from turnwise.cli.trajectories import peak_f

    run, _, _ = TRAJECTORY
    return {head.sequence_id: list(map(peak_f, turns)) for head, turns in store.trajectories(run, ids=ids)}


def _as_json(
    store: str,
    single: Sequence[Detection],
    temporal: Sequence[Detection],
    graphs: dict[str, list[float | None]],
    seconds: float,
    report: Path | None,
) -> dict[str, Any]:
    from turnwise.cli.detect import shares
    from turnwise.cli.trajectories import verdict_as_json

    return {
        "store": store,
        "report": None if report is None else str(report),
        "conversations": [
            {
                "sequence_id": one.head.sequence_id,
                "label": str(one.head.label),
                "F": graphs[one.head.sequence_id],
                "single_turns": verdict_as_json(one.verdict) if one.verdict else None,
                "trajectory": verdict_as_json(other.verdict) if other.verdict else None,
            }
            for one, other in zip(single, temporal, strict=True)
        ],
        "summary": {
            name: {
                label: {"fired": rate.count, "of": rate.of, "interval": list(rate.interval)}
                for label, rate in shares(arm).items()
            }
            for name, arm in (("single_turns", single), ("trajectory", temporal))
        },
        "seconds": seconds,
    }


def _print(
    store: str,
    single: Sequence[Detection],
    temporal: Sequence[Detection],
    graphs: dict[str, list[float | None]],
    seconds: float,
) -> None:
    from turnwise.cli.detect import shares
    from turnwise.cli.output import new_table, print_table, sparkline

    table = new_table("conversation", "label", "F over turns", "single turns", "trajectory")
    for one, other in zip(single, temporal, strict=True):
        graph = sparkline(graphs[one.head.sequence_id])
        table.add_row(one.head.sequence_id, str(one.head.label), graph, _says(one), _says(other))
    print_table(table)
    summary = new_table("looking at", "attacks caught", "benign flagged", title="With 95 % intervals")
    for name, (_, context, detector), arm in (
        ("single turns", SINGLE, single),
        ("the trajectory", TRAJECTORY, temporal),
    ):
        rates = shares(arm)
        summary.add_row(f"{name} ({detector}, context {context})", str(rates["attack"]), str(rates["benign"]))
    print_table(summary)
    typer.echo(
        "The graph is the highest F over the principles, turn by turn; then the turn at which each way of\n"
        "looking fires, and whether that is right (✓) or wrong (✗) by the label.\n\n"
        f"{len(single)} conversations in {seconds:.1f} s, observer local. Both thresholds were set for at\n"
        "most 1 % of benign conversations of services left out of its training. These examples are few, our own,\n"
        "most of them pairs that differ in intent alone, which the observer hardly tells apart: they show how\n"
        "turnwise works, not how well. docs/model-card.md has figures on other people's data.\n"
        f"\nEverything is in {store}. Next:\n"
        f"  turnwise show {temporal[0].head.sequence_id} --store {store} --run {TRAJECTORY[0]}\n"
        f"  turnwise detect --store {store} --run {TRAJECTORY[0]} --detector trust_ema --detector slope\n"
        "  turnwise import YOUR_FILE.jsonl --store work.db && turnwise evaluate --store work.db"
    )


def _says(found: Detection) -> str:
    """Return the turn that fired, if any, and whether that is right."""
    if found.verdict is None:
        return "not checked"
    right = found.verdict.fired == (found.head.label == "attack")
    return f"{f'turn {found.verdict.turn}' if found.verdict.fired else 'quiet'} {'✓' if right else '✗'}"
