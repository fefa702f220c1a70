"""The tables of a report."""

from __future__ import annotations

from collections.abc import Iterator

from turnwise.study.compare import Cell, Study
from turnwise.study.compare.comparisons import DIVISIONS
from turnwise.study.report.check_tables import check_tables
from turnwise.study.report.detection_tables import (
    baselines_table,
    detectors_table,
    differences_table,
    final_table,
    tests_table,
)
from turnwise.study.report.gain_tables import AT_THESE, ONE_THRESHOLD, gain_tables
from turnwise.study.report.run_tables import run_tables
from turnwise.study.report.table import NONE, Table, interval_cell, p_cell, rate_cell, small_cell
from turnwise.study.report.truth import reader_tables
from turnwise.study.stats.thresholds import RecallAt
from turnwise.study.stats.verdicts import Confusion


def all_tables(study: Study) -> tuple[Table, ...]:
    """Return every table of a study that has a row: runs of the same context first, then the gain over time."""
    tables = (
        *run_tables(study),
        *gain_tables(study),
        *reader_tables(study),
        detectors_table(study),
        tests_table(study),
        differences_table(study),
        final_table(study),
        _further(study),
        _delays(study),
        *_cells(study),
        baselines_table(study),
        _missing(study),
        *check_tables(study),
        _splits(study),
    )
    return tuple(table for table in tables if table.rows)


def _further(study: Study) -> Table:
    rows = []
    for judgement, result in zip(study.judgements, study.results, strict=True):
        alarms = result.alarms
        at = [f"needs {_needed(one.reason)}" if one.recall is None else _at_rate(one) for one in result.recall_at]
        rows.append(
            (
                judgement.arm.name,
                rate_cell(result.ever.precision),
                _f1(result.ever),
                *at,
                NONE
                if alarms.per_thousand is None
                else f"{alarms.per_thousand:.2f} [{alarms.low or 0:.2f}, {alarms.high or 0:.2f}]",
                NONE if result.cost_usd is None else f"{result.cost_usd:.5f}",
                NONE if result.latency_ms is None else f"{result.latency_ms:.2f}",
            )
        )
    return Table(
        "further",
        f"Further figures, {AT_THESE}",
        (
            "arm",
            "precision, %",
            "F1",
            *(f"recall at {100 * one.rate:g} %" for one in study.results[0].recall_at),
            "false alarms per 1,000 benign turns",
            "US$ a conversation",
            "ms a conversation",
        ),
        tuple(rows),
        1,
        "Precision and F1, with exact intervals, hold for this mix of attacks and benign conversations only. "
        "Recall at a rate: the threshold set on the test's own benign conversations, with the interval of a "
        "bootstrap over groups that sets it anew each time; every other interval "
        f"{ONE_THRESHOLD}.",
    )


def _f1(counts: Confusion) -> str:
    around = counts.f1_interval
    return NONE if counts.f1 is None or around is None else f"{counts.f1:.2f} [{around[0]:.2f}, {around[1]:.2f}]"


def _at_rate(one: RecallAt) -> str:
    """A recall at a rate with the interval that holds for the choice of the threshold too."""
    if one.recall is None or one.interval is None:
        return NONE
    return interval_cell(one.interval, 100, 1)


def _needed(reason: str) -> str:
    number = reason.rpartition("at least ")[2].partition(" ")[0]
    return f"{number} benign" if number.isdigit() else "more"


def _delays(study: Study) -> Table:
    rows = []
    for judgement, result in zip(study.judgements, study.results, strict=True):
        flag = result.first_flag
        if flag is None:
            continue
        low, high = (NONE if turn is None else str(turn) for turn in flag.quartiles)
        lead = NONE if flag.lead is None else f"{flag.lead[1]:g} [{flag.lead[0]:g}, {flag.lead[2]:g}]"
        rows.append(
            (
                judgement.arm.name,
                NONE if flag.median is None else str(flag.median),
                f"{low} to {high}",
                NONE if flag.median_of_caught is None else f"{flag.median_of_caught:g}",
                lead,
                interval_cell(result.delay),
            )
        )
    return Table(
        "delay",
        f"Turn of the first flag, {AT_THESE}",
        ("arm", "median", "quartiles", "median of caught", "turns left, of caught", "mean turn"),
        tuple(rows),
        1,
        "Misses are censored at their last turn. Turns left: from the first flag to the end, median and "
        f"quartiles. Mean turn: up to turn {study.results[0].horizon}, with the interval of a bootstrap over "
        "groups.",
    )


def _cells(study: Study) -> Iterator[Table]:
    chosen = study.reference if study.chosen is None else study.chosen
    first, second = study.arms[study.reference].name, study.arms[chosen].name
    for division in DIVISIONS:
        cells = [cell for cell in study.cells if cell.division == division]
        rows = tuple(_cell_row(study, cell, chosen) for cell in cells)
        yield Table(
            f"by_{division}",
            f"By {division}, {AT_THESE}",
            (
                division,
                "attacks",
                f"recall of {first}, %",
                f"recall of {second}, %",
                "gain, points",
                "a alone : b alone",
                "p, Holm",
                "benign",
                f"false positives of {second}, %",
            ),
            rows,
            1,
            f"Under {study.settings.small_cell} conversations no percentage is shown. p: exact McNemar test, the "
            "larger of conversations and groups as the unit, with Holm's correction within this table. Every "
            f"number {ONE_THRESHOLD}.",
        )


def _cell_row(study: Study, cell: Cell, chosen: int) -> tuple[str, ...]:
    least = study.settings.small_cell
    gain = cell.gain
    small = gain is None or gain.pairs < least
    recall, benign = cell.recall[chosen], cell.false_positives[chosen]
    return (
        cell.value,
        str(recall.of),
        small_cell(cell.recall[study.reference], least),
        small_cell(recall, least),
        NONE if gain is None or small else f"{100 * gain.gain:+.1f}",
        NONE if gain is None else f"{gain.b_count} : {gain.c_count}",
        NONE if gain is None or small else p_cell(gain.p_holm),
        str(benign.of),
        small_cell(benign, least),
    )


def _missing(study: Study) -> Table:
    rows = []
    for judgement, result in zip(study.judgements, study.results, strict=True):
        found = result.missing
        if not found.attacks.count + found.benign.count + found.turns.count:
            continue
        rows.append(
            (
                judgement.arm.name,
                f"{found.attacks.count} of {found.attacks.of}",
                f"{found.benign.count} of {found.benign.of}",
                f"{found.turns.count} of {found.turns.of}",
                rate_cell(found.recall.none_flagged),
                rate_cell(found.recall.all_flagged),
                rate_cell(found.false_positive_rate.none_flagged),
                rate_cell(found.false_positive_rate.all_flagged),
            )
        )
    return Table(
        "missing",
        "What is missing, and what it could change",
        (
            "arm",
            "attacks missing",
            "benign missing",
            "turns missing",
            "recall, none flagged",
            "recall, all flagged",
            "false positives, none flagged",
            "false positives, all flagged",
        ),
        tuple(rows),
        1,
        "A conversation without any score is missing: it is neither caught nor clean. The bounds hold whatever "
        "the reason for which it is missing.",
    )


def _splits(study: Study) -> Table:
    known = {one.sequence_id: one for one in study.study_data.known}
    rows = []
    for number, fold in enumerate(study.folds, start=1):
        for part in ("train", "calibrate", "test"):
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
