from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, fisher_exact

from turnwise.errors import UsageError
from turnwise.stats import DEPENDENCES, discordant
from turnwise.study import paired_power, study_size, unpaired_power

recalls = st.floats(0, 1)


@settings(max_examples=15)
@given(pairs=st.integers(1, 20), stateless=recalls, temporal=recalls, dependence=st.sampled_from(DEPENDENCES))
def test_paired_power_is_the_sum_over_all_outcomes(pairs, stateless, temporal, dependence):
    first, second = discordant(stateless, temporal, dependence)
    either = min(1.0, first + second)
    expected = 0.0
    for differing in range(1, pairs + 1):
        for count in range(differing + 1):
            if binomtest(count, differing, 0.5).pvalue <= 0.05:
                toward = second / (first + second) if either else 0.0
                expected += binom.pmf(differing, pairs, either) * binom.pmf(count, differing, toward)
    assert paired_power(pairs, stateless, temporal, dependence) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=15)
@given(arm=st.integers(1, 10), stateless=recalls, temporal=recalls)
def test_unpaired_power_is_the_sum_over_all_tables(arm, stateless, temporal):
    expected = sum(
        binom.pmf(x, arm, stateless) * binom.pmf(y, arm, temporal)
        for x, y in itertools.product(range(arm + 1), repeat=2)
        if fisher_exact([[x, arm - x], [y, arm - y]]).pvalue <= 0.05
    )
    assert unpaired_power(arm, stateless, temporal) == pytest.approx(expected, abs=1e-9)


@given(stateless=recalls, temporal=recalls)
def test_the_dependences_keep_the_recalls_and_are_in_order(stateless, temporal):
    found = {name: discordant(stateless, temporal, name) for name in DEPENDENCES}
    for first, second in found.values():
        assert second - first == pytest.approx(temporal - stateless, abs=1e-12)
    total = {name: sum(shares) for name, shares in found.items()}
    assert total["most favourable"] <= total["independent"] + 1e-12 <= total["least favourable"] + 2e-12


def test_the_size_is_the_least_that_stays_sufficient():
    size = study_size(0.4, 0.6)
    for dependence in DEPENDENCES:
        least = size.paired[dependence]
        assert paired_power(least - 1, 0.4, 0.6, dependence) < 0.8
        assert all(paired_power(least + more, 0.4, 0.6, dependence) >= 0.8 for more in range(15))
    assert unpaired_power(size.unpaired - 1, 0.4, 0.6) < 0.8 <= unpaired_power(size.unpaired, 0.4, 0.6)
    assert size.paired["most favourable"] < size.paired["independent"] < size.paired["least favourable"]
    assert size.benign == 299


def test_small_differences_need_many_and_tiny_ones_more_than_anyone_has():
    found = study_size(0.50, 0.501)
    assert found.paired["least favourable"] is None
    assert found.unpaired is None


def test_a_level_is_kept():
    assert paired_power(80, 0.5, 0.5) <= 0.05
    assert unpaired_power(40, 0.5, 0.5) <= 0.05
    assert paired_power(50, 0.0, 0.0) == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.5, 0.5), "no study can find"),
        ((0.5, 1.5), "temporal recall"),
        ((-0.1, 0.5), "stateless recall"),
        ((0.3, 0.8, 0.01), "power must lie in"),
        ((0.3, 0.8, 0.8, 0.0), "alpha must lie in"),
    ],
)
def test_a_size_needs_sensible_arguments(arguments, message):
    with pytest.raises(UsageError, match=message):
        study_size(*arguments)


def test_power_needs_sequences():
    with pytest.raises(UsageError, match="at least 1 pair"):
        paired_power(0, 0.3, 0.8)
    with pytest.raises(UsageError, match="at least 1 sequence"):
        unpaired_power(0, 0.3, 0.8)
