"""The circuit breaker: its way there and back, and its invariants over any turns."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from turnwise.errors import SessionError
from turnwise.sessions import BreakerSettings, BreakerState, Phase, next_breaker

spec = importlib.util.spec_from_file_location("breaker_machine", Path(__file__).parent / "breaker_machine.py")
machines = importlib.util.module_from_spec(spec)
spec.loader.exec_module(machines)


def after(*turns: float, state: BreakerState | None = None) -> BreakerState:
    """Return the breaker after turns of these F; above 0.65 they are violations."""
    state = state or BreakerState()
    for F in turns:
        state = next_breaker(state, F, violation=F > 0.65)
    return state


@pytest.mark.shows("LATER-2", "SESSION-6")
@pytest.mark.parametrize("machine", [machines.BreakerMachine, machines.MemoryMachine])
def test_the_invariants_hold(machine):
    run_state_machine_as_test(
        machine, settings=settings(max_examples=30, stateful_step_count=25, deadline=None, derandomize=True)
    )


@pytest.mark.shows("SESSION-6")
def test_a_violation_cuts_trust_and_stops_processing():
    state = after(0.9)
    assert state == BreakerState(Phase.VIOLATED, attempts=0, trust=0.15, violations=1)
    assert not state.processing


def test_the_next_clean_turn_begins_a_recovery():
    state = after(0.9, 0.1)
    assert state.phase is Phase.RECOVERY
    assert state.attempts == 1
    assert state.trust == pytest.approx(0.3 * 0.9 + 0.7 * 0.15)


@pytest.mark.shows("SESSION-6")
def test_clean_turns_lead_back_to_normal_and_attempts_start_again():
    state = after(0.9, 0.1, 0.9, 0.1)
    assert state.attempts == 2
    while not state.processing:
        state = after(0.1, state=state)
    assert state.attempts == 0
    assert state.violations == 2


def test_a_violation_in_recovery_cuts_by_half():
    before = after(0.9, 0.1)
    state = after(0.9, state=before)
    assert state.phase is Phase.VIOLATED
    assert state.trust == pytest.approx(before.trust / 2)


def test_the_fourth_violation_without_recovery_in_between_is_final():
    assert after(0.9, 0.9, 0.9).phase is Phase.VIOLATED
    ended = after(0.9, 0.9, 0.9, 0.9)
    assert ended.phase is Phase.TERMINATED
    assert ended.attempts == 3
    assert after(*[0.0] * 1_000, state=ended) == ended


def test_a_trust_of_years_does_not_hold_off_a_violation():
    assert after(*[0.0] * 100, 0.66).phase is Phase.VIOLATED


def test_a_steady_f_of_040_recovers_in_thirteen_turns():
    state, turns = after(0.9), 0
    while not state.processing and turns < 100:
        state, turns = after(0.40, state=state), turns + 1
    assert turns == 13


def test_the_integers_of_the_original_never_recover_at_that_f():
    trust = 15
    for _ in range(1_000):
        trust = (30 * (100 - 40) + 70 * trust) // 100
    assert trust == 57


def test_a_steady_f_of_045_does_not_recover():
    state = after(0.9, *[0.45] * 1_000)
    assert state.phase is Phase.RECOVERY
    assert state.attempts == 1


@given(F=st.floats(0.0, 0.404), first=st.floats(0.66, 1.0), before=st.floats(0.0, 1.0))
def test_any_steady_f_up_to_040_recovers(F, first, before):
    state = after(first, state=BreakerState(trust=before))
    state = after(*[F] * 25, state=state)
    assert state.processing


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"attempts": 0}, "breaker attempts"),
        ({"attempts": 1.5}, "breaker attempts"),
        ({"alpha": 0.0}, "breaker alpha"),
        ({"initial": 1.1}, "breaker initial"),
        ({"target": float("nan")}, "breaker target"),
        ({"tolerance": -0.1}, "breaker tolerance"),
        ({"first_cut": 1.0}, "breaker first_cut"),
        ({"next_cut": "half"}, "breaker next_cut"),
    ],
)
def test_settings_out_of_range_are_refused(changed, named):
    with pytest.raises(SessionError, match=f"^{named} must be"):
        BreakerSettings(**changed)
