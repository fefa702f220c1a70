"""The same detector on two runs: the tables, the words and the numbers."""

from __future__ import annotations

from turnwise.stats import p_cell
from turnwise.study.compare import BetweenRuns, Study
from turnwise.study.compare.warnings import percent
from turnwise.study.report.detection_tables import DIFFERENCES
from turnwise.study.report.gain_tables import ONE_THRESHOLD
from turnwise.study.report.table import (
    AT_ONE_THRESHOLD,
    Column,
    Table,
    alone_cell,
    difference_cell,
    interval_cell,
    json_part,
    make_table,
    pick,
    points_cell,
)

RUNS = (
    Column("detector", "detector"),
    Column("a", "a"),
    Column("b", "b"),
    Column("expected", at="gain.overall.expected"),
    Column("recall", "gain at these thresholds, points", points_cell, "differences.recall"),
    Column("a_alone", at="test.a_alone"),
    Column("b_alone", at="test.b_alone"),
    Column("pairs", at="test.pairs"),
    Column("p", "p", p_cell, "test.p"),
    Column("p_group", "p, groups", p_cell, "test.p_group"),
    Column("p_holm", "p, Holm", p_cell, "test.p_holm"),
    Column("auc", "AUC", lambda found: interval_cell(found, 1, 3, sign=True), "differences.auc"),
    Column("auc_p_delong", "p, DeLong", p_cell, "differences.auc_p_delong"),
    Column("auc_p_holm", "p, DeLong, Holm", p_cell),
    AT_ONE_THRESHOLD,
)
"""One detector on two runs; every difference is that on b less that on a."""

RUNS_FURTHER = (
    Column("tightened", at="test.tightened"),
    Column("left_out", "left out", at="differences.left_out"),
    Column("differences", json=json_part(DIFFERENCES)),
    Column("at_rate"),
    Column("one_study", at="gain.overall.one_study"),
    Column("by_source", at="gain.by_source"),
)
"""The same, further numbers."""


def run_tables(study: Study) -> tuple[Table, Table]:
    """The tables of detectors on two runs of the same context; without rows where none are."""
    rate = study.settings.target_fpr
    asked = f"{100 * rate:g} %"
    splits = "a single split" if study.settings.splits == 1 else f"{study.settings.splits} splits"
    first = make_table(
        "runs",
        "The same detector on two runs",
        (
            *pick(RUNS, "detector", "a", "b"),
            Column("", f"expected gain over {splits}, points", points_cell, "gain.overall.expected"),
            *pick(RUNS, "recall"),
            Column("", "attacks caught, alone", alone_cell, "test"),
            *pick(RUNS, "p_holm", "auc", "auc_p_holm"),
            Column(
                "",
                "shown at these thresholds",
                lambda one: _shown(one, "b finds more", "a finds more", "not shown"),
                ".",
            ),
        ),
        study.between_runs,
        3,
        "Every difference is b less a, on the conversations that both runs evaluated; alone: by a and by b. "
        "Expected gain in recall: its interval covers which conversations there were and the thresholds that they "
        f"set for {asked} false positives. At these thresholds: set on other conversations, both flagging equally "
        "many of those; exact McNemar tests, by conversation and by group, Holm's correction of the larger p over "
        f"this table; each {ONE_THRESHOLD}. The AUC rests on no threshold; DeLong's test takes conversations for "
        "independent. Intervals are those of a bootstrap over groups, not corrected for the number of rows.",
    )
    second = make_table(
        "runs_further",
        "The same detector on two runs, further figures",
        (
            *pick(RUNS, "detector", "a", "b", "p", "p_group", "auc_p_delong"),
            Column(
                "",
                f"gain at {asked} of the test, points",
                lambda found: difference_cell(found[rate], 100, 1),
                "at_rate.recall",
            ),
            Column(
                "",
                f"partial AUC to {asked}",
                lambda found: difference_cell(found[rate], 1, 3),
                "at_rate.partial_auc",
            ),
            Column("", "benign flagged, alone", alone_cell, "differences.benign"),
            Column("", "p, benign", lambda test: p_cell(max(test.p, test.p_group)), "differences.benign"),
            *pick(RUNS_FURTHER, "left_out"),
        ),
        study.between_runs,
        3,
        f"Not corrected for the number of comparisons. At {asked} of the test: read from the ROC curves, where "
        "both flag that share of the benign test conversations; no threshold is known in advance there. Left out: "
        "tested conversations that not both runs evaluated.",
    )
    return first, second


