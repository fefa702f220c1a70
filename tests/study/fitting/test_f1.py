"""Tuning for the highest F1, beside recall at a rate."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from turnwise.detectors import run_detector
from turnwise.errors import UnknownNameError, UsageError
from turnwise.study import tune
from turnwise.study.fitting.search import search
from turnwise.study.stats.thresholds import threshold_for_f1

scored = st.lists(
    st.tuples(st.booleans(), st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.6, 1.0])), min_size=1, max_size=25
)


@given(scored)
def test_no_threshold_has_a_higher_f1(rows):
    labels = [attack for attack, _ in rows]
    if not any(labels):
        with pytest.raises(UsageError, match="needs attacks"):
            threshold_for_f1(rows)
        return

    def reached(limit: float) -> float:
        return float(f1_score(labels, [score >= limit for _, score in rows], zero_division=0.0))

    best = reached(threshold_for_f1(rows))
    assert best == pytest.approx(max(reached(limit) for limit in (-1.0, 0.05, 0.2, 0.4, 0.55, 0.8, 1.0)))


@pytest.mark.parametrize("spec", ["cusum:drift=0.3", "learned"])
def test_the_threshold_of_a_tuned_detector_has_the_highest_f1(spec, make_examples):
    examples = make_examples(attacks=60, benign=90, effect=0.5)
    at_rate, for_f1 = (tune(spec, examples, 0.05, objective=objective) for objective in ("recall", "f1"))
    assert for_f1.f1 >= at_rate.f1
    assert for_f1.detector.threshold < at_rate.detector.threshold
    assert tune(spec, examples, 0.0001, objective="f1").detector == for_f1.detector  # the rate plays no part
    with pytest.raises(UnknownNameError, match="unknown objective 'f2'"):
        tune(spec, examples, objective="f2")


def test_a_search_for_f1_finds_a_higher_one(make_examples):
    train = make_examples(attacks=60, benign=90, effect=0.3)
    for_f1, at_rate = (search("cusum:drift=0.05", train, 0.05, 12, objective=name) for name in ("f1", "recall"))
    assert for_f1.after.f1 > for_f1.before.f1
    assert for_f1.after.f1 >= at_rate.after.f1
    fired = dict.fromkeys((True, False), 0)
    for example in train:
        fired[example.attack] += run_detector(for_f1.detector, example.turns).fired
    assert 2 * fired[True] / (60 + fired[True] + fired[False]) > 0.9 * for_f1.after.f1
    assert search("cusum:drift=0.05", train, 0.05, 12, objective="f1") == for_f1


def test_without_evidence_there_is_no_threshold_for_f1(make_examples):
    silent = [replace(one, turns=()) for one in make_examples(attacks=10, benign=20)]
    with pytest.raises(UsageError, match="needs evidence, and no conversation has any"):
        tune("cusum", silent, objective="f1")
    with pytest.raises(UsageError, match="needs evidence, and no conversation has any"):
        search("cusum", silent, budget=1, objective="f1")


def test_a_search_for_f1_passes_over_parameters_that_leave_no_evidence(make_examples):
    short = [replace(one, turns=one.turns[:2]) for one in make_examples(attacks=20, benign=40)]
    assert search("slope", short, budget=8, objective="f1").detector.min_turns == 2
