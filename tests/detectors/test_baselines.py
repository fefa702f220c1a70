"""What a detector over time has to beat: single turns, the first and the last."""

from __future__ import annotations

import math

import pytest

from turnwise.detectors import build_detector, run_detector
from turnwise.errors import DetectorError


def test_the_score_is_the_highest_falsity_of_the_turn_and_of_no_other(make_turns):
    turns = make_turns(reciprocity=[0.9, 0.1, None], context_integrity=[0.2, 0.3, None])
    signals = run_detector(build_detector("any_turn"), turns).signals
    assert [signal.score for signal in signals] == [0.9, 0.3, 0.0]
    assert signals[1].contributions == {"reciprocity": 0.1, "context_integrity": 0.3}


@pytest.mark.shows("SESSION-8")
@pytest.mark.parametrize(("F", "fires"), [(0.5, True), (math.nextafter(0.5, 0), False), (0.0, False), (1.0, True)])
def test_it_fires_from_the_threshold_on(make_turns, F, fires):
    assert run_detector(build_detector("any_turn:threshold=0.5"), make_turns(reciprocity=[F])).fired is fires


def test_the_reason_of_any_turn_can_be_checked_against_the_scores(make_turns):
    verdict = run_detector(
        build_detector("any_turn"), make_turns(reciprocity=[0.1, 0.2], third_party_harm=[0.3, 0.83])
    )
    assert verdict.reason == "third_party_harm F 0.830 ≥ 0.500 at turn 2"


def test_a_calibrated_threshold_above_every_score_never_fires(make_turns):
    detector = build_detector("any_turn").with_threshold(math.nextafter(1.0, 2.0))
    assert detector.threshold == math.inf
    assert not run_detector(detector, make_turns(reciprocity=[1.0])).fired


def test_a_threshold_that_is_no_number_is_not_taken_for_never():
    with pytest.raises(DetectorError, match="nan"):
        build_detector("any_turn").with_threshold(math.nan)


def test_the_last_turn_is_judged_alone(make_turns):
    fell = run_detector(build_detector("last_turn"), make_turns(reciprocity=[0.9, 0.9, 0.1, None]))
    rose = run_detector(build_detector("last_turn"), make_turns(reciprocity=[0.9, 0.1, 0.8, None]))
    assert (fell.fired, fell.turn, fell.score) == (False, None, 0.1)
    assert (rose.fired, rose.turn, rose.score) == (True, 3, 0.8)


def test_the_first_turn_at_a_calibrated_threshold_above_every_score_never_fires(make_turns):
    detector = build_detector("first_turn").with_threshold(math.nextafter(1.0, 2.0))
    assert not run_detector(detector, make_turns(reciprocity=[1.0])).fired
