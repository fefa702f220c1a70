from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar as oracle

from turnwise.errors import UsageError
from turnwise.study import mcnemar
from turnwise.study.stats import sign_flip

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
