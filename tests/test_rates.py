"""The intervals against scipy and statsmodels, and at their edges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from turnwise.errors import UsageError
from turnwise.rates import Rate, clopper_pearson


@given(st.integers(0, 5_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.999))
def test_agrees_with_scipy(pair: tuple[int, int], confidence: float) -> None:
    count, of = pair
    low, high = clopper_pearson(count, of, confidence)
    if of == 0:
        assert (low, high) == (0.0, 1.0)
        return
    exact = stats.binomtest(count, of).proportion_ci(confidence, method="exact")
    assert low == pytest.approx(exact.low, abs=1e-10)
    assert high == pytest.approx(exact.high, abs=1e-10)


@given(of=st.integers(1, 400), data=st.data())
def test_agrees_with_statsmodels(of: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, of))
    low, high = clopper_pearson(count, of)
    assert (low, high) == pytest.approx(proportion_confint(count, of, 0.05, method="beta"), abs=1e-12)


@pytest.mark.shows("SC-002")
def test_no_false_alarm_in_fifty_still_allows_seven_per_cent() -> None:
    assert str(Rate(0, 50)) == "0/50 = 0.0 % [0.0, 7.1]"


def test_a_rate_of_nothing_has_no_percentage() -> None:
    assert str(Rate(0, 0)) == "0/0"


@pytest.mark.parametrize(("count", "of", "confidence"), [(-1, 5, 0.95), (6, 5, 0.95), (1, 5, 0.0), (1, 5, 1.0)])
def test_what_is_no_proportion_is_refused(count: int, of: int, confidence: float) -> None:
    with pytest.raises(UsageError):
        clopper_pearson(count, of, confidence)
