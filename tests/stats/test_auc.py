from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, mannwhitneyu
from sklearn.metrics import roc_auc_score

from turnwise.errors import UsageError
from turnwise.rates import clopper_pearson
from turnwise.stats import auc_covariance, auc_with_interval, delong_test

scores = st.lists(st.integers(0, 6).map(float) | st.floats(-3, 3), min_size=2, max_size=25)

OVARIAN = """
3.0 5.8 10 0  3.2 6.3 5 1  3.9 6.8 3 1  2.8 4.8 6 0  3.2 5.8 3 1  0.9 4.0 5 0  2.5 5.7 8 0  1.6 5.6 5 1
3.8 5.7 5 1  3.7 6.7 6 1  3.2 5.4 4 1  3.8 6.6 6 1  4.1 6.6 5 1  3.6 5.7 5 1  4.3 7.0 4 1  3.6 6.7 4 0
2.3 4.4 6 1  4.2 7.6 4 0  4.0 6.6 6 0  3.5 5.8 6 1  3.8 6.8 7 1  3.0 4.7 8 0  4.5 7.4 5 1  3.7 7.4 5 1
3.1 6.6 6 1  4.1 8.2 6 1  4.3 7.0 5 1  4.3 6.5 4 1  3.2 5.1 5 1  2.6 4.7 6 1  3.3 6.8 6 0  1.7 4.0 7 0
3.7 6.1 5 1  3.3 6.3 7 1  4.2 7.7 6 1  3.5 6.2 5 1  2.9 5.7 9 0  2.1 4.8 7 1  2.8 6.2 8 0  4.0 7.0 7 1
3.3 5.7 6 1  3.7 6.9 5 1  3.6 6.6 5 1
"""
"""Albumin, total protein, K-G score and outcome of the 43 complete cases in E. R. DeLong, D. M. DeLong and D. L.
Clarke-Pearson, Biometrics 44 (1988)."""


def brute_force(attack, benign):
    """Return areas and covariances by comparing every pair, as the paper writes them."""
    above, below = [], []
    for x, y in zip(attack, benign, strict=True):
        wins = np.sign(np.subtract.outer(np.array(x), np.array(y))) / 2 + 0.5
        above.append(wins.mean(axis=1))
        below.append(wins.mean(axis=0))
    covariance = np.cov(above) / len(attack[0]) + np.cov(below) / len(benign[0])
    return [row.mean() for row in above], np.atleast_2d(covariance)


@settings(max_examples=25)
@given(attack=scores, benign=scores)
def test_area_and_variance_are_those_of_all_pairs(attack, benign):
    values, covariance = auc_covariance([attack], [benign])
    expected, variance = brute_force([attack], [benign])
    assert values == pytest.approx(expected, abs=1e-12)
    assert covariance == pytest.approx(variance, abs=1e-12)
    labels = [1] * len(attack) + [0] * len(benign)
    assert values[0] == pytest.approx(roc_auc_score(labels, attack + benign), abs=1e-12)
    u = mannwhitneyu(attack, benign).statistic
    assert values[0] == pytest.approx(u / (len(attack) * len(benign)), abs=1e-12)


@settings(max_examples=25)
@given(rows=st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.floats(0, 4)), min_size=8, max_size=40))
def test_covariances_are_those_of_all_pairs(rows):
    rows += [(True, 1, 1.0), (True, 2, 0.5), (False, 0, 0.0), (False, 3, 1.0)]
    attack, benign = ([[row[k] for row in rows if row[0] is label] for k in (1, 2)] for label in (True, False))
    values, covariance = auc_covariance(attack, benign)
    expected, by_pairs = brute_force(attack, benign)
    assert values == pytest.approx(expected, abs=1e-12)
    assert covariance == pytest.approx(by_pairs, abs=1e-12)


