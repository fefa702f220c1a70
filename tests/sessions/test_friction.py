"""Friction that heals is told from hostility that stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.sessions import Friction, friction

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
