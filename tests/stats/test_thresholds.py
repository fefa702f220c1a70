"""Thresholds that keep a false-positive rate, and what is caught and wrongly flagged at them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi2
from sklearn.metrics import f1_score

from turnwise.errors import UnknownNameError, UsageError
from turnwise.stats import Judged, false_alarms, recall_at, resamples, threshold_for_f1, weighted_thresholds
from turnwise.study import needed_benign, threshold_for, tune

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


def test_without_evidence_there_is_no_threshold_for_f1(make_examples):
    silent = [replace(one, turns=()) for one in make_examples(attacks=10, benign=20)]
    with pytest.raises(UsageError, match="needs evidence, and no conversation has any"):
        tune("cusum", silent, objective="f1")


scores = st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.4, 0.7]) | st.floats(-5, 5), min_size=30, max_size=120)


@given(values=scores, alpha=st.sampled_from([0.05, 0.1, 0.3]))
def test_the_expected_rate_is_kept_and_no_lower_threshold_would_do(values, alpha):
    limit = threshold_for(values, alpha)
    above = sum(value >= limit for value in values)
    assert (above + 1) / (len(values) + 1) <= alpha + 1e-12
    below = max(value for value in values if value < limit)
    with_next = sum(value >= below for value in values)
    assert (with_next + 1) / (len(values) + 1) > alpha
    assert limit not in values


@given(values=st.lists(st.floats(0, 1), min_size=60, max_size=90))
def test_with_confidence_the_exact_bound_is_kept(values):
    limit = threshold_for(values, 0.1, 0.95)
    above = sum(value >= limit for value in values)
    assert binom.cdf(above, len(values), 0.1) <= 0.05
    below = max(value for value in values if value < limit)
    assert binom.cdf(sum(value >= below for value in values), len(values), 0.1) > 0.05 or above == 0


@pytest.mark.parametrize(
    ("alpha", "confidence", "needed"), [(0.01, 0.95, 299), (0.05, 0.95, 59), (0.001, 0.99, 4603)]
)
def test_the_needed_number_is_the_least_that_can_do(alpha, confidence, needed):
    assert needed_benign(alpha, confidence) == needed
    assert (1 - alpha) ** needed <= 1 - confidence < (1 - alpha) ** (needed - 1)
    assert math.isfinite(threshold_for([0.2] * needed, alpha, confidence))


def test_too_few_conversations_are_refused_with_the_number_that_would_do():
    with pytest.raises(UsageError, match=r"98 benign conversations are too few .* 0\.01: at least 99 are needed"):
        threshold_for([0.1] * 98, 0.01)
    assert threshold_for([0.1] * 99, 0.01) > 0.1


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 2])
def test_a_rate_lies_between_0_and_1(alpha):
    with pytest.raises(UsageError, match="alpha must lie in"):
        threshold_for([0.1] * 200, alpha)
    with pytest.raises(UsageError, match="confidence must lie in"):
        threshold_for([0.1] * 200, 0.1, alpha)


def study(benign=400, attacks=60, alarms=0):
    rng = np.random.default_rng(4)
    judged = [Judged(f"b{n}", f"b{n}", False, 5, float(rng.normal()), alarms=n < alarms) for n in range(benign)]
    return judged + [Judged(f"a{n}", f"a{n // 2}", True, 5, float(rng.normal(2))) for n in range(attacks)]


def drawn_from(judged):
    rng = np.random.default_rng(0)
    return resamples([one.group for one in judged], [one.attack for one in judged], rng, 300)


def test_the_threshold_keeps_the_rate_and_the_interval_holds_for_its_choice():
    judged = study()
    found = recall_at(judged, 0.01, drawn_from(judged))
    flagged = sum(one.score >= found.threshold for one in judged if not one.attack)
    assert (flagged + 1) / 401 <= 0.01
    assert found.recall.count == sum(one.score >= found.threshold for one in judged if one.attack)
    assert found.by_group.low < found.recall.count / 60 < found.by_group.high
    fixed = found.recall.interval
    assert found.by_group.value == pytest.approx(found.recall.count / 60)
    assert found.by_group.high - found.by_group.low > fixed[1] - fixed[0]


def test_too_few_for_recall_at_a_rate_give_a_reason_and_no_number():
    judged = study()
    found = recall_at(judged, 0.001, drawn_from(judged))
    assert (found.threshold, found.recall, found.by_group) == (None, None, None)
    assert found.reason.startswith("400 benign conversations are too few")
    assert "999 are needed" in found.reason
    assert recall_at([one for one in judged if not one.attack], 0.01).reason == "there is no evaluated attack"
    with pytest.raises(UsageError, match=r"must lie in \(0, 1\)"):
        recall_at(judged, 0.0)


def test_false_alarms_are_counted_by_turn():
    judged = study(alarms=12)
    found = false_alarms(judged, drawn_from(judged))
    assert (found.alarms, found.turns, found.value) == (12, 2000, pytest.approx(6.0))
    assert found.low < 6.0 < found.high
    assert found.method == "percentile"


def test_without_alarms_the_limit_is_poissons():
    judged = study()
    found = false_alarms(judged, drawn_from(judged))
    assert found.method == "Poisson"
    assert found.high == pytest.approx(1000 * chi2.ppf(0.975, 2) / 2 / 2000, abs=1e-12)
    nothing = [one for one in judged if one.attack]
    assert false_alarms(nothing, drawn_from(nothing)).value is None
    assert math.isfinite(found.high)


@given(
    values=st.lists(st.sampled_from([-math.inf, -0.5, 0.2, 0.6]), min_size=30, max_size=60),
    alpha=st.sampled_from([0.05, 0.3, 0.7]),
)
def test_no_threshold_flags_what_has_no_evidence(values, alpha):
    limit = threshold_for(values, alpha)
    assert math.isfinite(limit)
    assert (sum(value >= limit for value in values) + 1) / (len(values) + 1) <= alpha + 1e-12
    falling = np.array(sorted(values, reverse=True))
    weighted = weighted_thresholds(falling, np.ones((len(values), 1)), np.array([float(len(values))]), alpha)
    assert weighted[0] == limit


def test_without_any_evidence_the_threshold_lies_just_above_0():
    assert 0 < threshold_for([-math.inf] * 30, 0.1) < 1e-5
