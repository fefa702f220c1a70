"""What was detected: the figures of every arm, paired tests, differences, verdicts at the last turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from turnwise.detectors import to_mapping
from turnwise.stats import Auc, Confusion, DetectorResult, FalseAlarms, McNemar, Missing, RecallAt, p_cell
from turnwise.study.compare import Study, Test
from turnwise.study.compare.judging import ArmJudgement
from turnwise.study.report.gain_tables import AT_THESE, ONE_THRESHOLD
from turnwise.study.report.table import (
    AT_ONE_THRESHOLD,
    NONE,
    Column,
    Table,
    alone_cell,
    as_json,
    interval_cell,
    json_part,
    make_table,
    pick,
    points_cell,
    range_cell,
    rate_as_json,
    rate_cell,
    share_of,
    within,
)


def _auc_cell(auc: Auc) -> str:
    return f"{auc.value:.3f} [{auc.low:.3f}, {auc.high:.3f}]"


def _f1_cell(counts: Confusion) -> str:
    around = counts.f1_interval
    return NONE if counts.f1 is None or around is None else f"{counts.f1:.2f} [{around[0]:.2f}, {around[1]:.2f}]"


def _f1_as_json(counts: Confusion) -> dict[str, Any]:
    around = counts.f1_interval
    return {"value": counts.f1, "ci": None if around is None else list(around), "conditions_on_threshold": True}


def _final_as_json(counts: Confusion) -> dict[str, Any]:
    return {"counts": as_json(counts), "recall": as_json(counts.recall), "fpr": as_json(counts.fpr)}


def _alarms_cell(found: FalseAlarms) -> str:
    if found.value is None:
        return NONE
    return f"{found.value:.2f} [{found.low or 0:.2f}, {found.high or 0:.2f}]"


def _alarms_as_json(found: FalseAlarms) -> dict[str, Any]:
    return {
        "value": as_json(found.value),
        "ci": [as_json(found.low), as_json(found.high)],
        "conditions_on_threshold": True,
        "alarms": found.alarms,
        "turns": found.turns,
        "method": found.method,
    }


def _quartiles_cell(quartiles: tuple[int | None, int | None]) -> str:
    return " to ".join(NONE if turn is None else str(turn) for turn in quartiles)


FIRST_FLAG = (
    Column("median", "median"),
    Column("quartiles", "quartiles", _quartiles_cell),
    Column("median_of_caught", "median of caught", "{:g}".format),
    Column("lead", "turns left, of caught", lambda lead: f"{lead[1]:g} [{lead[0]:g}, {lead[2]:g}]"),
    Column("turns", at="survival.turns"),
    Column("undetected", at="survival.undetected"),
)
"""When an arm flagged attacks first."""


MISSING = (
    Column("attacks", "attacks missing", lambda rate: f"{rate.count} of {rate.of}"),
    Column("benign", "benign missing", lambda rate: f"{rate.count} of {rate.of}"),
    Column("turns", "turns missing", lambda rate: f"{rate.count} of {rate.of}"),
    Column("", "recall, none flagged", rate_cell, "recall.none_flagged"),
    Column("", "recall, all flagged", rate_cell, "recall.all_flagged"),
    Column("", "false positives, none flagged", rate_cell, "fpr.none_flagged"),
    Column("", "false positives, all flagged", rate_cell, "fpr.all_flagged"),
)
"""What is missing of an arm's conversations."""


def _missing_as_json(found: Missing) -> dict[str, Any]:
    shares = {name: rate_as_json(getattr(found, name), False) for name in ("attacks", "benign", "turns")}
    bounds = {"recall": found.recall, "fpr": found.fpr}
    return shares | {
        name: {"none_flagged": as_json(bound.none_flagged), "all_flagged": as_json(bound.all_flagged)}
        for name, bound in bounds.items()
    }


SHORT = (
    Column("name", "arm"),
    Column("run"),
    Column("context", "context"),
    Column("threshold"),
    Column("recall", "recall, %", rate_cell, "counts.recall", share_of),
    Column("recall_ci", at="counts.recall", json=lambda rate: list(rate.interval)),
    Column("fpr", "false positives, %", rate_cell, "counts.fpr", share_of),
    Column("fpr_ci", at="counts.fpr", json=lambda rate: list(rate.interval)),
    Column("auc", "AUC", _auc_cell, json=lambda auc: None if auc is None else auc.value),
    Column("auc_ci", at="auc", json=lambda auc: None if auc is None else [auc.low, auc.high]),
    Column("median_turn", "median turn", at="first_flag.median"),
    Column("cost_usd", "US$ a conversation", "{:.5f}".format),
    Column("conditions_on_threshold", at=".", json=lambda _: ["recall_ci", "fpr_ci"]),
)
"""The main figures of an arm, all that the short form has."""

CALIBRATED = (
    Column("baseline", at="arm.baseline"),
    Column("built", at="folds", json=lambda folds: [to_mapping(fold.detector) for fold in folds]),
    Column("calibration"),
)
"""What an arm is, and what it flags of the conversations that set its threshold."""

