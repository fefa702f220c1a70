from __future__ import annotations

import math

import pytest

from turnwise.detectors import build_detector, check_detector, run_detector
from turnwise.detectors.change_points import fit_beta
from turnwise.errors import DetectorError, TurnwiseError


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("f_ema:alpha=0", r"f_ema: alpha must be a number in \(0, 1\]"),
        ("f_ema:level=inf,slope_limit=inf", "both infinite"),
        ("page_hinkley:drift=-1", "drift must be a number"),
        ("sprt:lower=1", "lower must be a number"),
        ("sprt:benign_a=0", "benign_a must be a number"),
        ("hmm:enter=0", "enter must be a number"),
        ("shiryaev_roberts:attack_b=-1", "attack_b must be a number"),
        ("peak_accumulation:share=-1", "share must be a number"),
        ("boundary_testing:bad=9", "never holds bad=9"),
        ("count_flags:flag=2", "flag must be a number"),
        ("length_only:chars=2", "chars must be 0 .* or 1"),
        ("first_turn:limit=-1", "limit must be a number"),
        ("first_turn:limit=1.01", r"limit must be a number in \[0, 1\], or inf"),
        ("last_turn:threshold=nan", "threshold must be a number"),
        ("learned:weights=3", "weights must name a weight by feature"),
        ("learned:weights={}", "turnwise study tune writes a file"),
        ("learned:weights={peek:1}", "unknown feature of learned 'peek'; did you mean 'peak'"),
        ("learned:weights={peak:x}", "must be like name:number"),
        ("learned", "missing a required argument: 'weights'"),
        ("any_of:members=[]", "0 members are too few"),
        ("any_of:members=cusum", "members must be a number or none"),
        ("any_of:members='cusum'", "members must be detectors"),
        ("any_of:members=[1; 2]", "members must be detectors, not 1"),
        ("any_of:members=[cusum; slop]", "unknown detector 'slop'; did you mean 'slope'"),
        ("any_of:members=[cusum; slope", "']' is missing at the end"),
        ("any_of:members=cusum]", "']' closes no bracket"),
        ("any_of:members=" + 30 * "[", "nest at most 20"),
        ("k_of:k=3,members=[cusum; slope]", "k=3 of 2 members is never met"),
        ("k_of:k=0,members=[cusum]", "k must be a whole number of at least 1"),
        ("weighted:members=[cusum; slope],weights=[1]", "2 members need as many weights, not 1"),
        ("weighted:members=[cusum],weights=[-1]", "weights must be a number"),
    ],
)
def test_a_parameter_that_does_not_fit_is_an_error(spec, message):
    with pytest.raises(TurnwiseError, match=message):
        build_detector(spec)


@pytest.mark.parametrize("given", [{}, {"name": "cusum"}, [], {"detector": 3}, None])
def test_a_mapping_needs_the_name_of_a_detector(given):
    with pytest.raises(DetectorError, match="under 'detector'"):
        build_detector(given)


def test_members_may_be_mappings_within_a_mapping():
    nested = {"detector": "any_of", "members": ["slope", {"detector": "cusum", "limit": 0.2}]}
    assert build_detector(nested) == build_detector("any_of:members=[slope; cusum:limit=0.2]")


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


def test_the_last_turn_is_judged_alone(make_turns):
    fell = run_detector(build_detector("last_turn"), make_turns(reciprocity=[0.9, 0.9, 0.1, None]))
    rose = run_detector(build_detector("last_turn"), make_turns(reciprocity=[0.9, 0.1, 0.8, None]))
    assert (fell.fired, fell.turn, fell.score) == (False, None, 0.1)
    assert (rose.fired, rose.turn, rose.score) == (True, 3, 0.8)


def test_the_first_turn_at_a_calibrated_threshold_above_every_score_never_fires(make_turns):
    detector = build_detector("first_turn").with_threshold(math.nextafter(1.0, 2.0))
    assert not run_detector(detector, make_turns(reciprocity=[1.0])).fired


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


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("pattern:slop(F) > 1", "did you mean 'slope'"),
        ("pattern:", "the pattern is empty"),
        ("pattern:expression=3", "must be the text of a pattern"),
        ("pattern:expression='F > 0.5',limit=nan", "limit must be a number"),
    ],
)
def test_a_pattern_that_can_t_be_read_says_so(spec, message):
    with pytest.raises(TurnwiseError, match=message):
        build_detector(spec)
