from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.detectors import build_detector, run_detector
from turnwise.errors import DetectorError
from turnwise.scoring import Score, TurnScores

points = st.lists(
    st.tuples(st.integers(1, 500), st.floats(0, 1)), unique_by=lambda point: point[0], max_size=40
).map(sorted)


def scores_of(detector, pairs):
    turns = [TurnScores(turn, {"reciprocity": Score(0.5, 0.2, F)}) for turn, F in pairs]
    return run_detector(detector, turns).signals


@given(pairs=points)
def test_it_is_the_least_squares_slope_over_all_turns_so_far(pairs):
    for k, signal in enumerate(scores_of(build_detector("slope"), pairs), start=1):
        if k < 3:
            assert (signal.score, signal.contributions) == (0.0, {})
        else:
            expected = statistics.linear_regression(*zip(*pairs[:k], strict=True)).slope
            assert signal.score == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(pairs=points, window=st.integers(2, 8))
def test_a_window_keeps_the_last_evaluated_turns(pairs, window):
    for k, signal in enumerate(scores_of(build_detector(f"slope:window={window},min_turns=2"), pairs), start=1):
        if k >= 2:
            expected = statistics.linear_regression(*zip(*pairs[:k][-window:], strict=True)).slope
            assert signal.score == pytest.approx(expected, rel=1e-9, abs=1e-8)


def test_it_stays_exact_over_a_long_conversation():
    pairs = [(turn, (turn % 10) / 10) for turn in range(1, 10_001)]
    expected = statistics.linear_regression(*zip(*pairs, strict=True)).slope
    assert scores_of(build_detector("slope"), pairs)[-1].score == pytest.approx(expected, rel=1e-6)


def test_turn_numbers_count_not_positions():
    assert scores_of(build_detector("slope"), [(1, 0.0), (5, 0.4), (9, 0.8)])[-1].score == pytest.approx(0.1)


@pytest.mark.parametrize(("limit", "fires"), [(0.25, True), (math.nextafter(0.25, 1), False)])
def test_it_fires_from_the_limit_on(limit, fires):
    assert scores_of(build_detector(f"slope:limit={limit}"), [(1, 0.0), (2, 0.25), (3, 0.5)])[-1].fired is fires


def test_it_does_not_fire_on_the_way_down():
    signals = scores_of(build_detector("slope:limit=0.05"), [(1, 1.0), (2, 0.7), (3, 0.3), (4, 0.0)])
    assert not signals[-1].fired
    assert signals[-1].score < -0.3


def test_constant_scores_have_slope_zero_exactly():
    signals = scores_of(build_detector("slope"), [(turn, 0.3) for turn in range(1, 30)])
    assert {signal.score for signal in signals} == {0.0}
    assert signals[-1].reason == "reciprocity slope of F 0.000 < 0.100 at turn 29"


def test_the_reason_says_that_too_few_turns_were_evaluated():
    signals = scores_of(build_detector("slope:min_turns=4"), [(1, 0.0), (2, 0.5), (3, 1.0), (4, 1.0)])
    assert signals[2].reason == "no principle was evaluated at 4 turns up to turn 3"
    assert signals[3].fired


def test_a_rise_that_is_over_leaves_a_window(make_turns):
    rise_then_flat = [0.0, 0.4, 0.8, *[0.8] * 8]
    last = run_detector(build_detector("slope:window=4"), make_turns(reciprocity=rise_then_flat)).signals[-1]
    assert (last.score, last.active, last.fired, last.turn) == (0.0, False, True, 3)


def test_a_turn_that_is_given_twice_divides_nothing_by_zero():
    signals = scores_of(build_detector("slope:min_turns=2"), [(1, 0.0), (1, 1.0), (2, 1.0)])
    assert (signals[1].score, signals[1].fired) == (0.0, False)
    assert signals[2].fired


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"limit": math.nan}, "limit must be a number"),
        ({"limit": -math.inf}, "limit must be a number"),
        ({"min_turns": 1}, "min_turns must be a whole number of at least 2, not 1"),
        ({"min_turns": 2.5}, "min_turns must be a whole number"),
        ({"window": 1}, "window must be a whole number of at least 2"),
        ({"window": True}, "window must be a whole number"),
        ({"window": 3, "min_turns": 4}, "window=3 never holds min_turns=4 turns; widen the window"),
    ],
)
def test_a_parameter_out_of_range_is_an_error(parameters, message):
    with pytest.raises(DetectorError, match=message):
        build_detector({"detector": "slope", **parameters})
