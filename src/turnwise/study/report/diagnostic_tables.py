"""What the diagnostics found: tables and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from turnwise.rates import Rate
from turnwise.stats import Interval, LengthMatched, OrderShuffle
from turnwise.study.compare import Study
from turnwise.study.compare.arm_diagnostics import ArmChecks, PanelAgreement, Repeated
from turnwise.study.report.table import (
    NONE,
    Column,
    Table,
    as_json,
    interval_cell,
    json_row,
    make_table,
    rate_cell,
)

MOST_TRANSFERS = 30
"""Rows that a table of transfers has at most."""

LENGTHS = (
    Column("recall", "recall, %", rate_cell, "counts.recall"),
    Column("fpr", "false positives, %", rate_cell, "counts.fpr"),
    Column("auc", "AUC", "{:.3f}".format),
    Column("auc_all", "AUC of all", "{:.3f}".format),
    Column("left_out"),
    Column("reason"),
)
"""An arm on attacks and benign conversations of equal length."""

TRANSFER = (
    Column("set_on", "set on"),
    Column("used_on", "used on"),
    Column("threshold", "threshold", "{:.4g}".format),
    Column("recall", "recall, %", rate_cell),
    Column("fpr", "false positives, %", rate_cell),
    Column("reason"),
)
"""A threshold of one source on another."""

REPEATS = (
    Column("run"),
    Column("component"),
    Column("icc", at="icc.value"),
    Column("ci", at="icc", json=lambda icc: [as_json(icc.low), as_json(icc.high)]),
    Column("conditions_on_threshold", at=".", json=lambda _: False),
    Column("units", at="icc.units"),
    Column("repeats", at="icc.repeats"),
)
"""How well an observer repeats itself."""


def checks_as_json(checks: ArmChecks) -> dict[str, Any]:
    """All numbers of the diagnostics."""
    return as_json(checks) | {  # type: ignore[no-any-return]
        "length_matched": {name: json_row(LENGTHS, one) for name, one in checks.length_matched.items()},
        "threshold_transfer": [json_row(TRANSFER, one) for one in checks.threshold_transfer],
        "leave_one_source_out": [json_row(TRANSFER, one) for one in checks.leave_one_source_out],
        "repeats_agreement": [json_row(REPEATS, one) for one in checks.repeats_agreement],
    }


def diagnostic_tables(study: Study) -> Iterator[Table]:
    """Yield the tables of the diagnostics; those without a row are left out later."""
    yield _shuffles(study)
    yield _lengths(study)
    yield from _transfers(study)
    yield _noise(study)
    yield _agreement(study)


class _Permuted(NamedTuple):
    arm: str
    what: str
    attacks: Interval | Rate | None
    benign: Interval | Rate | None
    conversations: int


def _shuffles(study: Study) -> Table:
    def of_scores(arm: str, one: OrderShuffle) -> _Permuted:
        return _Permuted(arm, "scores", one.attacks, one.benign, one.conversations)

    def cell(found: Interval | Rate) -> str:
        return rate_cell(found) if isinstance(found, Rate) else interval_cell(found, 100, 1)

    rows = [of_scores(name, one) for name, one in study.checks.order_shuffle.items()]
    if (moved := study.checks.turns_reordered) is not None:
        name = study.arms[study.followed].name
        count = moved.attacks.of + moved.benign.of
        rows.append(_Permuted(name, "turns, scored again", moved.attacks, moved.benign, count))
    return make_table(
        "shuffle",
        "Is order used? Verdicts that change when the order does, %",
        (
            Column("", "arm", at="arm"),
            Column("", "what is permuted", at="what"),
            Column("", "attacks", cell, "attacks"),
            Column("", "benign", cell, "benign"),
            Column("", "conversations", at="conversations"),
        ),
        rows,
        2,
        "A detector that only looks for the worst turn changes none. With an observer that saw earlier turns, "
        "permuted scores still carry the first order; turns permuted and scored again don't.",
    )


class _OfLength(NamedTuple):
    arm: str
    matched: LengthMatched


def _lengths(study: Study) -> Table:
    def of_each(one: LengthMatched) -> str:
        return one.reason or str(one.counts.recall.of)

    def unless_refused(column: Column) -> Column:
        def cell(one: LengthMatched) -> str:
            value = column.of(one)
            return NONE if one.reason or value is None else column.cell(value)

        return Column("", column.heading, cell, "matched")

    columns = (
        Column("", "arm", at="arm"),
        Column("", "of each", of_each, "matched"),
        *(unless_refused(column) for column in LENGTHS if column.heading),
    )
    rows = [_OfLength(name, one) for name, one in study.checks.length_matched.items()]
    return make_table("lengths", "Attacks and benign conversations of equal length", columns, rows)


def _transfers(study: Study) -> Iterator[Table]:
    for name, title, found in (
        ("left_out", "A source that neither fitted nor calibrated", study.checks.leave_one_source_out),
        ("transfer", "A threshold set on one source, used on another", study.checks.threshold_transfer),
    ):
        shown = [one for one in found if one.threshold is not None]
        refused = [one for one in found if one.threshold is None]
        note = "; ".join(dict.fromkeys(f"{one.set_on}: {one.reason}" for one in refused))
        more = len(shown) - MOST_TRANSFERS
        if more > 0:
            note = f"{more} further rows are in results.json. {note}"
        yield make_table(name, title, TRANSFER, shown[:MOST_TRANSFERS], 2, note)


def _noise(study: Study) -> Table:
    def cell(scale: float, digits: int, values: Sequence[float]) -> str:
        low, middle, high = (f"{scale * value:.{digits}f}" for value in values)
        return f"{middle} [{low}, {high}]"

    return make_table(
        "label_noise",
        "If some labels were wrong",
        (
            Column("", "wrong, %", lambda share: f"{100 * share:g}", "share"),
            Column("", "recall, %", lambda draws: cell(100, 1, draws), "recall"),
            Column("", "false positives, %", lambda draws: cell(100, 1, draws), "fpr"),
            Column("", "AUC", lambda draws: cell(1, 3, draws), "auc"),
        ),
        study.checks.label_noise,
        0,
        "Labels turned round at random; median and 95 % of the draws. Errors that go with length, topic or the "
        "detector's own rule can do more harm than this shows.",
    )


def _agreement(study: Study) -> Table:
    def between(one: PanelAgreement) -> tuple[str, ...]:
        runs, measure = f"{one.first} and {one.second}", "Krippendorff's alpha"
        return runs, one.component, interval_cell(one.alpha), str(one.units), measure

    def with_itself(one: Repeated) -> tuple[str, ...]:
        icc = one.icc
        shown, measure = f"{icc.value:.2f} [{icc.low:.2f}, {icc.high:.2f}]", f"ICC(1,1), {icc.repeats} repeats"
        return f"{one.run} with itself", one.component, shown, str(icc.units), measure

    rows = (*map(between, study.checks.panel_agreement), *map(with_itself, study.checks.repeats_agreement))
    columns = ("runs", "component", "agreement", "units", "measure")
    return Table("agreement", "Agreement of judges", columns, rows, 2)
