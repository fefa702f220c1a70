from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from turnwise.errors import ScoreError
from turnwise.scoring import Score, balance, trust_strength

fractions = st.floats(0, 1)
scores = st.builds(Score, fractions, fractions, fractions)
lengths = st.integers(0, 20_000)


class Unhelpful:
    def __float__(self):
        raise TypeError("no float after all")


@pytest.mark.shows("LATER-4", "FR-001")
@given(fractions, fractions, fractions)
def test_any_three_numbers_between_zero_and_one_are_a_score(T, I, F):  # noqa: E741
    score = Score(T, I, F)
    assert (score.T, score.I, score.F) == (T, I, F)
    assert Score.from_dict(json.loads(json.dumps(score.to_dict()))) == score


@pytest.mark.parametrize("component", ["T", "I", "F"])
@given(value=st.floats() | st.integers())
def test_anything_outside_is_an_error(component, value):
    assume(not 0 <= value <= 1)
    with pytest.raises(ScoreError, match=f"{component} must be a finite number in"):
        Score(**{"T": 0.5, "I": 0.5, "F": 0.5, component: value})


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        True,
        False,
        "0.5",
        None,
        [0.5],
        1j,
        10**400,
        Unhelpful(),
        np.array([0.1, 0.2]),
    ],
)
def test_what_is_no_finite_number_is_an_error(value):
    with pytest.raises(ScoreError, match=r"F must be a finite number in \[0, 1\]"):
        Score(0.5, 0.5, value)


@pytest.mark.parametrize(
    "value", [0, 1, np.float32(0.5), np.float64(0.5), np.int64(1), Decimal("0.5"), Fraction(1, 2)]
)
def test_numbers_of_other_types_become_floats(value):
    score = Score(value, value, value)
    assert [type(component) for component in (score.T, score.I, score.F)] == [float] * 3
    assert float(value) == score.T


def test_a_score_error_is_a_value_error():
    with pytest.raises(ValueError, match="not 2"):
        Score(2, 0, 0)


def test_a_score_can_t_be_changed():
    score = Score(0.1, 0.2, 0.3)
    with pytest.raises(FrozenInstanceError):
        score.F = 0.9
    assert score.F == 0.3


@pytest.mark.parametrize("missing", ["T", "I", "F"])
def test_a_mapping_without_a_component_says_which(missing):
    data = {"T": 0.1, "I": 0.2, "F": 0.3}
    del data[missing]
    with pytest.raises(ScoreError, match=f"score without {missing}: it needs T, I and F"):
        Score.from_dict(data)


class TestBalance:
    @given(scores, lengths)
    def test_lies_between_minus_one_and_one(self, score, length):
        assert -1 <= balance(score, length) <= 1

    @given(fractions, fractions, fractions, fractions, lengths)
    def test_never_rises_with_falsity(self, T, I, F, other, length):  # noqa: E741
        low, high = sorted((F, other))
        assert balance(Score(T, I, high), length) <= balance(Score(T, I, low), length)

    @given(fractions, fractions, fractions, fractions, lengths)
    def test_never_falls_with_truth(self, T, other, I, F, length):  # noqa: E741
        low, high = sorted((T, other))
        assert balance(Score(low, I, F), length) <= balance(Score(high, I, F), length)

    @pytest.mark.shows("SESSION-1")
    @given(fractions, fractions, st.floats(0, 0.6), st.integers(0, 5_000))
    def test_is_the_formula_of_the_specification_below_the_rules(self, T, I, F, length):  # noqa: E741
        expected = max(-1.0, min(1.0, T - 0.5 * abs(I - 0.3) - 0.5 * F))
        assert balance(Score(T, I, F), length) == expected

    @pytest.mark.shows("SESSION-1")
    @pytest.mark.parametrize(
        ("T", "I", "F", "length", "expected"),
        [
            (0.8, 0.3, 0.2, 100, 0.7),
            (0.8, 0.1, 0.2, 100, 0.6),
            (0.8, 0.5, 0.2, 100, 0.6),
            (1.0, 0.3, 0.0, 100, 1.0),
            (0.0, 1.0, 0.6, 100, -0.65),
            (0.9, 0.3, 0.6, 100, 0.6),
            (0.9, 0.3, 0.61, 100, 0.1),
            (0.9, 0.3, 0.65, 100, 0.1),
            (0.9, 0.3, 0.66, 100, -1.0),
            (0.0, 1.0, 0.65, 100, -1.0),
            (0.9, 0.3, 0.5, 5_001, 0.65),
            (0.9, 0.3, 0.51, 5_000, 0.645),
            (0.9, 0.3, 0.51, 5_001, -1.0),
        ],
    )
    def test_examples_at_the_borders_of_the_rules(self, T, I, F, length, expected):  # noqa: E741
        assert balance(Score(T, I, F), length) == pytest.approx(expected, abs=1e-12)


class TestTrustStrength:
    @given(scores, lengths)
    def test_takes_one_of_four_values(self, score, length):
        assert trust_strength(score, length) in {1.0, 0.5, 0.3, 0.15}

    @given(fractions, fractions, lengths)
    def test_never_rises_with_falsity(self, F, other, length):
        low, high = sorted((F, other))
        assert trust_strength(Score(0, 0, high), length) <= trust_strength(Score(0, 0, low), length)

    @given(fractions, fractions, fractions, lengths)
    def test_reads_falsity_alone(self, T, I, F, length):  # noqa: E741
        assert trust_strength(Score(T, I, F), length) == trust_strength(Score(0, 0, F), length)

    @pytest.mark.shows("SESSION-1")
    @pytest.mark.parametrize(
        ("F", "length", "expected"),
        [
            (0.0, 0, 1.0),
            (0.65, 5_000, 1.0),
            (0.66, 5_000, 0.3),
            (0.5, 5_001, 1.0),
            (0.51, 5_001, 0.5),
            (0.65, 5_001, 0.5),
            (0.66, 5_001, 0.15),
            (1.0, 100_000, 0.15),
        ],
    )
    def test_examples_at_the_borders_of_the_rules(self, F, length, expected):
        assert trust_strength(Score(0.5, 0.5, F), length) == expected
