from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from turnwise.errors import UsageError
from turnwise.study import holm


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
