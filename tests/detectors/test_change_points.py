"""Sequential tests: CUSUM by hand and by its definition, densities, and what each must not do."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.detectors import build_detector, run_detector
from turnwise.detectors.change_points import fit_beta
from turnwise.errors import DetectorError
from turnwise.scoring import Score, TurnScores


@given(F=st.lists(st.floats(0, 1), min_size=1, max_size=30), drift=st.floats(0, 1))
def test_it_is_the_highest_excess_of_any_stretch_that_ends_now(F, drift):
    turns = [TurnScores(number, {"p": Score(0.5, 0.2, value)}) for number, value in enumerate(F, start=1)]
    for k, signal in enumerate(run_detector(build_detector(f"cusum:drift={drift}"), turns).signals, start=1):
        stretches = [sum(value - drift for value in F[j:k]) for j in range(k)]
        assert signal.score == pytest.approx(max(0.0, *stretches), abs=1e-12)


def test_page_s_scheme_by_hand(make_turns):
    turns = make_turns(reciprocity=[0.5, 0.75, 0.0, 0.0, 1.0])
    signals = run_detector(build_detector("cusum:drift=0.25,limit=0.75"), turns).signals
    assert [signal.score for signal in signals] == [0.25, 0.75, 0.5, 0.25, 1.0]
    assert [signal.active for signal in signals] == [False, True, False, False, True]
    assert [signal.fired for signal in signals] == [False, True, True, True, True]
    assert {signal.turn for signal in signals[1:]} == {2}


def test_small_steps_add_up_where_no_single_turn_is_bad(make_turns):
    verdict = run_detector(build_detector("cusum"), make_turns(reciprocity=[0.1, 0.4, 0.45, 0.45]))
    assert verdict.turn == 4
    assert verdict.reason == "reciprocity CUSUM 0.550 ≥ 0.500 at turn 4"


def test_sums_of_principles_stay_apart(make_turns):
    half = [0.4, None, 0.4]
    signals = run_detector(
        build_detector("cusum"), make_turns(reciprocity=half, third_party_harm=half[::-1])
    ).signals
    assert signals[-1].contributions == pytest.approx({"reciprocity": 0.3, "third_party_harm": 0.3})
    assert not signals[-1].fired


def test_a_gap_is_not_a_harmless_turn(make_turns):
    gap = run_detector(build_detector("cusum"), make_turns(reciprocity=[0.6, None, 0.4])).signals
    zero = run_detector(build_detector("cusum"), make_turns(reciprocity=[0.6, 0.0, 0.4])).signals
    assert gap[1].score == gap[0].score == pytest.approx(0.35)
    assert gap[2].fired
    assert not zero[2].fired


def test_a_limit_of_zero_fires_at_the_first_evaluated_turn(make_turns):
    assert run_detector(build_detector("cusum:limit=0"), make_turns(reciprocity=[None, 0.0])).turn == 2


def test_a_steady_high_f_is_no_change_for_page_hinkley(make_turns):
    assert not run_detector(build_detector("page_hinkley"), make_turns(reciprocity=[0.9] * 50)).fired


def test_the_sequential_test_starts_anew_after_a_long_harmless_stretch(make_turns):
    late = make_turns(reciprocity=[0.02] * 100 + [0.95, 0.95])
    assert run_detector(build_detector("sprt"), late).turn == 102


def test_odds_stay_finite_over_a_long_bad_conversation(make_turns):
    turns = make_turns(reciprocity=[1.0] * 2_000)
    for spec in ("shiryaev_roberts", "hmm", "sprt"):
        assert math.isfinite(run_detector(build_detector(spec), turns).score)


def test_a_fitted_density_has_the_mean_of_its_values():
    values = [0.05, 0.1, 0.2, 0.2, 0.3, 0.1, 0.05, 0.4, 0.15, 0.1]
    a, b = fit_beta(values)
    assert a / (a + b) == pytest.approx(sum(values) / len(values))


@pytest.mark.parametrize(("values", "message"), [([0.1] * 3, "too few"), ([0.1] * 30, "all the same")])
def test_a_density_needs_values_that_differ(values, message):
    with pytest.raises(DetectorError, match=message):
        fit_beta(values)
