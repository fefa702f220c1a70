"""The tables of a report, those of groups of conversations and of the parts among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from turnwise.rates import Rate
from turnwise.study.compare import CellGain, Study
from turnwise.study.compare.comparisons import DIVISIONS
from turnwise.study.compare.settings import PARTS
from turnwise.study.report.detection_tables import (
    baselines_table,
    delay_table,
    detectors_table,
    differences_table,
    final_table,
    further_table,
    missing_table,
    tests_table,
)
from turnwise.study.report.diagnostic_tables import diagnostic_tables
from turnwise.study.report.gain_tables import (
    AT_THESE,
    ONE_THRESHOLD,
    gains_table,
    matched_table,
    two_by_two_table,
)
from turnwise.study.report.outcome_tables import outcome_tables
from turnwise.study.report.reader_tables import reader_tables
from turnwise.study.report.run_tables import run_tables
from turnwise.study.report.table import Table
from turnwise.study.report.value_formats import (
    NONE,
    Column,
    alone_cell,
    as_json,
    json_row,
    make_table,
    p_cell,
    small_cell,
)


def all_tables(study: Study) -> tuple[Table, ...]:
    """Return every table of a study that has a row: what the observer sees by what decides first."""
    tables = (
        two_by_two_table(study),
        gains_table(study),
        *run_tables(study),
        matched_table(study),
        *reader_tables(study),
        *outcome_tables(study),
        detectors_table(study),
        tests_table(study),
        differences_table(study),
        final_table(study),
        further_table(study),
        delay_table(study),
        *_cells(study),
        baselines_table(study),
        missing_table(study),
        *diagnostic_tables(study),
        _why(study),
        _splits(study),
    )
    return tuple(table for table in tables if table.rows)


def _why(study: Study) -> Table:
    arm = study.arms[study.followed]
    return Table(
        "why",
        f"Why {arm.name} flagged what it flagged",
        ("conversation", "label", "turn", "principle", "score", "what its F rests on"),
        tuple(
            (one.sequence_id, "attack" if one.attack else "benign", str(one.turn), one.principle,
             f"{one.score:.3f}", " ".join(one.sentences))
            for one in study.why_flagged
        ),
        6,
        "False alarms first, then attacks, highest scores first. The observer reads the turn again without an "
        "earlier turn or some of its words; what is named is what its score rests on, which need not be what a "
        "person would name.",
    )  # fmt: skip


def _gain_as_json(gain: CellGain | None) -> dict[str, Any] | None:
    return None if gain is None else {**as_json(gain), "conditions_on_threshold": True}


def cells_as_json(study: Study) -> list[dict[str, Any]]:
    """Recall, false positives and gain by source, category, tactic and length."""
    columns = (
        *map(Column, ("division", "value", "recall", "fpr")),
        Column("gain", json=_gain_as_json),
    )
    return [json_row(columns, cell) for cell in study.cells]


def _cells(study: Study) -> Iterator[Table]:
    chosen = study.followed
    first, second = study.arms[study.reference].name, study.arms[chosen].name
    least = study.settings.small_cell

    def rate(of: str, place: int, heading: str) -> Column:
        def cell(rates: Sequence[Rate]) -> str:
            return small_cell(rates[place], least)

        return Column("", heading, cell, of)

    def gain(heading: str, cell: Callable[[CellGain], str]) -> Column:
        return Column("", heading, lambda found: NONE if found.pairs < least else cell(found), "gain")

    for division in DIVISIONS:
        yield make_table(
            f"by_{division}",
            f"By {division}, {AT_THESE}",
            (
                Column("", division, at="value"),
                Column("", "attacks", lambda rates: str(rates[chosen].of), "recall"),
                rate("recall", study.reference, f"recall of {first}, %"),
                rate("recall", chosen, f"recall of {second}, %"),
                gain("gain, points", lambda found: f"{100 * found.gain:+.1f}"),
                Column("", "a alone : b alone", alone_cell, "gain"),
                gain("p, Holm", lambda found: p_cell(found.p_holm)),
                Column("", "benign", lambda rates: str(rates[chosen].of), "fpr"),
                rate("fpr", chosen, f"false positives of {second}, %"),
            ),
            [cell for cell in study.cells if cell.division == division],
            1,
            f"Under {least} conversations no percentage is shown. p: exact McNemar test, the "
            "larger of conversations and groups as the unit, with Holm's correction within this table. Every "
            f"number {ONE_THRESHOLD}.",
        )


def _splits(study: Study) -> Table:
    known = {one.sequence_id: one for one in study.data.known}
    rows = []
    for number, fold in enumerate(study.folds, start=1):
        for part in PARTS:
            inside = [known[name] for name in getattr(fold, part)]
            attacks = sum(one.attack for one in inside)
            groups = str(len({one.group for one in inside}))
            name = part if len(study.folds) == 1 else f"fold {number}, {part}"
            rows.append((name, str(attacks), str(len(inside) - attacks), groups))
    return Table(
        "splits",
        "Conversations by part",
        ("part", "attacks", "benign", "groups"),
        tuple(rows),
        1,
        "No group stands in two parts. The ids are in results.json.",
    )
