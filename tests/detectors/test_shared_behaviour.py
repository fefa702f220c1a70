"""What every detector that ships has to do, whatever it computes."""

from __future__ import annotations

import dataclasses
import json
import math
import random

import pytest
from hypothesis import given, settings
from pattern_trees import trajectories

from turnwise.detectors import (
    build_detector,
    check_detector,
    detector_names,
    format_spec,
    run_detector,
    to_mapping,
)
from turnwise.scoring import Score, TurnScores

LEARNED = "learned:weights={peak:4;slope:5;streak:1;cusum:1;volatility:0.5;divergence:1},intercept=-3,limit=1"
JUST_ONE = "any_of:members=[any_turn:threshold=0.9; cusum:limit=2]"

BY_PRINCIPLE = [
    "any_turn",
    "any_turn:threshold=0.9",
    "trust_ema",
    "trust_ema:alpha=1,initial=1,limit=0.9",
    "slope",
    "slope:window=5",
    "slope:limit=0.05,window=2,min_turns=2",
    "cusum",
    "cusum:drift=0.05,limit=2",
    "f_ema",
    "f_ema:level=inf",
    "page_hinkley",
    "page_hinkley:drift=0.1,limit=0.4",
    "sprt",
    "sprt:attack_a=4,attack_b=2,limit=2",
    "shiryaev_roberts",
    "hmm",
    "peak_accumulation",
    "boundary_testing:breakers=2,window=3",
    "count_flags",
    "last_turn",
    "pattern:slope(reciprocity.F) > 0.1 or peak(third_party_harm.F) >= 0.8 or cusum(F, drift=0.25) > 0.9",
    "pattern:expression='peak(F)',limit=0.9",
]
"""Detectors that watch each principle on its own and fire on a bad or rising one."""

SPECS = [
    *BY_PRINCIPLE,
    "first_turn",
    "never",
    "always",
    "length_only",
    "length_only:chars=1,limit=900",
    LEARNED,
    JUST_ONE,
    "all_of:members=[any_turn:threshold=0.5; cusum:limit=0.5]",
    "k_of:k=2,members=[any_turn; cusum; slope]",
    "weighted:members=[any_turn; cusum],weights=[1; 0.5]",
]

NEVER_FORGET = ("peak_accumulation", "boundary_testing", "count_flags", "pattern")
"""Detectors that a plainly bad stretch marks for good, by what they compute."""

WATCHING = [spec for spec in BY_PRINCIPLE if not spec.startswith("pattern")]
"""Those whose reason begins with the name of a principle."""

THREE = ("reciprocity", "context_integrity", "third_party_harm")

LARGEST_SESSION = 546
"""Bytes of a session as JSON, see `benchmarks/sessions.py`."""

FORGETTING = [spec for spec in BY_PRINCIPLE if not spec.startswith(NEVER_FORGET)]

HARMLESS, BAD = 0.0, 1.0


@pytest.mark.shows("FR-011")
@pytest.mark.parametrize("spec", SPECS)
def test_it_keeps_the_contract(spec):
    check_detector(lambda: build_detector(spec))


def test_the_specs_here_name_every_detector_that_ships():
    assert {spec.partition(":")[0] for spec in SPECS} == set(detector_names())


@pytest.mark.parametrize("spec", [*BY_PRINCIPLE, "first_turn", "always", "length_only", LEARNED, JUST_ONE])
@settings(max_examples=15)
@given(turns=trajectories())
def test_score_is_the_highest_contribution(spec, turns):
    for signal in run_detector(build_detector(spec), turns).signals:
        assert signal.score == max(signal.contributions.values(), default=0.0)


@pytest.mark.parametrize("spec", [*(spec for spec in WATCHING if spec != "last_turn"), "first_turn", JUST_ONE])
@settings(max_examples=15)
@given(turns=trajectories())
def test_it_fires_for_all_principles_when_and_where_it_first_fires_for_one(spec, turns):
    detector = build_detector(spec)
    together = run_detector(detector, turns)
    apart = [
        run_detector(
            detector,
            [dataclasses.replace(t, scores={n: s for n, s in t.scores.items() if n == name}) for t in turns],
        )
        for name in THREE
    ]
    first = min((verdict.turn for verdict in apart if verdict.turn is not None), default=None)
    assert together.turn == first
    assert together.fired == (first is not None)


@pytest.mark.shows("EDGE-4")
@pytest.mark.parametrize("spec", [*BY_PRINCIPLE, LEARNED, JUST_ONE])
def test_a_principle_that_falls_does_not_hide_one_that_rises(spec, make_turns):
    rising = [0.0, 0.2, 0.5, 0.8, 1.0, 1.0]
    alone = run_detector(build_detector(spec), make_turns(reciprocity=rising))
    both = run_detector(build_detector(spec), make_turns(reciprocity=rising, context_integrity=rising[::-1]))
    assert alone.fired
    assert both.fired
    assert both.turn is not None and alone.turn is not None and both.turn <= alone.turn


