"""A study as JSON values: what ``--json`` prints, and all of it for ``results.json``."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from turnwise._support.revision import versions
from turnwise.rates import Rate
from turnwise.study.compare import BetweenRuns, Judgement, Study, Test
from turnwise.study.compare.checks import Checks
from turnwise.study.compare.comparisons import CellGain
from turnwise.study.report.truth import reader_as_json
from turnwise.study.stats.auc import Auc
from turnwise.study.stats.bootstrap import Interval
from turnwise.study.stats.diagnostics import LengthMatched, Transfer
from turnwise.study.stats.matched_rates import MatchedRates
from turnwise.study.stats.metrics import DetectorResult, PairTest
from turnwise.study.stats.paired import McNemar
from turnwise.study.stats.redraw import Difference, Gain
from turnwise.study.stats.thresholds import RecallAt
from turnwise.study.stats.verdicts import Confusion

LIBRARIES = ("numpy", "scipy", "altair", "vl-convert-python")
"""Packages whose versions a result depends on."""


def summary(study: Study) -> dict[str, Any]:
    """Return the short form: the gain over many splits, two runs, a row a detector, a row a test, the warnings."""
    found = study.redrawn
    return {
        "gain": None
        if found is None
        else {"splits": found.splits, "followed": dict(found.followed)} | _gain(found.redraw.overall),
        "runs": [_between_runs(study, one) for one in study.between_runs],
        "detectors": [
            _row(judgement, result) for judgement, result in zip(study.judgements, study.results, strict=True)
        ],
        "tests": [
            {
                "a": test.a,
                "b": test.b,
                "a_alone": test.b_count,
                "b_alone": test.c_count,
                "p": test.p,
                "p_holm": test.p_holm,
                "conditions_on_threshold": True,
            }
            for test in study.tests
        ],
        "warnings": list(study.warnings),
    }


def record(study: Study) -> dict[str, Any]:
    """Return everything: configuration, data and their hashes, seeds, versions, splits, numbers, diagnostics."""
    reference = study.arms[study.reference].name
    return {
        "configuration": {name: value for name, value in asdict(study.settings).items() if value is not None},
        "versions": versions(LIBRARIES),
        "data": {
            "conversations": len(study.study_data.known),
            "attacks": sum(one.attack for one in study.study_data.known),
            "groups": len({one.group for one in study.study_data.known}),
            "untried": study.study_data.untried,
            "unlabelled": study.study_data.unlabelled,
            "corrected": study.study_data.corrected,
            "disputed": study.study_data.disputed,
            "trained_benign": {name: len(ids) for name, ids in study.study_data.trained_benign.items()},
            "sha256": study.study_data.digest,
            "runs": [
                {
                    "name": one.run.name,
                    "observer": one.run.observer,
                    "observer_version": one.run.observer_version,
                    "context": one.run.context,
                    "failed": len(one.failed),
                    "unread": len(one.unread),
                    "scores_sha256": one.digest,
                }
                for one in study.study_data.runs
            ],
        },
        "splits": [
            {part: sorted(getattr(fold, part)) for part in ("train", "calibrate", "test")} for fold in study.folds
        ],
        "reference": reference,
        "chosen": None if study.chosen is None else study.arms[study.chosen].name,
        "in_training": {study.arms[place].name: rate_as_json(rate) for place, rate in study.ranks.items()},
        "gain": _redrawn(study),
        "runs": [_between_runs(study, one) | _further_between(one) for one in study.between_runs],
        "matched_rates": [{"arm": name} | _matched(found) for name, found in study.matched.items()],
        "detectors": [
            _row(judgement, result) | _further(judgement, result)
            for judgement, result in zip(study.judgements, study.results, strict=True)
        ],
        "tests": [
            _test(test) | {"differences": None if test.detail is None else _differences(test.detail)}
            for test in study.tests
        ],
        "final_tests": [_test(test) | {"benign": _counts(test.benign)} for test in study.final_tests],
        "if_missing": None
        if study.if_missing is None
        else {
            name: _alone(getattr(study.if_missing, name)) for name in ("complete", "against_second", "for_second")
        },
        "cells": [
            {
                "division": cell.division,
                "value": cell.value,
                "recall": [rate_as_json(rate) for rate in cell.recall],
                "false_positives": [rate_as_json(rate) for rate in cell.false_positives],
                "gain": None if cell.gain is None else _alone(cell.gain) | {"conditions_on_threshold": True},
            }
            for cell in study.cells
        ],
        "truth": reader_as_json(study),
        "checks": _checks(study.checks),
        "warnings": list(study.warnings),
    }


def _test(test: Test) -> dict[str, Any]:
    names = ("a", "b", "family", "p", "p_group", "p_holm", "pairs", "tightened")
    alone = {"a_alone": test.b_count, "b_alone": test.c_count}
    return {name: getattr(test, name) for name in names} | alone | {"conditions_on_threshold": True}


def _differences(found: PairTest) -> dict[str, Any]:
    return {
        "recall": interval_as_json(found.recall, True),
        "auc": interval_as_json(found.auc),
        "auc_p_delong": None if found.delong is None else found.delong.p,
        "delay_turns": interval_as_json(found.delay, True),
        "benign": _counts(found.benign),
    }


def _between_runs(study: Study, one: BetweenRuns) -> dict[str, Any]:
    """One detector on two runs; every difference is that on b less that on a."""
    test = one.test
    return {
        "detector": one.detector,
        "a": study.arms[one.first].run,
        "b": study.arms[one.second].run,
        "expected": None if one.redrawn is None else _difference(one.redrawn.redraw.overall.expected),
        "recall": interval_as_json(one.detail.recall, True),
        "a_alone": test.b_count,
        "b_alone": test.c_count,
        "pairs": test.pairs,
        "p": test.p,
        "p_group": test.p_group,
        "p_holm": test.p_holm,
        "auc": interval_as_json(one.detail.auc),
        "auc_p_delong": None if one.detail.delong is None else one.detail.delong.p,
        "auc_p_holm": one.p_auc_holm,
        "conditions_on_threshold": True,
    }


def _further_between(one: BetweenRuns) -> dict[str, Any]:
    redrawn = one.redrawn
    return {
        "tightened": one.test.tightened,
        "left_out": one.detail.left_out,
        "differences": _differences(one.detail),
        "at_rate": None if one.at_rate is None else _matched(one.at_rate),
        "one_study": None if redrawn is None else _gain(redrawn.redraw.overall)["one_study"],
        "by_source": None
        if redrawn is None
        else {name: _gain(gain) for name, gain in redrawn.redraw.subsets.items()},
    }


def _alone(found: McNemar | CellGain) -> dict[str, Any]:
    """A paired test of the reference, a, and the followed arm, b."""
    values = asdict(found)
    return {"a_alone": values.pop("b_count"), "b_alone": values.pop("c_count")} | values


def _redrawn(study: Study) -> dict[str, Any] | None:
    found = study.redrawn
    if found is None:
        return None
    redraw = found.redraw
    return {
        "splits": found.splits,
        "first_seed": study.settings.seed,
        "conversations": found.conversations,
        "left_out": found.left_out,
        "followed": dict(found.followed),
        "overall": _gain(redraw.overall),
        "by_source": {name: _gain(gain) for name, gain in redraw.subsets.items()},
        "other_seeds": [
            {
                "overall": _gain(other.redraw.overall),
                "by_source": {name: _gain(gain) for name, gain in other.redraw.subsets.items()},
            }
            for other in study.further
        ],
        "arms": list(found.arms),
        "each_split": [
            {
                "seed": study.settings.seed + split,
                "followed": found.arms[int(redraw.followed[split])],
                "gain": finite(float(redraw.gain[split])),
                "thresholds": [finite(value) for value in redraw.limits[split].tolist()],
                "recall": [finite(value) for value in redraw.recall[split].tolist()],
                "fpr": [finite(value) for value in redraw.false_positive_rate[split].tolist()],
            }
            for split in range(found.splits)
        ],
    }


def _gain(gain: Gain) -> dict[str, Any]:
    one = gain.one_study
    names = ("median", "low", "high", "helps", "equal", "hurts")
    return {
        "attacks": gain.attacks,
        "expected": _difference(gain.expected),
        "one_study": {name: finite(getattr(one, name)) for name in names} | {"draws": one.draws},
    }


def _matched(found: MatchedRates) -> dict[str, Any]:
    return {
        "partial_auc": {f"{rate:g}": _difference(one) for rate, one in found.partial_auc.items()},
        "recall": {f"{rate:g}": _difference(one) for rate, one in found.recall.items()},
        "thresholds_used": None if found.carried_over is None else _difference(found.carried_over),
        "fpr": None if found.realised is None else [rate_as_json(rate) for rate in found.realised],
    }


def _difference(found: Difference) -> dict[str, Any]:
    """A difference of two arms with its interval and what that takes as given."""
    ends = [finite(found.low), finite(found.high)]
    return {
        "value": finite(found.value),
        "ci": None if None in ends else ends,
        "conditions_on_threshold": found.conditions_on_threshold,
        "p": found.p,
        "method": found.method,
        "groups": found.groups,
        "note": found.note,
    }


def _counts(test: McNemar | None) -> list[float] | None:
    return None if test is None else [test.b_count, test.c_count, test.p]


def share(rate: Rate) -> float | None:
    """A rate as a number; None of nothing."""
    return rate.count / rate.of if rate.of else None


def rate_as_json(rate: Rate, one_threshold: bool = True) -> dict[str, Any]:
    """A rate; `one_threshold` says whether its interval takes a threshold as given."""
    return {
        "value": share(rate),
        "count": rate.count,
        "of": rate.of,
        "ci": list(rate.interval) if rate.of else None,
        "conditions_on_threshold": one_threshold,
    }


def interval_as_json(found: Interval | None, one_threshold: bool = False) -> dict[str, Any] | None:
    """A number with its interval, as in `rate_as_json`; what can't be computed is null."""
    if found is None:
        return None
    ends = [finite(found.low), finite(found.high)]
    return {
        "value": finite(found.value),
        "ci": None if None in ends else ends,
        "conditions_on_threshold": one_threshold,
        "method": found.method,
        "note": found.note,
    }


