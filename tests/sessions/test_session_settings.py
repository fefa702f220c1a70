"""Settings and presets: what can't be is refused by name, and every preset is what it says."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from turnwise.errors import SessionError, UnknownNameError
from turnwise.sessions import (
    DEFAULT_PRESET,
    BoundarySettings,
    SessionSettings,
    TrajectorySettings,
    preset,
    presets,
)


@pytest.mark.parametrize(
    ("kind", "changed", "named"),
    [
        (SessionSettings, {"alpha": 0}, r"alpha must be a number in \(0, 1\], not 0"),
        (SessionSettings, {"alpha": True}, "alpha must be"),
        (SessionSettings, {"initial": -0.1}, "initial must be"),
        (SessionSettings, {"low": 2}, "low must be"),
        (SessionSettings, {"high": 0.3}, r"high must be a number in \[0.4, 1\]"),
        (SessionSettings, {"half_life": 7}, "half_life must be a timedelta above zero, or None for never, not 7"),
        (SessionSettings, {"half_life": timedelta(0)}, "half_life must be"),
        (SessionSettings, {"expires_after": timedelta(-1)}, "expires_after must be"),
        (SessionSettings, {"boundary": {}}, r"boundary must be BoundarySettings\(...\)"),
        (SessionSettings, {"trajectory": None}, "trajectory must be TrajectorySettings"),
        (SessionSettings, {"breaker": "soft"}, "breaker must be BreakerSettings"),
        (BoundarySettings, {"breakers": 0}, "breakers must be a whole number from 1 to 10"),
        (BoundarySettings, {"breakers": 11}, "breakers must be"),
        (BoundarySettings, {"F_limit": 1.5}, "F_limit must be"),
        (BoundarySettings, {"bad_turns": 6}, "bad_turns must be"),
        (BoundarySettings, {"F_window": 2}, "F_window must be a whole number from 3 to 5"),
        (BoundarySettings, {"fall": 0.0}, r"fall must be a number in \(0, 2\]"),
        (BoundarySettings, {"fall_window": 0}, "fall_window must be"),
        (BoundarySettings, {"refusal_share": 1.0}, r"refusal_share must be a number in \(0, 1\)"),
        (BoundarySettings, {"refusal_turns": 11}, "refusal_turns must be"),
        (BoundarySettings, {"trust_below": 7}, "trust_below must be"),
        (BoundarySettings, {"weak_signals": 5}, "weak_signals must be a whole number from 1 to 4"),
        (TrajectorySettings, {"change": 0.0}, "change must be"),
        (TrajectorySettings, {"min_turns": 0}, "min_turns must be"),
        (TrajectorySettings, {"fast": 0.0}, "fast must be"),
        (TrajectorySettings, {"slow": 0.5}, r"slow must be a number in \(0, 0.5\)"),
        (TrajectorySettings, {"F_calm": -1}, "F_calm must be"),
    ],
)
def test_what_is_out_of_range_is_refused(kind, changed, named):
    with pytest.raises(SessionError, match=f"^{named}"):
        kind(**changed)


def test_over_the_whole_session_more_may_be_asked_for():
    rules = BoundarySettings(recent=False, breakers=20, refusal_turns=50)
    assert (rules.breakers, rules.refusal_turns) == (20, 50)


def test_unknown_rules_are_refused_with_the_nearest_name():
    with pytest.raises(UnknownNameError, match="did you mean 'original'"):
        TrajectorySettings(rules="orignal")


def test_unknown_presets_are_refused_with_the_nearest_name():
    with pytest.raises(UnknownNameError, match="unknown session preset 'defualt'; did you mean 'default'"):
        preset("defualt")


def test_presets():
    names = [info.name for info in presets()]
    assert names == ["default", "original", "trust_only", "multi_signal", "short_windows"]
    assert preset() == preset(DEFAULT_PRESET) == SessionSettings()
    assert all(preset(info.name) == info.settings and info.summary for info in presets())


def test_the_tuning_options_are_the_original_and_one_change_each():
    original = preset("original")
    for name, changed in (
        ("trust_only", {"trust_below": 0.6}),
        ("multi_signal", {"weak_signals": 3}),
        ("short_windows", {"F_window": 3, "bad_turns": 2, "fall_window": 2}),
    ):
        assert preset(name) == replace(original, boundary=replace(original.boundary, **changed))
