from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.duration.survfunc import SurvfuncRight

from turnwise.errors import UsageError
from turnwise.rates import clopper_pearson
from turnwise.stats import Judged, first_flag, kaplan_meier

seen = st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=2, max_size=50)


@settings(max_examples=25)
@given(rows=seen)
def test_the_curve_is_that_of_statsmodels(rows):
    turns, flagged = [turn for turn, _ in rows], [hit for _, hit in rows]
    found = kaplan_meier(turns, flagged)
    if not any(flagged):
        assert found.turns == ()
        assert found.at(99) == 1.0
        return
    oracle = SurvfuncRight(np.array(turns, dtype=float), np.array(flagged, dtype=int))
    assert list(found.turns) == list(oracle.surv_times)
    assert list(found.at_risk) == list(oracle.n_risk)
    assert list(found.flagged) == list(oracle.n_events)
    assert list(found.undetected) == pytest.approx(list(oracle.surv_prob), abs=1e-12)
    assert found.caught == sum(flagged)


@settings(max_examples=25)
@given(rows=seen)
def test_the_curve_falls_and_lies_within_its_interval(rows):
    found = kaplan_meier([turn for turn, _ in rows], [hit for _, hit in rows])
    shares = [1.0, *found.undetected]
    assert all(later < before for before, later in zip(shares, found.undetected, strict=False))
    for share, low, high in zip(found.undetected, found.low, found.high, strict=True):
        assert 0 <= low <= share <= high <= 1
    lower, upper = found.quartiles
    reached = [turn for turn in (lower, found.median, upper) if turn is not None]
    assert reached == sorted(reached)


def test_the_interval_is_greenwoods_on_the_log_minus_log_scale():
    found = kaplan_meier([2, 3, 3, 5, 6], [True, True, False, True, False])
    # After turn 3: 4/5 · 3/4 = 0.6; variance of log S = 1/(5·4) + 1/(4·3).
    z, error = 1.959963984540054, (1 / 20 + 1 / 12) ** 0.5
    power = np.exp(z * error / np.log(0.6))
    assert (found.low[1], found.high[1]) == pytest.approx((0.6 ** (1 / power), 0.6**power), abs=1e-12)


def test_a_curve_by_hand():
    found = kaplan_meier([1, 2, 2, 4, 4, 4], [True, True, False, True, True, True])
    assert found.undetected == pytest.approx((5 / 6, 2 / 3, 0.0))
    assert (found.at(0), found.at(1), found.at(3)) == pytest.approx((1.0, 5 / 6, 2 / 3))
    assert found.median == 4
    assert found.quartiles == (2, 4)
    assert found.high[2] == clopper_pearson(0, 3)[1]


def test_misses_are_censored_and_leads_are_of_the_caught():
    judged = [
        Judged("a", "g", True, 8, 0.9, fired=True, turn=2),
        Judged("b", "g", True, 6, 0.9, fired=True, turn=5),
        Judged("c", "g", True, 4, 0.1),
        Judged("d", "g", True, 3, 0.1),
        Judged("e", "g", True, 3, None),
        Judged("f", "g", False, 3, 0.9, fired=True, turn=1),
    ]
    found = first_flag(judged)
    assert (found.survival.attacks, found.survival.caught) == (4, 2)
    assert found.survival.undetected == pytest.approx((0.75, 0.0))
    assert found.median == 5
    assert found.median_of_caught == 3.5
    assert found.lead == (2.25, 3.5, 4.75)


def test_where_nothing_is_caught_there_is_no_median():
    found = first_flag([Judged("c", "g", True, 4, 0.1), Judged("d", "g", True, 3, 0.1)])
    assert (found.median, found.quartiles, found.median_of_caught, found.lead) == (None, (None, None), None, None)
    assert first_flag([Judged("f", "g", False, 3, 0.1)]) is None


@pytest.mark.parametrize(("turns", "flagged"), [([], []), ([1, 2], [True]), ([0], [True])])
def test_a_curve_needs_turns(turns, flagged):
    with pytest.raises(UsageError, match="from 1 on"):
        kaplan_meier(turns, flagged)
