from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from turnwise.errors import UsageError
from turnwise.study import needed_benign, threshold_for, threshold_with_confidence

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
    limit = threshold_with_confidence(values, 0.1, 0.95)
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
    assert math.isfinite(threshold_with_confidence([0.2] * needed, alpha, confidence))


def test_too_few_conversations_are_refused_with_the_number_that_would_do():
    with pytest.raises(UsageError, match=r"98 benign conversations are too few .* 0\.01: at least 99 are needed"):
        threshold_for([0.1] * 98, 0.01)
    assert threshold_for([0.1] * 99, 0.01) > 0.1


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 2])
def test_a_rate_lies_between_0_and_1(alpha):
    with pytest.raises(UsageError, match="alpha must lie in"):
        threshold_for([0.1] * 200, alpha)
    with pytest.raises(UsageError, match="confidence must lie in"):
        threshold_with_confidence([0.1] * 200, 0.1, alpha)