def runs_words(study: Study) -> tuple[str, ...]:
    """Which of two runs of the same context finds more, a paragraph for each detector and pair."""
    return tuple(_words(study, one) for one in study.between_runs)


def _words(study: Study, one: BetweenRuns) -> str:
    first, second = one.a, one.b
    parts = [f"{one.detector} on {second} against {first}.", *_over_splits(study, one), _tested(study, one)]
    rates = [study.results[place].counts.fpr for place in (one.first, one.second)]
    if all(rate.of for rate in rates):
        parts.append(
            f"The thresholds as they were set flag {percent(rates[0])} of the benign conversations on {first} and "
            f"{percent(rates[1])} on {second}."
        )
    if study.settings.thresholds == "given":
        parts.append("These rates are not matched, so that a difference in recall may be one in strictness.")
    if one.differences.auc_p_delong is not None and one.auc_p_holm is not None:
        parts.append(
            "The AUC, which rests on no threshold, differs by "
            f"{interval_cell(one.differences.auc, 1, 3, sign=True)} (DeLong p = "
            f"{p_cell(one.differences.auc_p_delong)}, after Holm {p_cell(one.auc_p_holm)})."
        )
    return " ".join(parts)


def _over_splits(study: Study, one: BetweenRuns) -> tuple[str, ...]:
    if one.gain is None:
        return ()
    first, second, found = one.a, one.b, one.gain.overall.expected
    says = f"{second} finds more" if found.low > 0 else f"{first} finds more" if found.high < 0 else _NOT_SHOWN
    over = "On a single split" if one.gain.splits == 1 else f"Over {one.gain.splits} splits"
    told = (
        f"{over} of the conversations, with thresholds for {100 * study.settings.target_fpr:g} % false positives, "
        f"recall on {second} differs by {points_cell(found)} percentage points in "
        f"expectation: {says}. The interval covers which conversations there were and the thresholds that they "
        "set."
    )
    return (told, f"Note: {found.note}.") if found.note else (told,)


def _tested(study: Study, one: BetweenRuns) -> str:
    settings, test, tests = study.settings, one.test, len(study.between_runs)
    first, second = one.a, one.b
    if settings.thresholds == "given":
        at = "At the thresholds that were given"
    else:
        split = f"the {settings.folds} folds" if settings.folds else f"the split of seed {settings.seed}"
        at = f"At the thresholds of {split} alone"
    if test.tightened:
        at += " (tightened until both flag equally many calibration conversations)"
    over = "" if tests == 1 else f" over {tests} comparisons"
    return (
        f"{at}, {second} alone caught {test.b_alone} and {first} alone {test.a_alone} of {test.pairs} attacks, "
        f"{points_cell(one.differences.recall)} points; exact McNemar p = {p_cell(test.p)}, by "
        f"groups {p_cell(test.p_group)}, after Holm's correction{over} {p_cell(test.p_holm)}: "
        f"{_shown(one, f'{second} finds more', f'{first} finds more', _NOT_SHOWN)}."
    )


_NOT_SHOWN = "a difference is not shown"


def _shown(one: BetweenRuns, second: str, first: str, neither: str) -> str:
    """What the test shows: that the second finds more, that the first does, or no difference."""
    return second if one.test.won else first if one.test.lost else neither
