"""The same detector on two runs: the table, the words and the numbers."""

from __future__ import annotations

from turnwise.study.compare import BetweenRuns, Study
from turnwise.study.compare.warnings import percent
from turnwise.study.report.gain_tables import ONE_THRESHOLD, difference_cell
from turnwise.study.report.table import NONE, Table, interval_cell, p_cell


def run_tables(study: Study) -> tuple[Table, Table]:
    """The tables of detectors on two runs of the same context; without rows where none are."""
    asked = f"{100 * study.settings.target_fpr:g} %"
    splits = "a single split" if study.settings.splits == 1 else f"{study.settings.splits} splits"
    first = Table(
        "runs",
        "The same detector on two runs",
        (
            "detector",
            "a",
            "b",
            f"expected gain over {splits}, points",
            "gain at these thresholds, points",
            "attacks caught, alone",
            "p, Holm",
            "AUC",
            "p, DeLong, Holm",
            "shown at these thresholds",
        ),
        tuple(_row(study, one) for one in study.between_runs),
        3,
        "Every difference is b less a, on the conversations that both runs evaluated; alone: by a and by b. "
        "Expected gain in recall: its interval covers which conversations there were and the thresholds that they "
        f"set for {asked} false positives. At these thresholds: set on other conversations, both flagging equally "
        "many of those; exact McNemar tests, by conversation and by group, Holm's correction of the larger p over "
        f"this table; each {ONE_THRESHOLD}. The AUC rests on no threshold; DeLong's test takes conversations for "
        "independent. Intervals are those of a bootstrap over groups, not corrected for the number of rows.",
    )
    second = Table(
        "runs_further",
        "The same detector on two runs, further figures",
        (
            "detector",
            "a",
            "b",
            "p",
            "p, groups",
            "p, DeLong",
            f"gain at {asked} of the test, points",
            f"partial AUC to {asked}",
            "benign flagged, alone",
            "p, benign",
            "left out",
        ),
        tuple(_further(study, one) for one in study.between_runs),
        3,
        f"Not corrected for the number of comparisons. At {asked} of the test: read from the ROC curves, where "
        "both flag that share of the benign test conversations; no threshold is known in advance there. Left out: "
        "tested conversations that not both runs evaluated.",
    )
    return first, second


def _row(study: Study, one: BetweenRuns) -> tuple[str, ...]:
    expected = None if one.redrawn is None else one.redrawn.redraw.overall.expected
    return (
        *_names(study, one),
        interval_cell(expected, 100, 1, sign=True),
        interval_cell(one.detail.recall, 100, 1, sign=True),
        f"{one.test.b_count} : {one.test.c_count}",
        p_cell(one.test.p_holm),
        interval_cell(one.detail.auc, 1, 3, sign=True),
        NONE if one.p_auc_holm is None else p_cell(one.p_auc_holm),
        _shown(one, "b finds more", "a finds more", "not shown"),
    )


def _further(study: Study, one: BetweenRuns) -> tuple[str, ...]:
    rate, found, benign = study.settings.target_fpr, one.at_rate, one.detail.benign
    return (
        *_names(study, one),
        p_cell(one.test.p),
        p_cell(one.test.p_group),
        NONE if one.detail.delong is None else p_cell(one.detail.delong.p),
        NONE if found is None else difference_cell(found.recall[rate], 100, 1),
        NONE if found is None else difference_cell(found.partial_auc[rate], 1, 3),
        f"{benign.b_count} : {benign.c_count}",
        p_cell(max(benign.p, benign.p_group)),
        str(one.detail.left_out),
    )


def _names(study: Study, one: BetweenRuns) -> tuple[str, str, str]:
    return one.detector, study.arms[one.first].run, study.arms[one.second].run


def runs_words(study: Study) -> tuple[str, ...]:
    """Which of two runs of the same context finds more, a paragraph for each detector and pair."""
    return tuple(_words(study, one) for one in study.between_runs)


def _words(study: Study, one: BetweenRuns) -> str:
    first, second = study.arms[one.first].run, study.arms[one.second].run
    parts = [f"{one.detector} on {second} against {first}.", *_over_splits(study, one, first, second)]
    parts.append(_tested(study, one, first, second))
    rates = [study.results[place].ever.false_positive_rate for place in (one.first, one.second)]
    if all(rate.of for rate in rates):
        parts.append(
            f"The thresholds as they were set flag {percent(rates[0])} of the benign conversations on {first} and "
            f"{percent(rates[1])} on {second}."
        )
    if study.settings.thresholds == "given":
        parts.append("These rates are not matched, so that a difference in recall may be one in strictness.")
    if one.detail.delong is not None and one.p_auc_holm is not None:
        parts.append(
            f"The AUC, which rests on no threshold, differs by {interval_cell(one.detail.auc, 1, 3, sign=True)} "
            f"(DeLong p = {p_cell(one.detail.delong.p)}, after Holm {p_cell(one.p_auc_holm)})."
        )
    return " ".join(parts)


def _over_splits(study: Study, one: BetweenRuns, first: str, second: str) -> tuple[str, ...]:
    if one.redrawn is None:
        return ()
    found = one.redrawn.redraw.overall.expected
    says = f"{second} finds more" if found.low > 0 else f"{first} finds more" if found.high < 0 else _NOT_SHOWN
    over = "On a single split" if one.redrawn.splits == 1 else f"Over {one.redrawn.splits} splits"
    told = (
        f"{over} of the conversations, with thresholds for {100 * study.settings.target_fpr:g} % false positives, "
        f"recall on {second} differs by {interval_cell(found, 100, 1, sign=True)} percentage points in "
        f"expectation: {says}. The interval covers which conversations there were and the thresholds that they "
        "set."
    )
    return (told, f"Note: {found.note}.") if found.note else (told,)


def _tested(study: Study, one: BetweenRuns, first: str, second: str) -> str:
    settings, test, tests = study.settings, one.test, len(study.between_runs)
    if settings.thresholds == "given":
        at = "At the thresholds that were given"
    else:
        split = f"the {settings.folds} folds" if settings.folds else f"the split of seed {settings.seed}"
        at = f"At the thresholds of {split} alone"
    if test.tightened:
        at += " (tightened until both flag equally many calibration conversations)"
    over = "" if tests == 1 else f" over {tests} comparisons"
    return (
        f"{at}, {second} alone caught {test.c_count} and {first} alone {test.b_count} of {test.pairs} attacks, "
        f"{interval_cell(one.detail.recall, 100, 1, sign=True)} points; exact McNemar p = {p_cell(test.p)}, by "
        f"groups {p_cell(test.p_group)}, after Holm's correction{over} {p_cell(test.p_holm)}: "
        f"{_shown(one, f'{second} finds more', f'{first} finds more', _NOT_SHOWN)}."
    )


_NOT_SHOWN = "a difference is not shown"


def _shown(one: BetweenRuns, second: str, first: str, neither: str) -> str:
    """What the test shows: that the second finds more, that the first does, or no difference."""
    return second if one.test.won else first if one.test.lost else neither
