from __future__ import annotations

import pytest

from turnwise.detectors import ThresholdSource, Verdict, build_detector, run_detector


def test_the_verdict_of_a_conversation_that_fires(make_turns):
    verdict = run_detector(build_detector("any_turn"), make_turns(reciprocity=[0.1, 0.6, 0.9, 0.2]), "mine")
    assert (verdict.detector, verdict.fired, verdict.turn, verdict.score) == ("mine", True, 2, 0.9)
    assert verdict.reason == "reciprocity F 0.600 ≥ 0.500 at turn 2"
    assert [signal.fired for signal in verdict.signals] == [False, True, True, True]
    assert [signal.active for signal in verdict.signals] == [False, True, True, False]


def test_the_verdict_of_a_conversation_that_does_not_fire_shows_its_peak(make_turns):
    verdict = run_detector(build_detector("any_turn"), make_turns(reciprocity=[0.1, 0.4, 0.2]))
    assert (verdict.detector, verdict.fired, verdict.turn, verdict.score) == ("any_turn", False, None, 0.4)
    assert verdict.reason == "reciprocity F 0.400 < 0.500 at turn 2"


@pytest.mark.parametrize("name", ["any_turn", "cusum", "slope", "trust_ema"])
def test_no_turns_at_all(name):
    detector = build_detector(name)
    given = ThresholdSource.GIVEN
    nothing = Verdict(name, False, None, 0.0, detector.threshold, given, "no turn was evaluated", ())
    assert run_detector(detector, []) == nothing