FURTHER = (
    Column("counts"),
    Column("precision", "precision, %", rate_cell, "counts.precision"),
    Column("f1", "F1", _f1_cell, "counts", _f1_as_json),
    Column("f1_by_group"),
    Column("recall_by_group"),
    Column("fpr_by_group"),
    Column("auc_by_group"),
    Column("auc_se", at="auc.se"),
    Column("final", json=_final_as_json),
    Column("recall_at"),
    Column("first_flag", json=json_part(FIRST_FLAG)),
    Column("mean_turn", "mean turn", interval_cell),
    Column("mean_turn_horizon"),
    Column(
        "alarms_per_thousand_benign_turns",
        "false alarms per 1,000 benign turns",
        _alarms_cell,
        json=_alarms_as_json,
    ),
    Column("missing", json=_missing_as_json),
    Column("latency_ms", "ms a conversation", "{:.2f}".format),
)
"""All other figures of an arm."""


def detectors_table(study: Study) -> Table:
    """The main table: every arm with threshold, recall, false positives, AUC, median turn."""
    judgements = {one.arm.name: one for one in study.judgements}

    def name(result: DetectorResult) -> str:
        return result.name + (" *" if judgements[result.name].arm.baseline else "")

    target = 100 * study.settings.target_fpr
    given = study.settings.thresholds == "given"
    set_for = "as given" if given else f"set for {target:g} % false positives on conversations kept apart"
    if study.settings.folds and not given:
        set_for += ", in each fold anew: lowest to highest"
    return make_table(
        "detectors",
        f"Detectors on the test conversations, {AT_THESE}",
        (
            Column("", "arm", name, "."),
            *pick(SHORT, "context"),
            Column("", "threshold", lambda result: _thresholds(judgements[result.name]), "."),
            *pick(SHORT, "recall", "fpr", "auc", "median_turn"),
        ),
        study.results,
        2,
        f"Thresholds {set_for}. * baseline. Recall and false positives by conversation, fired at any turn, "
        "with exact (Clopper-Pearson) intervals, each of which "
        f"{ONE_THRESHOLD}; AUC with DeLong's, which rests on none. Median turn of the first flag, misses "
        "censored; – where fewer than half of the attacks are ever flagged.",
    )


def _thresholds(judgement: ArmJudgement) -> str:
    thresholds = [fold.threshold for fold in judgement.folds]
    return range_cell(min(thresholds), max(thresholds))


def further_table(study: Study) -> Table:
    """Precision, F1, recall at a rate, false alarms, cost and time of every arm."""

    def recall_at(place: int) -> Column:
        rate = study.results[0].recall_at[place].rate
        return Column("", f"recall at {100 * rate:g} %", lambda found: _recall_at_cell(found[place]), "recall_at")

    return make_table(
        "further",
        f"Further figures, {AT_THESE}",
        (
            *pick(SHORT, "name"),
            *pick(FURTHER, "precision", "f1"),
            *map(recall_at, range(len(study.results[0].recall_at))),
            *pick(FURTHER, "alarms_per_thousand_benign_turns"),
            *pick(SHORT, "cost_usd"),
            *pick(FURTHER, "latency_ms"),
        ),
        study.results,
        1,
        "Precision and F1, with exact intervals, hold for this mix of attacks and benign conversations only. "
        "Recall at a rate: the threshold set on the test's own benign conversations, with the interval of a "
        "bootstrap over groups that sets it anew each time; every other interval "
        f"{ONE_THRESHOLD}.",
    )


def _recall_at_cell(found: RecallAt) -> str:
    if found.recall is not None:
        return interval_cell(found.by_group, 100, 1)
    number = found.reason.rpartition("at least ")[2].partition(" ")[0]
    return f"needs {number} benign" if number.isdigit() else "needs more"


def delay_table(study: Study) -> Table:
    """When every arm flags attacks first."""
    return make_table(
        "delay",
        f"Turn of the first flag, {AT_THESE}",
        (*pick(SHORT, "name"), *within("first_flag", FIRST_FLAG), *pick(FURTHER, "mean_turn")),
        [result for result in study.results if result.first_flag is not None],
        1,
        "Misses are censored at their last turn. Turns left: from the first flag to the end, median and "
        f"quartiles. Mean turn: up to turn {study.results[0].mean_turn_horizon}, with the interval of a bootstrap "
        "over groups.",
    )


def missing_table(study: Study) -> Table:
    """What is missing of every arm's conversations, and the bounds of its rates."""

    def some(found: Missing) -> bool:
        return bool(found.attacks.count + found.benign.count + found.turns.count)

    return make_table(
        "missing",
        "What is missing, and what it could change",
        (*pick(SHORT, "name"), *within("missing", MISSING)),
        [result for result in study.results if some(result.missing)],
        1,
        "A conversation without any score is missing: it is neither caught nor clean. The bounds hold whatever "
        "the reason for which it is missing.",
    )


def _benign_as_json(test: McNemar) -> list[float]:
    return [test.a_alone, test.b_alone, test.p]


