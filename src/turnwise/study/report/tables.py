"""The tables of a report."""

from __future__ import annotations

from collections.abc import Iterator

from turnwise.study.compare import Cell, Study
from turnwise.study.compare.cells import DIVISIONS
from turnwise.study.report.check_tables import check_tables
from turnwise.study.report.numbers import NONE, interval_cell, p_cell, rate_cell, small_cell
from turnwise.study.report.table import Table


def all_tables(study: Study) -> tuple[Table, ...]:
    """Return every table of a study that has a row, the main one first."""
    tables = (
        _detectors(study),
        _tests(study),
        _differences(study),
        _further(study),
        _delays(study),
        *_cells(study),
        _missing(study),
        *check_tables(study),
        _splits(study),
    )
    return tuple(table for table in tables if table.rows)


def _detectors(study: Study) -> Table:
    columns = "arm", "context", "threshold", "recall, %", "false positives, %", "AUC", "median turn"
    rows = []
    for judgement, result in zip(study.judgements, study.results, strict=True):
        auc, flag = result.auc, result.first_flag
        rows.append(
            (
                judgement.arm.name + (" *" if judgement.arm.baseline else ""),
                judgement.arm.context,
                f"{judgement.threshold:.4g}",
                rate_cell(result.ever.recall),
                rate_cell(result.ever.false_positive_rate),
                NONE if auc is None else f"{auc.value:.3f} [{auc.low:.3f}, {auc.high:.3f}]",
                NONE if flag is None or flag.median is None else str(flag.median),
            )
        )
    target = 100 * study.settings.target_fpr
    given = study.settings.thresholds == "given"
    set_for = "as given" if given else f"set for {target:g} % false positives on conversations kept apart"
    return Table(
        "detectors",
        "Detectors on the test conversations",
        columns,
        tuple(rows),
        2,
        f"Thresholds {set_for}. * baseline. Recall and false positives by conversation, fired at any turn, "
        "with exact "
        "(Clopper-Pearson) intervals; AUC with DeLong's. Median turn of the first flag, misses censored; – where "
        "fewer than half of the attacks are ever flagged.",
    )


def _tests(study: Study) -> Table:
    rows = []
    for test in study.tests:
        detail = test.detail
        rows.append(
            (
                test.a,
                test.b,
                str(test.b_count),
                str(test.c_count),
                f"{100 * (test.c_count - test.b_count) / test.pairs:+.1f}"
                if detail is None
                else interval_cell(detail.recall, 100, 1, sign=True),
                p_cell(test.p),
                p_cell(test.p_group),
                p_cell(test.p_holm),
                "beats it" if test.won else "is beaten" if test.lost else "not shown",
            )
        )
    return Table(
        "tests",
        "Paired tests on the attacks",
        ("a", "b", "a alone", "b alone", "gain of b, points", "p", "p, groups", "p, Holm", "b against a"),
        tuple(rows),
        2,
        "Exact McNemar tests on paired verdicts; p, groups: the same with whole groups as the unit; Holm's "
        "correction "
        "of the larger of the two, over all tests against the reference and over all tests against other "
        "baselines. "
        "Intervals of the gain are those of a bootstrap over groups. Where equal scores kept an arm under the "
        "asked "
        "rate, the other was tightened to the same rate for the test.",
    )


def _differences(study: Study) -> Table:
    rows = []
    for test in study.tests:
        detail = test.detail
        if detail is None:
            continue
        rows.append(
            (
                test.b,
                interval_cell(detail.recall, 100, 1, sign=True),
                interval_cell(detail.auc, 1, 3, sign=True),
                NONE if detail.delong is None else p_cell(detail.delong.p),
                interval_cell(detail.delay, 1, 2, sign=True),
                f"{detail.benign.b_count} : {detail.benign.c_count}",
                p_cell(detail.benign.p),
            )
        )
    return Table(
        "differences",
        f"Differences to {study.arms[study.reference].name}",
        (
            "arm",
            "recall, points",
            "AUC",
            "p, DeLong",
            "mean turn of the first flag",
            "benign flagged, alone",
            "p, McNemar",
        ),
        tuple(rows),
        1,
        "Intervals of a bootstrap over groups. Below 0 turns: earlier. Benign flagged, alone: by the reference "
        "and by "
        "the arm. These p-values are not corrected for the number of arms.",
    )


def _further(study: Study) -> Table:
    rows = []
    for judgement, result in zip(study.judgements, study.results, strict=True):
        alarms = result.alarms
        at = [
            f"needs {_needed(one.reason)}" if one.recall is None else rate_cell(one.recall)
            for one in result.recall_at
        ]
        rows.append(
            (
                judgement.arm.name,
                rate_cell(result.final.recall),
                rate_cell(result.final.false_positive_rate),
                rate_cell(result.ever.precision),
                interval_cell(result.f1),
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
        "Further figures",
        (
            "arm",
            "final recall, %",
            "final false positives, %",
            "precision, %",
            "F1",
            *(f"recall at {100 * one.rate:g} %" for one in study.results[0].recall_at),
            "false alarms per 1,000 benign turns",
            "US$ a conversation",
            "ms a conversation",
        ),
        tuple(rows),
        1,
        "Final: judged at the last turn alone, where all others judge whether it fired at any. Precision and "
        "F1 hold "
        "for this mix of attacks and benign conversations only. Recall at a rate: the threshold set on the "
        "test's own "
        "benign conversations.",
    )


def _needed(reason: str) -> str:
    """Return how many benign conversations a reason asks for."""
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
        "Turn of the first flag",
        ("arm", "median", "quartiles", "median of caught", "turns left, of caught", "mean turn"),
        tuple(rows),
        1,
        "Misses are censored at their last turn. Turns left: from the first flag to the end, median and "
        "quartiles. "
        f"Mean turn: up to turn {study.results[0].horizon}, with the interval of a bootstrap over groups.",
    )


def _cells(study: Study) -> Iterator[Table]:
    chosen = study.reference if study.chosen is None else study.chosen
    first, second = study.arms[study.reference].name, study.arms[chosen].name
    for division in DIVISIONS:
        cells = [cell for cell in study.cells if cell.division == division]
        rows = tuple(_cell_row(study, cell, chosen) for cell in cells)
        yield Table(
            f"by_{division}",
            f"By {division}",
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
            f"larger of conversations and groups as the unit, with Holm's correction within this table.",
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
        "the "
        "reason for which it is missing.",
    )


def _splits(study: Study) -> Table:
    known = {one.sequence_id: one for one in study.material.known}
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
