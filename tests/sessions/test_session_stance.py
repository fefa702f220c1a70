"""What becomes of a session: friction that heals and hostility that stays, trust level, mode and reasons."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.scoring import Score, TurnScores
from turnwise.sessions import (
    BreakerCounts,
    EngagementMode,
    Friction,
    SessionMemory,
    SessionState,
    TrustLevel,
    assess,
    friction,
    preset,
)

ORIGINAL = SessionMemory(preset("original"))


@pytest.mark.shows("SESSION-5")
@pytest.mark.parametrize(
    ("trust", "trajectory", "mode", "level"),
    [
        (0.9, "hostile", "terminated", "zero"),
        (0.9, "degrading", "guarded", "low"),
        (0.39, "stable", "guarded", "low"),
        (0.39, "improving", "guarded", "low"),
        (0.9, "stable", "cautious", "moderate"),
        (0.59, "improving", "cautious", "moderate"),
        (0.60, "improving", "normal", "high"),
    ],
)
def test_the_original_stance(trust, trajectory, mode, level):
    settings, now = preset("original"), datetime(2025, 3, 1, tzinfo=UTC)
    settings = replace(settings, trajectory=replace(settings.trajectory, change=0.05))
    gain = {"degrading": -0.1, "improving": 0.1}.get(trajectory, 0.0)
    state = SessionState("user-1", now, now, interactions=3, trust=trust, F_first=1 - trust + gain)
    state = replace(state, breakers=BreakerCounts(3, 0)) if trajectory == "hostile" else state
    stance = assess(state, settings)
    assert stance.trajectory == trajectory
    assert (stance.mode, stance.trust_level) == (EngagementMode(mode), TrustLevel(level))


def test_under_three_turns_the_original_is_stable(after):
    assert after(ORIGINAL, [0.9, 0.1])[1].trajectory == "stable"


def test_the_original_reads_a_hostile_opening_as_improving_and_the_default_does_not(after):
    turns = [0.9, 0.64, 0.9]
    assert after(ORIGINAL, turns)[1].trajectory == "improving"
    assert after(SessionMemory(), turns)[1].trajectory != "improving"


def test_a_good_faith_user_reaches_normal_with_the_default_and_never_with_the_original(after):
    good = [0.1, 0.05, 0.2, 0.1]
    for memory, reached in ((SessionMemory(), True), (ORIGINAL, False)):
        state, modes = None, []
        for turn in good * 50:
            state, stance = after(memory, [turn], state)
            modes.append(stance.mode)
        assert (EngagementMode.NORMAL in modes) is reached
    assert after(SessionMemory(), good[:3])[1].mode == "normal"


@given(st.lists(st.floats(0.45, 1.0), min_size=1, max_size=40))
def test_a_session_hostile_from_its_first_turn_never_reads_improving(turns):
    assert "improving" not in headings(turns)


@given(st.floats(0.0, 1.0), st.integers(3, 40))
def test_a_session_that_stays_as_it_is_has_no_direction(F, turns):
    assert set(headings([F] * turns)) <= {"stable", "hostile"}


@pytest.mark.shows("SESSION-5")
@given(st.lists(st.floats(0.0, 0.2), min_size=3, max_size=40))
def test_good_faith_is_normal_from_the_third_turn_on(turns):
    assert set(modes(turns)[2:]) == {"normal"}


@pytest.mark.shows("SESSION-3")
def test_drift_reads_degrading(after):
    assert headings([0.05, 0.1, 0.2, 0.35, 0.5, 0.64])[-1] == "degrading"


def test_friction_that_heals_is_forgiven(after):
    healed = [0.1, 0.1, 0.1, 0.64, 0.1, 0.1, 0.1]
    assert headings(healed)[3] == "degrading"
    assert headings(healed)[-1] in ("stable", "improving")
    assert modes(healed)[-1] == "normal"


@pytest.mark.shows("SESSION-3")
def test_a_session_that_turns_to_good_reads_improving():
    assert "improving" in headings([0.6, 0.6, 0.6, 0.6, 0.1, 0.1, 0.1])


def test_hostility_that_stays_is_guarded_even_without_a_breaker(after, turn):
    memory = SessionMemory()
    low = turn(0.6, T=0.0)
    assert after(memory, [low] * 4)[1].friction == "none", "-0.3 is low, not hostile"
    hostile = TurnScores(1, {"reciprocity": Score(T=0.0, I=1.0, F=0.6)}, length=100)
    _, stance = after(memory, [hostile] * 4)
    assert (stance.trajectory, stance.boundary, stance.trust_level) == ("stable", (), "high")
    assert stance.friction == "stays"
    assert stance.mode == "guarded"
    assert stance.processing


def test_low_trust_is_guarded(after):
    memory = SessionMemory()
    _, stance = after(memory, [0.9, 0.9])
    assert (stance.trust_level, stance.mode) == ("low", "guarded")


def headings(turns):
    return [str(stance.trajectory) for stance in stances(turns)]


def modes(turns):
    return [str(stance.mode) for stance in stances(turns)]


def stances(turns):
    memory, now = SessionMemory(), datetime(2025, 3, 1, tzinfo=UTC)
    state, found = memory.start("user-1", now), []
    for number, F in enumerate(turns, start=1):
        state, stance = memory.update(state, TurnScores(number, {"reciprocity": Score(0.5, 0.3, F)}), now)
        found.append(stance)
    return found


BALANCES = st.lists(st.floats(-1.0, 1.0), max_size=11)


@pytest.mark.parametrize(
    ("balances", "became"),
    [
        ([], "none"),
        ([0.7, 0.6, -0.25], "none"),
        ([0.7, -1.0, 0.7], "healed"),
        ([0.7, -1.0, -0.2, 0.1], "healed"),
        ([0.7, -1.0, -1.0, 0.7], "healed"),
        ([0.7, -1.0, 0.7, -1.0, 0.7], "healed"),
        ([0.7, 0.7, -1.0], "open"),
        ([0.7, -1.0, -0.2], "open"),
        ([0.7, -1.0, -1.0], "stays"),
        ([-1.0, -0.2, -1.0], "stays"),
        ([0.7, -1.0, 0.7, -1.0], "stays"),
        ([0.7, -1.0, 0.7, -1.0, 0.7, -1.0, 0.7], "stays"),
    ],
)
def test_what_became_of_it(balances, became):
    assert friction(balances) == became


@given(BALANCES)
def test_three_good_turns_heal_a_single_friction(balances):
    kept = [value for value in balances if value >= 0]
    assert friction([*kept, -1.0, 0.7, 0.7, 0.7]) is Friction.HEALED


@given(BALANCES)
def test_nothing_is_made_of_turns_that_are_not_hostile(balances):
    mild = [max(value, -0.5) for value in balances]
    assert friction(mild) is Friction.NONE