DIFFERENCES = (
    Column("recall", "recall, points", points_cell),
    Column("auc", "AUC", lambda found: interval_cell(found, 1, 3, sign=True)),
    Column("auc_p_delong", "p, DeLong", p_cell),
    Column("mean_turn", "mean turn of the first flag", lambda found: interval_cell(found, 1, 2, sign=True)),
    Column("benign", "benign flagged, alone", alone_cell, json=_benign_as_json),
)
"""How two arms differ on the conversations that both evaluated, the second less the first."""

TESTS = (
    Column("a", "a"),
    Column("b", "b"),
    Column("family"),
    Column("p", "p", p_cell),
    Column("p_group", "p, groups", p_cell),
    Column("p_holm", "p, Holm", p_cell),
    Column("pairs"),
    Column("tightened"),
    Column("a_alone", "a alone"),
    Column("b_alone", "b alone"),
    AT_ONE_THRESHOLD,
)
"""A paired test of two arms on the attacks."""


ANY_TURN_TESTS = (*TESTS, Column("differences", json=json_part(DIFFERENCES)))
"""The test of verdicts at any turn."""

FINAL_TESTS = (*TESTS, Column("benign", json=_benign_as_json))
"""The test of verdicts at the last turn."""


def _outcome(test: Test) -> str:
    return "beats it" if test.won else "is beaten" if test.lost else "not shown"


def tests_table(study: Study) -> Table:
    """The paired tests against the reference, and those of the followed arm against every baseline."""
    followed = None if study.chosen is None else study.arms[study.chosen].name
    shown = [test for test in study.tests if test.family == "reference" or test.b == followed]
    return _tests(shown, "tests", f"Paired tests on the attacks, {AT_THESE}")


def baselines_table(study: Study) -> Table:
    """The paired tests of all other arms against baselines other than the reference."""
    followed = None if study.chosen is None else study.arms[study.chosen].name
    shown = [test for test in study.tests if test.family == "baseline" and test.b != followed]
    return _tests(shown, "baselines", f"Paired tests of the other arms against the other baselines, {AT_THESE}")


def _tests(tests: Sequence[Test], name: str, title: str) -> Table:
    def gain(test: Test) -> str:
        if test.differences is None:
            return f"{100 * (test.b_alone - test.a_alone) / test.pairs:+.1f}"
        return points_cell(test.differences.recall)

    return make_table(
        name,
        title,
        (
            *pick(TESTS, "a", "b", "a_alone", "b_alone"),
            Column("", "gain of b, points", gain, "."),
            *pick(TESTS, "p", "p_group", "p_holm"),
            Column("", "b against a", _outcome, "."),
        ),
        tests,
        2,
        "Exact McNemar tests on paired verdicts; p, groups: the same with whole groups as the unit; Holm's "
        "correction of the larger of the two, over all tests against the reference and over all tests against "
        "other baselines. Intervals of the gain are those of a bootstrap over groups. Each interval and p-value "
        f"{ONE_THRESHOLD}. Where equal scores kept "
        "an arm under the asked rate, the other was tightened to the same rate for the test.",
    )


def differences_table(study: Study) -> Table:
    """The differences of every detector over time to the reference, with intervals."""
    return make_table(
        "differences",
        f"Differences to {study.arms[study.reference].name}, {AT_THESE}",
        (
            Column("", "arm", at="b"),
            *within("differences", DIFFERENCES),
            Column("", "p, McNemar", p_cell, "differences.benign.p"),
        ),
        [test for test in study.tests if test.differences is not None],
        1,
        "Intervals of a bootstrap over groups; all but those of the AUC take these thresholds as given. Below 0 "
        "turns: earlier. Benign flagged, alone: by the reference and by the arm. These p-values are not "
        "corrected for the number of arms.",
    )


class _AtTheEnd(NamedTuple):
    result: DetectorResult
    test: Test | None


def final_table(study: Study) -> Table:
    """Rates and paired tests of verdicts at the last turn."""
    tests = {test.b: test for test in study.final_tests}
    reference = study.arms[study.reference].name
    return make_table(
        "final",
        f"Verdicts at the last turn, {AT_THESE}",
        (
            Column("", "arm", at="result.name"),
            Column("", "recall, %", rate_cell, "result.final.recall"),
            Column("", "false positives, %", rate_cell, "result.final.fpr"),
            Column("", "attacks caught, alone", alone_cell, "test"),
            *within("test", pick(TESTS, "p", "p_group", "p_holm")),
            Column("", f"against {reference}", _outcome, "test"),
            Column("", "benign flagged, alone", alone_cell, "test.benign"),
        ),
        [_AtTheEnd(result, tests.get(result.name)) for result in study.results],
        1,
        f"Each interval and p-value {ONE_THRESHOLD}. "
        "Whether a detector would fire at the last turn, where all other tables ask whether it fired at any. "
        f"Alone: by {reference} and by the arm. Exact McNemar tests on the attacks, corrected by Holm within this "
        "table. Thresholds are those set for verdicts at any turn, so that the rates of false positives here lie "
        "lower and are not matched.",
    )