def finite(value: float | None) -> float | None:
    """A number that JSON has, else None."""
    return value if value is not None and math.isfinite(value) else None


def _row(judgement: Judgement, result: DetectorResult) -> dict[str, Any]:
    recall, fpr = result.ever.recall, result.ever.false_positive_rate
    auc = result.auc
    return {
        "name": judgement.arm.name,
        "run": judgement.arm.run,
        "context": judgement.arm.context,
        "threshold": finite(judgement.threshold),
        "recall": share(recall),
        "recall_ci": list(recall.interval),
        "fpr": share(fpr),
        "fpr_ci": list(fpr.interval),
        "auc": None if auc is None else auc.value,
        "auc_ci": None if auc is None else [auc.low, auc.high],
        "median_turn": None if result.first_flag is None else result.first_flag.median,
        "cost_usd": result.cost_usd,
        "conditions_on_threshold": ["recall_ci", "fpr_ci"],
    }


def _further(judgement: Judgement, result: DetectorResult) -> dict[str, Any]:
    from turnwise.detectors import to_mapping

    flag = result.first_flag
    return {
        "baseline": judgement.arm.baseline,
        "built": [to_mapping(fold.detector) for fold in judgement.folds],
        "calibration": {
            "benign": rate_as_json(judgement.benign_flagged),
            "attacks": rate_as_json(judgement.on_calibrate),
        },
        "counts": asdict(result.ever),
        "precision": rate_as_json(result.ever.precision),
        "f1": _f1(result.ever),
        "f1_by_group": interval_as_json(result.f1, True),
        "recall_by_group": interval_as_json(result.recall, True),
        "fpr_by_group": interval_as_json(result.false_positive_rate, True),
        "auc_by_group": interval_as_json(result.auc_clustered),
        "auc_se": _error(result.auc),
        "final": {
            "counts": asdict(result.final),
            "recall": rate_as_json(result.final.recall),
            "fpr": rate_as_json(result.final.false_positive_rate),
        },
        "recall_at": [_recall_at(one) for one in result.recall_at],
        "first_flag": None
        if flag is None
        else {
            "median": flag.median,
            "quartiles": list(flag.quartiles),
            "median_of_caught": flag.median_of_caught,
            "lead": None if flag.lead is None else list(flag.lead),
            "turns": list(flag.survival.turns),
            "undetected": list(flag.survival.undetected),
        },
        "mean_turn": interval_as_json(result.delay, True),
        "mean_turn_horizon": result.horizon,
        "alarms_per_thousand_benign_turns": {
            "value": finite(result.alarms.per_thousand),
            "ci": [finite(result.alarms.low), finite(result.alarms.high)],
            "conditions_on_threshold": True,
            "alarms": result.alarms.alarms,
            "turns": result.alarms.turns,
            "method": result.alarms.method,
        },
        "missing": {
            "attacks": rate_as_json(result.missing.attacks, False),
            "benign": rate_as_json(result.missing.benign, False),
            "turns": rate_as_json(result.missing.turns, False),
            **{
                name: {
                    bound: rate_as_json(getattr(getattr(result.missing, name), bound))
                    for bound in ("none_flagged", "all_flagged")
                }
                for name in ("recall", "false_positive_rate")
            },
        },
        "latency_ms": result.latency_ms,
    }