@pytest.mark.parametrize("spec", SPECS)
def test_scores_of_responses_are_not_read(spec):
    bad = {"reciprocity": Score(0, 0, BAD)}
    rising = [{"reciprocity": Score(0, 0, F)} for F in (0.0, 0.5, 1.0, 1.0)]
    turns = [TurnScores(n, {}, response_scores=scores) for n, scores in enumerate([bad, *rising], start=1)]
    verdict = run_detector(build_detector(spec), turns)
    assert not verdict.fired
    assert verdict.score is None


@pytest.mark.parametrize("spec", FORGETTING)
def test_it_recovers_after_a_bad_stretch_but_remembers_that_it_fired(spec, make_turns):
    F = [HARMLESS] * 3 + [BAD] * 4 + [HARMLESS] * 40
    signals = run_detector(build_detector(spec), make_turns(reciprocity=F)).signals
    last = signals[-1]
    assert any(signal.active for signal in signals)
    assert (last.active, last.fired) == (False, True)
    assert last.turn == next(signal.turn for signal in signals if signal.fired)
    assert last.reason.endswith(f"; fired at turn {last.turn}")


@pytest.mark.shows("US-1.2")
@pytest.mark.parametrize("spec", [spec for spec in SPECS if not spec.startswith(("always", "length_only"))])
def test_a_harmless_conversation_never_fires(spec, make_turns):
    verdict = run_detector(
        build_detector(spec), make_turns(reciprocity=[HARMLESS] * 30, third_party_harm=[0.05] * 30)
    )
    assert not verdict.fired
    assert verdict.turn is None


@pytest.mark.parametrize("spec", WATCHING)
def test_the_reason_names_principle_threshold_and_turn(spec, make_turns):
    turns = make_turns(reciprocity=[0.0] * 5, third_party_harm=[0.0, 0.2, 0.5, 0.8, 1.0])
    verdict = run_detector(build_detector(spec), turns)
    assert verdict.reason.startswith("third_party_harm ")
    assert verdict.reason.endswith(f" at turn {verdict.turn}")


@pytest.mark.parametrize("spec", WATCHING)
def test_equal_principles_are_told_apart_by_name_not_by_order(spec, make_turns):
    F = [0.0, 0.5, 1.0]
    one = run_detector(build_detector(spec), make_turns(b_second=F, a_first=F))
    assert one.reason.startswith("a_first ")


@pytest.mark.parametrize("spec", SPECS)
def test_nothing_evaluated_is_no_evidence_and_says_so(spec, make_turns):
    verdict = run_detector(build_detector(spec), make_turns(reciprocity=[None, None]))
    assert (verdict.fired, verdict.turn, verdict.score) == (False, None, None)
    assert verdict.reason
    assert not verdict.signals[-1].evidence


@pytest.mark.parametrize("spec", SPECS)
def test_with_threshold_gives_another_detector_and_keeps_this_one(spec):
    detector = build_detector(spec)
    before = detector.threshold
    other = detector.with_threshold(0.75)
    assert type(other) is type(detector)
    assert other.threshold == 0.75
    assert detector.threshold == before
    assert not run_detector(detector.with_threshold(math.inf), [TurnScores(1, {"p": Score(0, 0, 1)})]).fired


@pytest.mark.parametrize("spec", SPECS)
def test_another_threshold_changes_one_parameter(spec):
    detector = build_detector(spec)
    moved = detector.with_threshold(0.125)
    changed = [
        field.name
        for field in dataclasses.fields(detector)
        if field.compare and getattr(moved, field.name) != getattr(detector, field.name)
    ]
    assert len(changed) == 1


@pytest.mark.parametrize("spec", SPECS)
def test_text_and_mapping_build_an_equal_detector(spec):
    detector = build_detector(spec)
    assert build_detector(format_spec(detector)) == detector
    assert build_detector(json.loads(json.dumps(to_mapping(detector)))) == detector


@pytest.mark.parametrize("spec", [*BY_PRINCIPLE, "first_turn", "always", "length_only", LEARNED])
def test_the_state_leaves_room_for_a_session_within_a_kilobyte(spec):
    generator, detector = random.Random(1), build_detector(spec)
    state = detector.start()
    for turn in range(1, 100):
        scores = {name: Score(*(generator.random() for _ in "TIF")) for name in THREE}
        detector.update(state, TurnScores(turn, scores, length=300))
    assert len(json.dumps(state, separators=(",", ":"))) <= 1_024 - LARGEST_SESSION