@settings(max_examples=25)
@given(attack=scores, benign=scores)
def test_turning_the_scores_round_turns_the_area_round(attack, benign):
    there = auc_with_interval(attack, benign)
    back = auc_with_interval([-score for score in attack], [-score for score in benign])
    assert back.value == pytest.approx(1 - there.value, abs=1e-12)
    assert (back.low, back.high) == pytest.approx((1 - there.high, 1 - there.low), abs=1e-9)
    assert 0 <= there.low <= there.value + 1e-12
    assert there.value - 1e-12 <= there.high <= 1


def test_the_published_example_of_three_tests():
    table = np.array(OVARIAN.split(), dtype=float).reshape(-1, 4)
    columns = [table[:, 0], table[:, 1], 10 - table[:, 2]]
    benefit = table[:, 3] == 1
    values, covariance = auc_covariance([c[benefit] for c in columns], [c[~benefit] for c in columns])
    assert [round(float(value), 4) for value in values[1:]] == [0.6478, 0.7258]
    assert [round(float(error), 4) for error in np.sqrt(np.diag(covariance))[1:]] == [0.1000, 0.1028]
    contrast = np.array([[1.0, 0, -1], [0, 1, -1]])
    gap = contrast @ values
    statistic = gap @ np.linalg.solve(contrast @ covariance @ contrast.T, gap)
    assert round(float(statistic), 4) == 2.5340
    assert round(float(chi2.sf(statistic, 2)), 4) == 0.2817
    test = delong_test((columns[2][benefit], columns[1][benefit]), (columns[2][~benefit], columns[1][~benefit]))
    assert (round(test.difference, 4), round(test.p, 4)) == (-0.0780, 0.4561)
    assert test.low < 0 < test.high


def test_the_published_example_of_ratings():
    # 109 images rated 1 to 5 in J. A. Hanley and B. J. McNeil, Radiology 143 (1982); interval as in Stata.
    normal = np.repeat([1, 2, 3, 4, 5], [33, 6, 6, 11, 2])
    abnormal = np.repeat([1, 2, 3, 4, 5], [3, 2, 2, 11, 33])
    found = auc_with_interval(abnormal, normal, scale="plain")
    assert round(found.value, 4) == 0.8932
    assert round(found.se, 4) == 0.0307
    assert (round(found.low, 5), round(found.high, 5)) == (0.83295, 0.95339)
    logit = auc_with_interval(abnormal, normal)
    assert logit.low < found.low
    assert logit.high < found.high
    assert (logit.attacks, logit.benign) == (51, 58)


def test_scores_that_separate_the_labels_still_leave_doubt():
    perfect = auc_with_interval([3.0] * 30, [1.0] * 50)
    assert (perfect.value, perfect.se, perfect.high) == (1.0, 0.0, 1.0)
    assert perfect.low == clopper_pearson(30, 30)[0]
    reversed_ = auc_with_interval([1.0] * 30, [3.0] * 50)
    assert (reversed_.low, reversed_.high) == clopper_pearson(0, 30)
    constant = auc_with_interval([2.0] * 4, [2.0] * 4)
    assert constant.value == 0.5
    assert constant.low < 0.1
    assert constant.high > 0.9


def test_detectors_with_the_same_scores_have_p_1():
    same = delong_test(([1, 5, 4], [1, 5, 4]), ([0, 2, 4.5], [0, 2, 4.5]))
    assert (same.difference, same.z, same.p) == (0.0, 0.0, 1.0)
    sure = delong_test(([1, 1, 1], [3, 3, 3]), ([2, 2], [2, 2]))
    assert (sure.difference, sure.p) == (1.0, 0.0)


def test_areas_refuse_what_they_can_not_use():
    with pytest.raises(UsageError, match="at least 2 attacks and 2 benign conversations, not 1 and 3"):
        auc_with_interval([1.0], [1.0, 2.0, 3.0])
    with pytest.raises(UsageError, match="not a number"):
        auc_with_interval([1.0, float("nan")], [1.0, 2.0])
    with pytest.raises(UsageError, match="one score a conversation"):
        delong_test(([1.0, 2.0], [1.0]), ([1.0, 2.0], [1.0, 2.0]))
