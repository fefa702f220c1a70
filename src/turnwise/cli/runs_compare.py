"""``turnwise runs compare`` and ``runs trends``: what two runs judge differently, and what a run flags by week."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.cli import options
from turnwise.cli.output import note, print_json, print_table, say
from turnwise.cli.stores import CountedLabels, opened_store, read_people, read_run
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.runs.flips import ArmVerdicts, Flip
    from turnwise.study import FacetRate, TrendWeek

FLIP_COLUMNS = {
    **dict.fromkeys(("sequence_id", "source", "label", "model", "category", "language", "flagged_by"), "VARCHAR"),
    "turn": "BIGINT",
    **dict.fromkeys(("score_a", "score_b", "F_a", "F_b", "F_difference"), "DOUBLE"),
}
"""Columns of the export of ``compare``, with their types in DuckDB's words."""

TREND_COLUMNS = {
    **dict.fromkeys(("value", "week"), "VARCHAR"),
    **dict.fromkeys(("conversations", "flagged"), "BIGINT"),
    **dict.fromkeys(("low", "high", "median_F"), "DOUBLE"),
    "reference": "BOOLEAN",
    **dict.fromkeys(("p_share", "p_F"), "DOUBLE"),
    "drift": "VARCHAR",
}
"""Columns of the export of ``trends``."""

Facet = Annotated[
    str, typer.Option("--by", help="Break rates down by source, label, model, category or language.")
]
Export = Annotated[
    str | None, typer.Option(help="Write the rows with all columns to this file: .csv, .parquet or .json.")
]


def compare_runs(
    a: Annotated[str, typer.Argument(help="Name of the first run.", show_default=False)],
    b: Annotated[str, typer.Argument(help="Name of the second run; may be the first.", show_default=False)],
    detector: Annotated[
        list[str] | None,
        typer.Option(
            "--detector", help="Detector for both runs; given twice, for the first and the second. [any_turn]"
        ),
    ] = None,
    patterns: options.PatternsFile = None,
    by: Facet = "source",
    corrected_by: options.CorrectedBy = None,
    limit: Annotated[
        int, typer.Option(min=0, max=options.MOST, help="Flips to list; --json and --export have all.")
    ] = 20,
    export: Export = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """List what one run flags and the other does not, with the rates of both by source, model or label."""
    from turnwise.cli.files import ROW_FILES, check_export, write_rows
    from turnwise.runs.flips import arm_verdicts, compare_arms
    from turnwise.study import facet_rates

    specs: list[str | None] = [*detector] if detector else [None]
    if len(specs) > 2:
        raise UsageError(f"two runs have at most two detectors, not {len(specs)}")
    if a == b and len(set(specs)) < 2:
        raise UsageError(f"{a} against itself: name two detectors, such as --detector any_turn --detector cusum")
    if export is not None:
        check_export(export, ROW_FILES)
    with opened_store(store) as opened:
        first, second = arm_verdicts(opened, a, specs[0], patterns), arm_verdicts(opened, b, specs[-1], patterns)
        compared = compare_arms(opened, first, second, people := read_people(corrected_by))
        if not people:
            CountedLabels((), 0, 0).tell(opened)
        rates = facet_rates(compared, by)
        places = compared.flipped()
        wanted = places if json or export is not None else places[:limit]
        flips = compared.flips(opened, wanted)
    if export is not None:
        note(f"{write_rows(export, FLIP_COLUMNS, (one.to_dict() for one in flips))} flips written to {export}")
    if json:
        print_json({
            "a": _arm(compared.a), "b": _arm(compared.b), "judged_by_both": len(compared),
            "judged_by_a_alone": compared.only_a, "judged_by_b_alone": compared.only_b,
            "by": by, "rates": [one.to_dict() for one in rates], "flips": [one.to_dict() for one in flips],
        })  # fmt: skip
        return
    say(f"A: {compared.a.name}", f"B: {compared.b.name}")
    say(f"{len(places)} of {len(compared)} conversations that both judged are flagged by one alone")
    for rows, title in (
        (flips[:limit], "Flips, the clearest first"),
        (rates, f"By {by}, with exact 95 % intervals and McNemar's test"),
    ):
        if rows:
            _print_rows(rows, title)
    for name, count in (("A", compared.only_a), ("B", compared.only_b)):
        if count:
            note(f"{count} conversations were judged by {name} alone; they are no flips")


def run_trends(
    run: options.Run = None,
    detector: Annotated[str | None, typer.Option(help="Detector that flags. [any_turn]")] = None,
    patterns: options.PatternsFile = None,
    by: Facet = "source",
    reference: Annotated[
        int, typer.Option(min=1, max=520, help="How many first weeks later weeks are tested against.")
    ] = 4,
    time: Annotated[str, typer.Option(help="Time of a conversation: said (its first turn) or imported.")] = "said",
    corrected_by: options.CorrectedBy = None,
    export: Export = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Print what a run flags week by week, and which weeks have drifted from the first ones."""
    from turnwise.cli.files import ROW_FILES, check_export, write_rows
    from turnwise.runs.flips import arm_verdicts
    from turnwise.study import trends

    if export is not None:
        check_export(export, ROW_FILES)
    with opened_store(store) as opened:
        arm = arm_verdicts(opened, read_run(opened, run), detector, patterns)
        people = read_people(corrected_by)
        found = trends(opened, arm, by, reference=reference, time=time, corrected_by=people)
    rows = [week.to_dict() for week in found.weeks]
    if export is not None:
        note(f"{write_rows(export, TREND_COLUMNS, rows)} weeks written to {export}")
    if json:
        summary = dataclasses.asdict(found) | {
            "weeks": rows, "reference": [week.isoformat() for week in found.reference]
        }  # fmt: skip
        print_json({"arm": _arm(arm), "by": by, "time": time, **summary})
        return
    say(arm.name)
    if rows:
        _print_rows(found.weeks, "Flagged by week, with exact 95 % intervals")
    else:
        note("no conversation has a known time; --time imported takes when they came into the store")
    if str(found):
        note(str(found))


def _print_rows(rows: Sequence[Flip | FacetRate | TrendWeek], title: str) -> None:
    cells = [one.cells() for one in rows]
    numeric = [name for name in cells[0] if name.startswith(("turn", "score", "F ", "A ", "B ", "p ", "median"))]
    print_table(list(cells[0]), [list(row.values()) for row in cells], numeric=numeric, title=title)


def _arm(arm: ArmVerdicts) -> dict[str, Any]:
    limit = arm.detector.threshold
    return {
        "run": arm.run.name,
        "observer": arm.run.observer,
        "started": arm.run.created_at.isoformat(),
        "detector": arm.spec,
        "threshold": limit if math.isfinite(limit) else None,
        "threshold_source": str(arm.threshold_source),
        "flagged": int(arm.flagged().sum()),
        "judged": len(arm.sequences),
    }
