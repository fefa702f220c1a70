from __future__ import annotations

import math

import pytest

from turnwise.detectors import build_detector
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
        ("pattern:slop(F) > 1", "did you mean 'slope'"),
        ("pattern:", "the pattern is empty"),
        ("pattern:expression=3", "must be the text of a pattern"),
        ("pattern:expression='F > 0.5',limit=nan", "limit must be a number"),
    ],
)
def test_a_parameter_that_does_not_fit_is_an_error(spec, message):
    with pytest.raises(TurnwiseError, match=message):
        build_detector(spec)


THRESHOLD = r"any_turn: threshold must be a number in \[0, 1\], or inf"


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        *(("any_turn", {"threshold": value}, THRESHOLD) for value in (-0.1, 1.01, math.nan, -math.inf)),
        *(("any_turn", {"threshold": value}, THRESHOLD) for value in ("0.5", None, True, 10**400)),
        *(
            ("cusum", {"drift": value}, r"cusum: drift must be a number in \[0, ")
            for value in (-0.1, 1.1, math.inf)
        ),
        *(("cusum", {"limit": value}, r"cusum: limit must be a number in \[0, ") for value in (-1, math.nan)),
        *(("slope", {"limit": value}, "limit must be a number") for value in (math.nan, -math.inf)),
        ("slope", {"min_turns": 1}, "min_turns must be a whole number of at least 2, not 1"),
        ("slope", {"min_turns": 2.5}, "min_turns must be a whole number"),
        ("slope", {"window": 1}, "window must be a whole number of at least 2"),
        ("slope", {"window": True}, "window must be a whole number"),
        ("slope", {"window": 3, "min_turns": 4}, "window=3 never holds min_turns=4 turns; widen the window"),
        ("trust_ema", {"alpha": 0}, r"alpha must be a number in \(0, 1\], not 0"),
        ("trust_ema", {"alpha": 1.5}, "alpha"),
        ("trust_ema", {"initial": -0.1}, "initial"),
        *(("trust_ema", {"limit": value}, "limit") for value in (1.1, math.inf, False)),
    ],
)
def test_a_value_out_of_range_is_an_error(name, parameters, message):
    with pytest.raises(DetectorError, match=message):
        build_detector({"detector": name, **parameters})


@pytest.mark.parametrize("given", [{}, {"name": "cusum"}, [], {"detector": 3}, None])
def test_a_mapping_needs_the_name_of_a_detector(given):
    with pytest.raises(DetectorError, match="under 'detector'"):
        build_detector(given)
