"""A study as data: its tables, what ``--json`` prints, ``results.json``, and ``verdicts.parquet``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from turnwise._support.revision import versions
from turnwise._support.table_files import write_parquet
from turnwise.rates import Rate
from turnwise.stats import judge_all, p_cell
from turnwise.study.compare import CellGain, Fold, Study
from turnwise.study.compare.comparisons import DIVISIONS
from turnwise.study.compare.plan import PARTS
from turnwise.study.report.detection_tables import (
    ANY_TURN_TESTS,
    CALIBRATED,
    FINAL_TESTS,
    FURTHER,
    SHORT,
    TESTS,
    baselines_table,
    delay_table,
    detectors_table,
    differences_table,
    final_table,
    further_table,
    missing_table,
    tests_table,
)
from turnwise.study.report.diagnostic_tables import checks_as_json, diagnostic_tables
from turnwise.study.report.gain_tables import (
    AT_THESE,
    ONE_THRESHOLD,
    gains_table,
    matched_table,
    two_by_two_as_json,
    two_by_two_table,
)
from turnwise.study.report.run_tables import RUNS, RUNS_FURTHER, run_tables
from turnwise.study.report.table import NONE, Column, Table, alone_cell, as_json, json_row, make_table, small_cell
from turnwise.study.report.turn_tables import outcome_tables, outcomes_as_json, reader_tables, truth_as_json


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


CELLS = (*map(Column, ("division", "value", "recall", "fpr")), Column("gain", json=_gain_as_json))
"""Recall, false positives and gain by source, category, tactic and length."""


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


LIBRARIES = ("numpy", "scipy", "altair", "vl-convert-python")
"""Packages whose versions a result depends on."""

SHORT_TEST = ("a", "b", "a_alone", "b_alone", "p", "p_holm", "conditions_on_threshold")
"""What the short form has of a test."""


def summary(study: Study) -> dict[str, Any]:
    """Return the short form: the two gains, two runs, a row a detector, a row a test, the warnings."""
    tests = [json_row(TESTS, test) for test in study.tests]
    return {
        "two_by_two": two_by_two_as_json(study),
        "between_runs": [json_row(RUNS, one) for one in study.between_runs],
        "detectors": [json_row(SHORT, result) for result in study.results],
        "tests": [{name: test[name] for name in SHORT_TEST} for test in tests],
        "warnings": list(study.warnings),
    }


def record(study: Study) -> dict[str, Any]:
    """Return everything: settings, data and their hashes, seeds, versions, folds, numbers, diagnostics."""
    return {
        "settings": {name: value for name, value in asdict(study.settings).items() if value is not None},
        "versions": versions(LIBRARIES),
        "data": data_as_json(study),
        "folds": [{part: sorted(getattr(fold, part)) for part in PARTS} for fold in study.folds],
        "reference": study.arms[study.reference].name,
        "chosen": None if study.chosen is None else study.arms[study.chosen].name,
        "in_training": {study.arms[place].name: as_json(rate) for place, rate in study.in_training.items()},
        "two_by_two": two_by_two_as_json(study),
        "between_runs": [json_row((*RUNS, *RUNS_FURTHER), one) for one in study.between_runs],
        "matched_rates": [{"arm": name, **as_json(found)} for name, found in study.matched_rates.items()],
        "detectors": [
            json_row(SHORT, result) | json_row(CALIBRATED, judgement) | json_row(FURTHER, result)
            for judgement, result in zip(study.judgements, study.results, strict=True)
        ],
        "tests": [json_row(ANY_TURN_TESTS, test) for test in study.tests],
        "final_tests": [json_row(FINAL_TESTS, test) for test in study.final_tests],
        "if_missing": as_json(study.if_missing),
        "cells": [json_row(CELLS, cell) for cell in study.cells],
        "truth": truth_as_json(study),
        "outcomes": outcomes_as_json(study),
        "checks": checks_as_json(study.checks),
        "why_flagged": [asdict(one) for one in study.why_flagged],
        "warnings": list(study.warnings),
    }


def data_as_json(study: Study) -> dict[str, Any]:
    """What was read, with its hashes."""
    data = study.data
    names = ("untried", "unlabelled", "corrected", "disputed")
    return {
        "conversations": len(data.known),
        "attacks": sum(one.attack for one in data.known),
        "groups": len({one.group for one in data.known}),
        **{name: getattr(data, name) for name in names},
        "trained_benign": {name: len(ids) for name, ids in data.trained_benign.items()},
        "sha256": data.sha256,
        "runs": [
            {
                **{name: getattr(one.run, name) for name in ("name", "observer", "observer_version", "context")},
                "failed": len(one.failed),
                "unread": len(one.unread),
                "scores_sha256": one.scores_sha256,
            }
            for one in data.runs
        ],
    }


VERDICT_COLUMNS = {
    "arm": "VARCHAR",
    "sequence": "VARCHAR",
    "source": "VARCHAR",
    "label": "VARCHAR",
    "part": "VARCHAR",
    "fold": "INTEGER",
    "score": "DOUBLE",
    "threshold": "DOUBLE",
    "fired": "BOOLEAN",
    "turn": "INTEGER",
    "reader_turn": "INTEGER",
}
"""Columns with their types in DuckDB's words."""


def verdict_rows(study: Study) -> Iterator[dict[str, Any]]:
    """Yield a row for each arm and conversation, by arm, then by id.

    With one split ``part`` is train, calibrate or test; what an arm says of the parts that fitted it and set its
    threshold flatters it. With folds every conversation is there once, as its fold tested it. A benign one of a
    data set that an observer was trained on is there only where it trained.

    ``fold`` counts from 1, in the order of the folds in ``results.json``: what was fitted on its train part and
    calibrated on its calibrate part gave the score and the threshold.

    ``fired`` is None where the run has no score of the conversation, ``threshold`` where the arm never fires, and
    ``reader_turn`` where the reader flags no turn or did not judge it.
    """
    known = {one.sequence_id: one for one in study.data.known}
    runs = {one.run.name: one for one in study.data.runs}
    parts = PARTS if len(study.folds) == 1 else ("test",)
    for judgement in study.judgements:
        examples = runs[judgement.arm.run].examples
        rows: dict[str, dict[str, Any]] = {}
        for number, (fold, calibrated) in enumerate(zip(study.folds, judgement.folds, strict=True), start=1):
            part_of = _parts(fold, parts)
            chosen = [example for example in examples if example.sequence_id in part_of]
            for one in judge_all(calibrated.detector, chosen):
                rows[one.sequence_id] = {
                    "arm": judgement.arm.name,
                    "sequence": one.sequence_id,
                    "source": known[one.sequence_id].strata["source"],
                    "label": "attack" if one.attack else "benign",
                    "part": part_of[one.sequence_id],
                    "fold": number,
                    "score": None if one.score == -math.inf else one.score,
                    "threshold": calibrated.threshold if math.isfinite(calibrated.threshold) else None,
                    "fired": one.fired if one.evaluated else None,
                    "turn": one.turn,
                    "reader_turn": None if study.truth is None else study.truth.reader.first(one.sequence_id),
                }
        yield from (rows[name] for name in sorted(rows))


def _parts(fold: Fold, names: tuple[str, ...]) -> dict[str, str]:
    return {sequence_id: name for name in names for sequence_id in getattr(fold, name)}


def verdicts_as_parquet(study: Study) -> bytes:
    """All rows as a Parquet file; the same study gives the same bytes."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "verdicts.parquet")
        write_parquet(path, VERDICT_COLUMNS, verdict_rows(study))
        return path.read_bytes()
