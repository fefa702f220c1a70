"""A study as JSON values: what ``--json`` prints, and all of it for ``results.json``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from turnwise._support.revision import versions
from turnwise.study.compare import Study
from turnwise.study.compare.settings import PARTS
from turnwise.study.report.check_tables import checks_as_json
from turnwise.study.report.columns import as_json, json_row
from turnwise.study.report.detection_tables import (
    SHORT,
    TESTS,
    detectors_as_json,
    final_tests_as_json,
    tests_as_json,
)
from turnwise.study.report.gain_tables import gain_as_json, matched_rates_as_json
from turnwise.study.report.runs import between_runs_as_json, between_runs_in_short
from turnwise.study.report.tables import cells_as_json
from turnwise.study.report.truth import truth_as_json

LIBRARIES = ("numpy", "scipy", "altair", "vl-convert-python")
"""Packages whose versions a result depends on."""

SHORT_TEST = ("a", "b", "a_alone", "b_alone", "p", "p_holm", "conditions_on_threshold")
"""What the short form has of a test."""


def summary(study: Study) -> dict[str, Any]:
    """Return the short form: the gain over many splits, two runs, a row a detector, a row a test, the warnings."""
    found = study.gain
    tests = [json_row(TESTS, test) for test in study.tests]
    return {
        "gain": None
        if found is None
        else {"splits": found.splits, "followed": dict(found.followed), **as_json(found.overall)},
        "between_runs": between_runs_in_short(study),
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
        "gain": gain_as_json(study),
        "between_runs": between_runs_as_json(study),
        "matched_rates": matched_rates_as_json(study),
        "detectors": detectors_as_json(study),
        "tests": tests_as_json(study),
        "final_tests": final_tests_as_json(study),
        "if_missing": as_json(study.if_missing),
        "cells": cells_as_json(study),
        "truth": truth_as_json(study),
        "checks": checks_as_json(study.checks),
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
                "name": one.run.name,
                "observer": one.run.observer,
                "observer_version": one.run.observer_version,
                "context": one.run.context,
                "failed": len(one.failed),
                "unread": len(one.unread),
                "scores_sha256": one.scores_sha256,
            }
            for one in data.runs
        ],
    }
