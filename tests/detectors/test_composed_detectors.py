"""Detectors made of other detectors, and of patterns."""

from __future__ import annotations

import pytest

from turnwise.detectors import build_detector, check_detector, run_detector


def test_combinations_may_be_nested():
    inner = "k_of:k=2,members=[any_turn; cusum; trust_ema]"
    check_detector(lambda: build_detector(f"any_of:members=[{inner}; slope:window=5]"))


def test_a_combination_fires_where_its_members_do(make_turns):
    turns = make_turns(reciprocity=[0.1, 0.55, 0.3, 0.9, 0.0, 0.1])
    members = [build_detector(spec) for spec in ("any_turn", "cusum:limit=0.4", "slope:limit=0.15")]
    active = [[signal.active for signal in run_detector(member, turns).signals] for member in members]
    listed = "members=[any_turn; cusum:limit=0.4; slope:limit=0.15]"
    for spec, at_least in ((f"any_of:{listed}", 1), (f"k_of:k=2,{listed}", 2), (f"all_of:{listed}", 3)):
        signals = run_detector(build_detector(spec), turns).signals
        assert [signal.active for signal in signals] == [
            sum(column) >= at_least for column in zip(*active, strict=True)
        ], spec


def test_a_member_that_never_fires_leaves_the_others_alone(make_turns):
    turns = make_turns(reciprocity=[0.1, 0.9])
    assert run_detector(build_detector("any_of:members=[never; any_turn]"), turns).turn == 2
    assert not run_detector(build_detector("all_of:members=[never; any_turn]"), turns).fired


def test_the_reason_of_a_combination_is_that_of_its_members(make_turns):
    verdict = run_detector(build_detector("all_of:members=[any_turn; cusum]"), make_turns(reciprocity=[0.1, 0.8]))
    assert verdict.reason == (
        "reciprocity F 0.800 ≥ 0.500 at turn 2 and reciprocity CUSUM 0.550 ≥ 0.500 at turn 2"
    )


def test_members_may_be_mappings_within_a_mapping():
    nested = {"detector": "any_of", "members": ["slope", {"detector": "cusum", "limit": 0.2}]}
    assert build_detector(nested) == build_detector("any_of:members=[slope; cusum:limit=0.2]")


def test_a_pattern_is_a_detector_with_its_own_reason(make_turns):
    turns = make_turns(reciprocity=[0.1, None, 0.5, 0.2])
    detector = build_detector("pattern:delta(reciprocity.F) > 0.3")
    signals = run_detector(detector, turns).signals
    assert [signal.active for signal in signals] == [False, False, True, False]
    assert signals[0].reason == "delta(reciprocity.F) > 0.3 can't be told up to turn 1"
    assert signals[2].reason == "delta(reciprocity.F) > 0.3 holds by 0.100 at turn 3"
    assert signals[3].reason == "delta(reciprocity.F) > 0.3 fails by 0.600 at turn 4; fired at turn 3"
    assert signals[2].contributions == pytest.approx({"reciprocity": 0.1})
    stricter = run_detector(detector.with_threshold(0.2), turns)
    assert not stricter.fired
    assert stricter.reason == "delta(reciprocity.F) > 0.3 holds by 0.100, which is < 0.200 at turn 3"


def test_a_number_is_a_detector_too(make_turns):
    verdict = run_detector(build_detector("pattern:expression='peak(F)',limit=0.4"), make_turns(a=[0.1, 0.5]))
    assert (verdict.turn, verdict.score) == (2, 0.5)
    assert verdict.reason == "peak(F) is 0.500 ≥ 0.400 at turn 2"


def test_a_condition_may_hold_without_a_number_to_compare(make_turns):
    verdict = run_detector(build_detector("pattern:not at(F, 9) > 0.5"), make_turns(a=[0.1]))
    assert verdict.fired
    assert verdict.reason == "not at(F, 9) > 0.5 holds at turn 1"
