"""Tests without a statistics library: the same p-values as one gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from turnwise.rates import Rate
from turnwise.study.stats import fisher_exact, rank_sum, sign_test

counts = st.integers(0, 300)
samples = st.lists(st.integers(0, 12).map(lambda value: value / 12), min_size=1, max_size=60)


@given(more=counts, less=counts)
def test_the_sign_test_is_the_exact_binomial_one(more, less):
    expected = stats.binomtest(more, more + less, 0.5).pvalue if more + less else 1.0
    assert sign_test(more, less) == pytest.approx(expected, rel=1e-9)


@given(data=st.data())
def test_fishers_test_is_that_of_scipy(data):
    first, second = (Rate(data.draw(st.integers(0, of)), of) for of in (data.draw(counts), data.draw(counts)))
    table = [[rate.count, rate.of - rate.count] for rate in (first, second)]
    expected = stats.fisher_exact(table).pvalue if first.of and second.of else 1.0
    assert fisher_exact(first, second) == pytest.approx(expected, rel=1e-6)


@given(first=samples, second=samples)
def test_the_rank_sum_test_is_that_of_scipy(first, second):
    found = rank_sum(first, second)
    if len({*first, *second}) == 1:
        assert found == 1.0
    else:
        expected = stats.mannwhitneyu(first, second, method="asymptotic", use_continuity=True).pvalue
        assert found == pytest.approx(expected, rel=1e-9)


def test_many_are_no_trouble_and_none_says_nothing():
    assert sign_test(15_000, 15_000) == 1.0
    assert 0 <= sign_test(0, 30_000) < 1e-300
    assert fisher_exact(Rate(5_000, 10_000), Rate(5_600, 10_000)) == pytest.approx(
        stats.fisher_exact([[5_000, 5_000], [5_600, 4_400]]).pvalue, rel=1e-6
    )
    assert rank_sum([], [0.5]) == 1.0
    assert fisher_exact(Rate(0, 0), Rate(3, 4)) == 1.0
