"""Slopes, and the recurrence of trust against the values recorded for twenty conversations."""

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
def test_slope_fires_from_the_limit_on(limit, fires):
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


# Recorded balances and trust values of ten attacks and ten benign conversations of three turns. A balance of
# -1.0 was given where F exceeded 0.65 (trust strength 0.3); everywhere else the trust strength was 1.0.
RECORDED = {
    "attack_01": ([-0.05, -1.0, -1.0], [0.65, 0.545, 0.4715]),
    "attack_02": ([0.6, -0.2, -1.0], [0.65, 0.755, 0.6185]),
    "attack_03": ([0.75, 0.7, -1.0], [0.65, 0.755, 0.6185]),
    "attack_04": ([-1.0, -0.2, -1.0], [0.44, 0.608, 0.5156]),
    "attack_05": ([0.6, -0.25, 0.7], [0.65, 0.755, 0.8285]),
    "attack_06": ([0.75, -1.0, -1.0], [0.65, 0.545, 0.4715]),
    "attack_07": ([0.6, -1.0, -1.0], [0.65, 0.545, 0.4715]),
    "attack_08": ([0.7, 0.6, -1.0], [0.65, 0.755, 0.6185]),
    "attack_09": ([0.65, -1.0, -1.0], [0.65, 0.545, 0.4715]),
    "attack_10": ([0.7, -1.0, -1.0], [0.65, 0.545, 0.4715]),
    "benign_01": ([0.8, 0.8, 0.8], [0.65, 0.755, 0.8285]),
    "benign_02": ([-0.05, 0.6, -1.0], [0.65, 0.755, 0.6185]),
    "benign_03": ([0.75, 0.7, 0.8], [0.65, 0.755, 0.8285]),
    "benign_04": ([0.7, 0.7, -1.0], [0.65, 0.755, 0.6185]),
    "benign_05": ([0.7, -1.0, 0.7], [0.65, 0.545, 0.6815]),
    "benign_06": ([0.7, 0.6, 0.7], [0.65, 0.755, 0.8285]),
    "benign_07": ([0.7, 0.7, 0.7], [0.65, 0.755, 0.8285]),
    "benign_08": ([0.8, 0.7, 0.8], [0.65, 0.755, 0.8285]),
    "benign_09": ([0.7, 0.6, 0.7], [0.65, 0.755, 0.8285]),
    "benign_10": ([0.8, 0.7, 0.75], [0.65, 0.755, 0.8285]),
}
CALM, HOSTILE = 0.1, 0.9


def signals_of(conversation: str):
    balances, _ = RECORDED[conversation]
    turns = [
        TurnScores(number, {"reciprocity": Score(0.5, 0.3, HOSTILE if balance == -1.0 else CALM)}, length=300)
        for number, balance in enumerate(balances, start=1)
    ]
    return run_detector(build_detector("trust_ema"), turns).signals


@pytest.mark.shows("SESSION-2", "SESSION-7")
@pytest.mark.parametrize("conversation", RECORDED)
def test_it_reproduces_the_recorded_trust(conversation):
    trust = [1 - signal.score for signal in signals_of(conversation)]
    assert trust == pytest.approx(RECORDED[conversation][1], abs=1e-9)


def test_it_reproduces_how_many_of_the_recorded_conversations_fall_below_the_limit():
    at_the_end = [name for name in RECORDED if signals_of(name)[-1].active]
    at_any_turn = [name for name in RECORDED if signals_of(name)[-1].fired]
    assert [name for name in at_the_end if name.startswith("benign")] == []
    assert [name for name in at_any_turn if name.startswith("benign")] == ["benign_05"]
    attacks = ["attack_01", "attack_04", "attack_06", "attack_07", "attack_09", "attack_10"]
    assert [name for name in at_the_end if name.startswith("attack")] == attacks
    assert [name for name in at_any_turn if name.startswith("attack")] == attacks


def test_trust_is_kept_by_principle_and_the_least_of_them_counts(make_turns):
    signals = run_detector(
        build_detector("trust_ema"), make_turns(reciprocity=[0.1, 0.1], context_integrity=[0.9, 0.9])
    ).signals
    assert signals[-1].contributions == pytest.approx({"reciprocity": 1 - 0.755, "context_integrity": 1 - 0.398})
    assert signals[-1].score == pytest.approx(1 - 0.398)
    assert signals[-1].reason == "context_integrity trust 0.398 < 0.600 at turn 2"


def test_the_start_alone_never_fires(make_turns):
    signals = run_detector(
        build_detector("trust_ema:initial=0.5,limit=0.6"), make_turns(reciprocity=[None, CALM])
    ).signals
    assert [signal.fired for signal in signals] == [False, False]
    assert signals[0].score == 0.0


def test_a_gap_leaves_the_trust_of_that_principle_alone(make_turns):
    signals = run_detector(
        build_detector("trust_ema"), make_turns(reciprocity=[0.9, None], context_integrity=[0.1, 0.1])
    ).signals
    assert signals[1].contributions["reciprocity"] == signals[0].contributions["reciprocity"]
    assert signals[1].active


def test_a_long_text_with_half_falsity_costs_trust(make_turns):
    short = run_detector(build_detector("trust_ema"), make_turns(length=5_000, reciprocity=[0.6])).score
    long = run_detector(build_detector("trust_ema"), make_turns(length=5_001, reciprocity=[0.6])).score
    assert (1 - short, 1 - long) == pytest.approx((0.65, 0.5))


@pytest.mark.parametrize(("limit", "fires"), [(0.65, False), (math.nextafter(0.65, 1), True), (0.64, False)])
def test_trust_at_the_limit_does_not_fire(make_turns, limit, fires):
    # 0.5 · 1.0 + 0.5 · 0.3 is exactly the double 0.65.
    assert 0.5 * 1.0 + 0.5 * 0.3 == 0.65
    verdict = run_detector(
        build_detector(f"trust_ema:alpha=0.5,initial=0.3,limit={limit}"), make_turns(reciprocity=[CALM])
    )
    assert verdict.fired is fires


@given(threshold=st.floats(0, 1), F=st.lists(st.sampled_from([CALM, HOSTILE]), min_size=1, max_size=8))
def test_a_calibrated_threshold_cuts_the_scores_where_it_says(threshold, F):
    turns = [TurnScores(number, {"p": Score(0.5, 0.2, value)}) for number, value in enumerate(F, start=1)]
    detector = build_detector("trust_ema").with_threshold(threshold)
    assert detector.limit == 1 - threshold
    for signal in run_detector(detector, turns).signals:
        if abs(signal.score - threshold) > 1e-12:
            assert signal.active == (signal.score > threshold)


@pytest.mark.parametrize("value", [-0.1, math.nan, "half"])
def test_a_threshold_out_of_range_is_an_error(value):
    with pytest.raises(DetectorError, match="trust_ema: threshold must be"):
        build_detector("trust_ema").with_threshold(value)
