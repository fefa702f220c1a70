"""The tables of the diagnostics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turnwise.study.compare import Study
from turnwise.study.report.table import NONE, Table, interval_cell, rate_cell
from turnwise.study.stats.diagnostics import Transfer

MOST_TRANSFERS = 30
"""Rows that a table of transfers has at most."""


def check_tables(study: Study) -> Iterator[Table]:
    """Yield the tables of the diagnostics; those without a row are left out later."""
    yield _shuffles(study)
    yield _lengths(study)
    yield from _transfers(study)
    yield _noise(study)
    yield _agreement(study)


def _shuffles(study: Study) -> Table:
    moved = study.checks.reordered
    rows = [
        (
            name,
            "scores",
            interval_cell(one.attacks, 100, 1),
            interval_cell(one.benign, 100, 1),
            str(one.conversations),
        )
        for name, one in study.checks.shuffles.items()
    ]
    if moved is not None:
        name = study.arms[study.reference if study.chosen is None else study.chosen].name
        count = str(moved.attacks.of + moved.benign.of)
        rows.append((name, "turns, scored again", rate_cell(moved.attacks), rate_cell(moved.benign), count))
    return Table(
        "shuffle",
        "Is order used? Verdicts that change when the order does, %",
        ("arm", "what is permuted", "attacks", "benign", "conversations"),
        tuple(rows),
        2,
        "A detector that only looks for the worst turn changes none. With an observer that saw earlier turns, "
        "permuted scores still carry the first order; turns permuted and scored again don't.",
    )


def _lengths(study: Study) -> Table:
    rows = []
    for name, one in study.checks.lengths.items():
        if one.reason:
            rows.append((name, one.reason, NONE, NONE, NONE, NONE))
            continue
        rows.append(
            (
                name,
                str(one.counts.recall.of),
                rate_cell(one.counts.recall),
                rate_cell(one.counts.false_positive_rate),
                NONE if one.auc is None else f"{one.auc:.3f}",
                NONE if one.auc_all is None else f"{one.auc_all:.3f}",
            )
        )
    return Table(
        "lengths",
        "Attacks and benign conversations of equal length",
        ("arm", "of each", "recall, %", "false positives, %", "AUC", "AUC of all"),
        tuple(rows),
    )


def _transfers(study: Study) -> Iterator[Table]:
    for name, title, found in (
        ("left_out", "A source that neither fitted nor calibrated", study.checks.left_out),
        ("transfer", "A threshold set on one source, used on another", study.checks.transfer),
    ):
        shown = [one for one in found if one.threshold is not None]
        refused = [one for one in found if one.threshold is None]
        note = "; ".join(dict.fromkeys(f"{one.set_on}: {one.reason}" for one in refused))
        more = len(shown) - MOST_TRANSFERS
        if more > 0:
            note = f"{more} further rows are in results.json. {note}"
        yield Table(
            name,
            title,
            ("set on", "used on", "threshold", "recall, %", "false positives, %"),
            tuple(_transfer_row(one) for one in shown[:MOST_TRANSFERS]),
            2,
            note,
        )


def _transfer_row(one: Transfer) -> tuple[str, ...]:
    rates = (NONE if rate is None else rate_cell(rate) for rate in (one.recall, one.false_positive_rate))
    return (one.set_on, one.used_on, NONE if one.threshold is None else f"{one.threshold:.4g}", *rates)


def _noise(study: Study) -> Table:
    def cell(values: Sequence[float], scale: float, digits: int) -> str:
        low, middle, high = (f"{scale * value:.{digits}f}" for value in values)
        return f"{middle} [{low}, {high}]"

    return Table(
        "label_noise",
        "If some labels were wrong",
        ("wrong, %", "recall, %", "false positives, %", "AUC"),
        tuple(
            (
                f"{100 * one.share:g}",
                cell(one.recall, 100, 1),
                cell(one.false_positive_rate, 100, 1),
                cell(one.auc, 1, 3),
            )
            for one in study.checks.noise
        ),
        0,
        "Labels turned round at random; median and 95 % of the draws. Errors that go with length, topic or the "
        "detector's own rule can do more harm than this shows.",
    )


def _agreement(study: Study) -> Table:
    rows = [
        (
            f"{one.first} and {one.second}",
            one.component,
            interval_cell(one.alpha),
            str(one.units),
            "Krippendorff's alpha",
        )
        for one in study.checks.panel
    ]
    rows += [
        (
            f"{one.run} with itself",
            one.component,
            f"{one.icc.value:.2f} [{one.icc.low:.2f}, {one.icc.high:.2f}]",
            str(one.icc.units),
            f"ICC(1,1), {one.icc.repeats} repeats",
        )
        for one in study.checks.repeats
    ]
    return Table(
        "agreement", "Agreement of judges", ("runs", "component", "agreement", "units", "measure"), tuple(rows), 2
    )
