"""P-values against enumeration and a statistics library, and Holm's correction."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as oracle
from statsmodels.stats.multitest import multipletests

from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.stats import fisher_exact, rank_sum, sign_flip, sign_test
from turnwise.study import holm, mcnemar

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


verdicts = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)


@given(pairs=verdicts)
def test_the_p_value_is_that_of_statsmodels(pairs):
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    found = mcnemar(first, second)
    table = [[sum((one, other) == (x, y) for one, other in pairs) for y in (True, False)] for x in (True, False)]
    assert (found.a_alone, found.b_alone) == (table[0][1], table[1][0])
    assert found.p == pytest.approx(min(1.0, oracle(table, exact=True).pvalue), abs=1e-12)
    assert found.pairs == len(pairs)


@given(pairs=verdicts)
def test_the_test_does_not_care_which_detector_comes_first(pairs):
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    one, other = mcnemar(first, second), mcnemar(second, first)
    assert (one.a_alone, one.b_alone, one.p) == (other.b_alone, other.a_alone, other.p)


@given(pairs=verdicts)
def test_groups_of_one_give_the_ordinary_test(pairs):
    net = [int(other) - int(one) for one, other in pairs]
    found = mcnemar([one for one, _ in pairs], [other for _, other in pairs])
    assert sign_flip(net) == pytest.approx(found.p, abs=1e-12)


@settings(max_examples=25)
@given(net=st.lists(st.integers(-4, 4), max_size=9))
def test_the_sign_flip_is_the_count_over_all_signs(net):
    sums = [
        sum(s * d for s, d in zip(signs, net, strict=True))
        for signs in itertools.product((1, -1), repeat=len(net))
    ]
    expected = sum(abs(total) >= abs(sum(net)) for total in sums) / len(sums)
    assert sign_flip(net) == pytest.approx(expected, abs=1e-12)


def test_a_group_counts_once_however_many_conversations_it_has():
    found = mcnemar([False] * 20, [True] * 20, ["only one goal"] * 20)
    assert found.p < 1e-5
    assert found.p_group == 1.0


def test_detectors_that_never_differ_have_p_1():
    found = mcnemar([True, False], [True, False], ["x", "x"])
    assert (found.a_alone, found.b_alone, found.p, found.p_group) == (0, 0, 1.0, 1.0)
    assert mcnemar([], []).p == 1.0


@pytest.mark.parametrize("groups", [None, ["x"]])
def test_verdicts_must_be_paired(groups):
    with pytest.raises(UsageError, match="for every conversation"):
        mcnemar([True, False], [True] if groups is None else [True, False], groups)


@pytest.mark.parametrize("number", range(6))
def test_the_correction_agrees_with_statsmodels(number):
    """Few families: the other library collects garbage at every call."""
    generator = random.Random(number)
    values = [generator.choice([0.0, 0.01, 0.05, 1.0, generator.random()]) for _ in range(1 + 3 * number)]
    assert holm(values) == pytest.approx(multipletests(values, method="holm")[1], abs=1e-12)


@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=15))
def test_a_correction_lowers_no_value_and_keeps_their_order(values):
    corrected = holm(values)
    assert all(value <= other <= 1 for value, other in zip(values, corrected, strict=True))
    assert all(
        corrected[a] <= corrected[b]
        for a in range(len(values))
        for b in range(len(values))
        if values[a] < values[b]
    )


def test_nothing_tested_is_nothing_adjusted():
    assert holm([]) == ()


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_p_value_is_a_probability(value):
    with pytest.raises(UsageError, match="a p-value must lie in"):
        holm([0.5, value])
