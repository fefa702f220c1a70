"""Boundary testing: each rule on its own, the tuning options, and a direct formula on random turns."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.scoring import Score, TurnScores, balance, trust_strength
from turnwise.sessions import (
    BoundarySettings,
    SessionMemory,
    SessionSettings,
    SessionState,
    boundary_testing,
    preset,
)

NOW = datetime(2025, 3, 1, tzinfo=UTC)
REFUSED = "I can't help with that."


def rules_met(memory, state):
    return set(boundary_testing(state, memory.settings.boundary))


@pytest.mark.parametrize("name", ["default", "original"])
def test_three_breakers(after, name):
    memory = SessionMemory(preset(name))
    calm = [0.1] * 3
    state, _ = after(memory, [0.9, *calm, 0.9, *calm])
    assert "breakers" not in rules_met(memory, state)
    state, stance = after(memory, [0.9], state)
    assert "breakers" in rules_met(memory, state)
    assert stance.trajectory == "hostile"


def test_the_default_forgets_breakers_after_ten_turns_and_the_original_never(after):
    turns = [0.9, 0.1, 0.9, 0.1, 0.9] + [0.1] * 8
    default, original = SessionMemory(), SessionMemory(preset("original"))
    assert "breakers" not in rules_met(default, after(default, turns)[0])
    assert "breakers" in rules_met(original, after(original, turns)[0])


@pytest.mark.shows("SESSION-8")
def test_a_saturated_text_is_a_breaker_of_its_own_kind(after, turn):
    memory = SessionMemory(preset("original"))
    state, _ = after(memory, [turn(0.55, length=6_000), turn(0.9, length=6_000)])
    assert state.breakers == (1, 2)
    assert rules_met(memory, state) == {"breakers"}


@pytest.mark.parametrize(
    ("name", "turns", "met"),
    [
        ("default", [0.62, 0.62, 0.62], True),
        ("default", [0.62, 0.1, 0.62, 0.1, 0.62], True),
        ("default", [0.62, 0.1, 0.1, 0.62, 0.1, 0.62], False),
        ("default", [0.6] * 5, False),
        ("original", [0.62, 0.62, 0.62], False),
        ("original", [0.62, 0.1, 0.62, 0.1, 0.62], True),
        ("short_windows", [0.62, 0.62], False),
        ("short_windows", [0.62, 0.1, 0.62], True),
        ("short_windows", [0.62, 0.1, 0.1], False),
    ],
)
def test_bad_turns(after, name, turns, met):
    memory = SessionMemory(preset(name))
    assert ("bad_turns" in rules_met(memory, after(memory, turns)[0])) is met


def test_balance_that_keeps_falling(after, turn):
    memory = SessionMemory()
    falling = [turn(0.1, T=1.0), turn(0.3, T=0.8), turn(0.5, T=0.5), turn(0.6, T=0.2), turn(0.64, T=0.1)]
    state, _ = after(memory, falling)
    assert "fall" not in rules_met(memory, state), "five changes are needed, here are four"
    state, _ = after(memory, [turn(0.66)], state)
    assert "fall" in rules_met(memory, state)
    state, _ = after(memory, [turn(0.1)], state)
    assert "fall" not in rules_met(memory, state), "balance rose again"


@pytest.mark.parametrize(("refused", "met"), [(4, False), (5, True)])
def test_refusals_over_forty_per_cent_of_ten_turns(after, refused, met):
    memory = SessionMemory()
    state, _ = after(memory, [0.1] * (10 - refused), response="Here it is.")
    state, _ = after(memory, [0.1] * refused, state, response=REFUSED)
    assert state.refusals == refused
    assert ("refusals" in rules_met(memory, state)) is met


def test_refusals_say_nothing_before_the_tenth_turn(after):
    memory = SessionMemory()
    state, _ = after(memory, [0.1] * 9, response=REFUSED)
    assert rules_met(memory, state) == set()


def test_refusals_are_forgotten_by_default_and_kept_by_the_original(after):
    for name, met in (("default", False), ("original", True)):
        memory = SessionMemory(preset(name))
        state, _ = after(memory, [0.1] * 10, response=REFUSED)
        state, _ = after(memory, [0.1] * 6, state, response="Here it is.")
        assert ("refusals" in rules_met(memory, state)) is met


@pytest.mark.shows("SESSION-8")
def test_option_1_asks_for_trust_of_060(after):
    memory = SessionMemory(preset("trust_only"))
    assert after(memory, [0.1])[1].boundary == ()
    assert after(memory, [0.1, 0.9])[1].boundary == ("trust",)


@pytest.mark.shows("SESSION-8")
def test_option_2_asks_for_three_of_four_signals(after, turn):
    memory = SessionMemory(preset("multi_signal"))
    grooming = [turn(0.1), turn(0.9), turn(0.9)]
    assert after(memory, grooming)[1].boundary == ("weak_signals",)
    friction = [turn(0.1), turn(0.9), turn(0.1)]
    assert after(memory, friction)[1].boundary == ()


@pytest.mark.shows("SESSION-8")
def test_option_3_looks_at_two_changes(after, turn):
    memory = SessionMemory(preset("short_windows"))
    assert after(memory, [turn(0.1), turn(0.1), turn(0.6, T=0.1)])[1].boundary == ("fall",)
    assert after(memory, [turn(0.1), turn(0.6, T=0.1)])[1].boundary == ()


@pytest.mark.parametrize(
    ("trust", "balances", "degrading", "found"),
    [
        (0.60, (), False, 0),
        (0.59, (), False, 1),
        (0.9, (), True, 1),
        (0.9, (0.7, -0.5), False, 0),
        (0.9, (0.7, -0.6), False, 1),
        (0.9, (0.7, 0.0, -0.4), False, 1),
        (0.5, (0.7, -1.0, -1.0), True, 4),
    ],
)
def test_weak_signals(trust, balances, degrading, found):
    state = SessionState("user-1", NOW, NOW, trust=trust, balances=balances)
    needed = {
        number
        for number in (1, 2, 3, 4)
        if "weak_signals" in boundary_testing(state, BoundarySettings(weak_signals=number), degrading=degrading)
    }
    assert needed == set(range(1, found + 1))


@pytest.mark.shows("SESSION-4")
def test_each_rule_can_be_met_alone(after, turn):
    memory = SessionMemory()
    alone = {
        "breakers": [0.9, 0.1, 0.1, 0.9, 0.1, 0.1, 0.1, 0.1, 0.9],
        "bad_turns": [0.62, 0.62, 0.62],
        "fall": [turn(0.0, T=1.0), 0.1, 0.1, 0.1, 0.1, turn(0.62, T=0.0)],
    }
    for rule, turns in alone.items():
        state, _ = after(memory, turns)
        assert rules_met(memory, state) == {rule}


SCORES = st.builds(
    Score,
    *[st.integers(0, 20).map(lambda step: step / 20) for _ in range(3)],
)


@pytest.mark.shows("SESSION-4")
@given(st.lists(st.tuples(SCORES, st.sampled_from([50, 9_000]), st.booleans()), min_size=1, max_size=25))
def test_the_original_rules_by_their_direct_formula(turns):
    """All turns at hand, nothing folded: what the session memory says at each turn must be the same."""
    memory = SessionMemory(preset("multi_signal"))
    state = memory.start("user-1", NOW)
    trust, falsities, balances, violations, refused = 0.5, [], [], 0, 0
    for number, (score, length, refuses) in enumerate(turns, start=1):
        response = REFUSED if refuses else None
        state, stance = memory.update(
            state, TurnScores(number, {"reciprocity": score}, length=length), NOW, response=response
        )
        trust = 0.3 * trust_strength(score, length) + 0.7 * trust
        falsities.append(score.F)
        balances.append(balance(score, length))
        violations += (score.F > 0.65) + (length > 5_000 and score.F > 0.5)
        refused += refuses
        deltas = [after - before for before, after in pairwise(balances)][-10:]
        gain = trust - (1 - falsities[0])
        down = number >= 3 and gain < -0.2
        signals = (
            (trust < 0.6) + down + (len(deltas) > 1 and sum(deltas) / len(deltas) < -0.3) + (balances[-1] < -0.5)
        )
        expected = {
            "breakers": violations >= 3,
            "bad_turns": number >= 5 and sum(F > 0.6 for F in falsities[-5:]) >= 3,
            "fall": len(deltas) >= 5 and sum(deltas[-5:]) / 5 < -0.3,
            "refusals": number >= 10 and refused / number > 0.4,
            "weak_signals": signals >= 3,
        }
        assert state.trust == pytest.approx(trust, abs=1e-12)
        near = [abs(sum(deltas[-5:]) / 5 + 0.3), abs(gain + 0.2), abs(trust - 0.6), abs(balances[-1] + 0.5)]
        near += [abs(sum(deltas) / len(deltas) + 0.3)] if deltas else []
        if min(near) > 1e-5:
            assert set(stance.boundary) == {rule for rule, met in expected.items() if met}


def test_a_rule_may_be_given_other_limits(after):
    rules = replace(BoundarySettings(), breakers=1)
    memory = SessionMemory(SessionSettings(boundary=rules))
    assert after(memory, [0.9])[1].boundary == ("breakers",)
