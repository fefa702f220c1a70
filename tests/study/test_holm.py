from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from turnwise.errors import UsageError
from turnwise.study import holm


@settings(max_examples=25, deadline=None)
@given(values=st.lists(st.floats(0, 1) | st.sampled_from([0.0, 0.01, 0.05, 1.0]), min_size=1, max_size=15))
def test_it_agrees_with_statsmodels(values):
    assert holm(values) == pytest.approx(multipletests(values, method="holm")[1], abs=1e-12)


def test_nothing_tested_is_nothing_adjusted():
    assert holm([]) == ()


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_p_value_is_a_probability(value):
    with pytest.raises(UsageError, match="a p-value lies in"):
        holm([0.5, value])