def _f1(counts: Confusion) -> dict[str, Any]:
    around = counts.f1_interval
    return {
        "value": counts.f1,
        "ci": None if around is None else list(around),
        "conditions_on_threshold": True,
    }


def _error(auc: Auc | None) -> float | None:
    return None if auc is None else auc.standard_error


def _recall_at(one: RecallAt) -> dict[str, Any]:
    return {
        "rate": one.rate,
        "threshold": finite(one.threshold),
        "recall": None if one.recall is None else rate_as_json(one.recall),
        "by_group": interval_as_json(one.interval),
        "reason": one.reason,
    }


def _checks(checks: Checks) -> dict[str, Any]:
    moved = checks.reordered
    return {
        "order_shuffle": {
            name: {
                "attacks": interval_as_json(one.attacks, True),
                "benign": interval_as_json(one.benign, True),
                "conversations": one.conversations,
                "left_out": one.left_out,
                "permutations": one.repeats,
            }
            for name, one in checks.shuffles.items()
        },
        "turns_reordered": None
        if moved is None
        else {
            name: rate_as_json(getattr(moved, name))
            for name in ("attacks", "benign", "caught_before", "caught_after")
        },
        "length_matched": {name: _lengths(one) for name, one in checks.lengths.items()},
        "threshold_transfer": [_transfer(one) for one in checks.transfer],
        "leave_one_source_out": [_transfer(one) for one in checks.left_out],
        "label_noise": [asdict(one) for one in checks.noise],
        "panel_agreement": [
            {
                "first": one.first,
                "second": one.second,
                "component": one.component,
                "alpha": interval_as_json(one.alpha),
                "units": one.units,
            }
            for one in checks.panel
        ],
        "repeats_agreement": [
            {
                "run": one.run,
                "component": one.component,
                "icc": finite(one.icc.value),
                "ci": [finite(one.icc.low), finite(one.icc.high)],
                "conditions_on_threshold": False,
                "units": one.icc.units,
                "repeats": one.icc.repeats,
            }
            for one in checks.repeats
        ],
    }


def _lengths(one: LengthMatched) -> dict[str, Any]:
    return {
        "recall": rate_as_json(one.counts.recall),
        "fpr": rate_as_json(one.counts.false_positive_rate),
        "auc": one.auc,
        "auc_all": one.auc_all,
        "left_out": one.left_out,
        "reason": one.reason,
    }


def _transfer(one: Transfer) -> dict[str, Any]:
    return {
        "set_on": one.set_on,
        "used_on": one.used_on,
        "threshold": finite(one.threshold),
        "recall": None if one.recall is None else rate_as_json(one.recall),
        "fpr": None if one.false_positive_rate is None else rate_as_json(one.false_positive_rate),
        "reason": one.reason,
    }
