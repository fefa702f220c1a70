"""The tables of what was detected: rates, paired tests, differences, verdicts at the last turn."""

from __future__ import annotations

from collections.abc import Sequence

from turnwise.study.compare import Study, Test
from turnwise.study.compare.judging import Judgement
from turnwise.study.report.gain_tables import AT_THESE, ONE_THRESHOLD
from turnwise.study.report.table import NONE, Table, interval_cell, p_cell, rate_cell


def detectors_table(study: Study) -> Table:
    """The main table: every arm with threshold, recall, false positives, AUC, median turn."""
    columns = "arm", "context", "threshold", "recall, %", "false positives, %", "AUC", "median turn"
    rows = []
    for judgement, result in zip(study.judgements, study.results, strict=True):
        auc, flag = result.auc, result.first_flag
        rows.append(
            (
                judgement.arm.name + (" *" if judgement.arm.baseline else ""),
                judgement.arm.context,
                threshold_cell(judgement),
                rate_cell(result.ever.recall),
                rate_cell(result.ever.false_positive_rate),
                NONE if auc is None else f"{auc.value:.3f} [{auc.low:.3f}, {auc.high:.3f}]",
                NONE if flag is None or flag.median is None else str(flag.median),
            )
        )
    target = 100 * study.settings.target_fpr
    given = study.settings.thresholds == "given"
    set_for = "as given" if given else f"set for {target:g} % false positives on conversations kept apart"
    if study.settings.folds and not given:
        set_for += ", in each fold anew: lowest to highest"
    return Table(
        "detectors",
        f"Detectors on the test conversations, {AT_THESE}",
        columns,
        tuple(rows),
        2,
        f"Thresholds {set_for}. * baseline. Recall and false positives by conversation, fired at any turn, "
        "with exact (Clopper-Pearson) intervals, each of which "
        f"{ONE_THRESHOLD}; AUC with DeLong's, which rests on none. Median turn of the first flag, misses "
        "censored; – where fewer than half of the attacks are ever flagged.",
    )


def threshold_cell(judgement: Judgement) -> str:
    """The threshold of an arm; where its folds have several, the lowest and the highest."""
    least, most = (f"{pick(fold.limit for fold in judgement.folds):.4g}" for pick in (min, max))
    return least if least == most else f"{least} to {most}"


def tests_table(study: Study) -> Table:
    """The paired tests against the reference, and those of the followed arm against every baseline."""
    followed = None if study.chosen is None else study.arms[study.chosen].name
    shown = [test for test in study.tests if test.family == "reference" or test.b == followed]
    return _tests(study, shown, "tests", f"Paired tests on the attacks, {AT_THESE}")


def baselines_table(study: Study) -> Table:
    """The paired tests of all other arms against baselines other than the reference."""
    followed = None if study.chosen is None else study.arms[study.chosen].name
    shown = [test for test in study.tests if test.family == "baseline" and test.b != followed]
    return _tests(
        study, shown, "baselines", f"Paired tests of the other arms against the other baselines, {AT_THESE}"
    )


def _tests(study: Study, tests: Sequence[Test], name: str, title: str) -> Table:
    rows = []
    for test in tests:
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
        name,
        title,
        ("a", "b", "a alone", "b alone", "gain of b, points", "p", "p, groups", "p, Holm", "b against a"),
        tuple(rows),
        2,
        "Exact McNemar tests on paired verdicts; p, groups: the same with whole groups as the unit; Holm's "
        "correction of the larger of the two, over all tests against the reference and over all tests against "
        "other baselines. Intervals of the gain are those of a bootstrap over groups. Each interval and p-value "
        f"{ONE_THRESHOLD}. Where equal scores kept "
        "an arm under the asked rate, the other was tightened to the same rate for the test.",
    )


def differences_table(study: Study) -> Table:
    """The differences of every detector over time to the reference, with intervals."""
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
        f"Differences to {study.arms[study.reference].name}, {AT_THESE}",
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
        "Intervals of a bootstrap over groups; all but those of the AUC take these thresholds as given. Below 0 "
        "turns: earlier. Benign flagged, alone: by the reference and by the arm. These p-values are not "
        "corrected for the number of arms.",
    )


def final_table(study: Study) -> Table:
    """Rates and paired tests of verdicts at the last turn."""
    tests = {test.b: test for test in study.final_tests}
    rows = []
    for judgement, result in zip(study.judgements, study.results, strict=True):
        test = tests.get(judgement.arm.name)
        rates = rate_cell(result.final.recall), rate_cell(result.final.false_positive_rate)
        if test is None or test.benign is None:
            rows.append((judgement.arm.name, *rates, *[NONE] * 6))
            continue
        rows.append(
            (
                judgement.arm.name,
                *rates,
                f"{test.b_count} : {test.c_count}",
                p_cell(test.p),
                p_cell(test.p_group),
                p_cell(test.p_holm),
                "beats it" if test.won else "is beaten" if test.lost else "not shown",
                f"{test.benign.b_count} : {test.benign.c_count}",
            )
        )
    reference = study.arms[study.reference].name
    return Table(
        "final",
        f"Verdicts at the last turn, {AT_THESE}",
        (
            "arm",
            "recall, %",
            "false positives, %",
            "attacks caught, alone",
            "p",
            "p, groups",
            "p, Holm",
            f"against {reference}",
            "benign flagged, alone",
        ),
        tuple(rows),
        1,
        f"Each interval and p-value {ONE_THRESHOLD}. "
        "Whether a detector would fire at the last turn, where all other tables ask whether it fired at any. "
        f"Alone: by {reference} and by the arm. Exact McNemar tests on the attacks, corrected by Holm within this "
        "table. Thresholds are those set for verdicts at any turn, so that the rates of false positives here lie "
        "lower and are not matched.",
    )
