from __future__ import annotations

import pytest

from turnwise.detectors import Signal, ThresholdSource, Verdict, build_detector, run_detector


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
    nothing = Verdict(name, False, None, None, detector.threshold, given, "no turn was evaluated", ())
    assert run_detector(detector, []) == nothing


class Peak:
    """A detector by the letter of the protocol, without contributions."""

    name = "peak"

    def __init__(self, threshold=0.5):
        self.threshold = threshold

    def with_threshold(self, value):
        return Peak(value)

    def start(self):
        return {"first": None}

    def update(self, state, scores):
        if not scores.scores:
            return Signal.silent("nothing was evaluated", state["first"])
        score = max(one.F for one in scores.scores.values())
        if score >= self.threshold and state["first"] is None:
            state["first"] = scores.turn
        return Signal(score, state["first"] is not None, score >= self.threshold, state["first"], f"F is {score}")


def test_a_score_counts_without_contributions(make_turns):
    verdict = run_detector(Peak(), make_turns(reciprocity=[0.1, 0.9, 0.2]))
    assert (verdict.fired, verdict.turn, verdict.score) == (True, 2, 0.9)
    combined = build_detector({"detector": "any_of", "members": [Peak()]})
    assert run_detector(combined, make_turns(reciprocity=[0.1, 0.9, 0.2])).turn == 2


def test_without_evidence_there_is_no_score_and_the_verdict_says_so(make_turns):
    verdict = run_detector(build_detector("slope"), make_turns(reciprocity=[0.1, 0.9]))
    assert verdict.score is None
    assert verdict.to_dict()["score"] is None
    assert "did not fire, no evidence" in str(verdict)


def test_what_fired_stays_fired_through_a_silent_turn(make_turns):
    fired = run_detector(Peak(), make_turns(reciprocity=[0.9, None])).signals[-1]
    assert (fired.fired, fired.turn, fired.active, fired.evidence) == (True, 1, False, False)
