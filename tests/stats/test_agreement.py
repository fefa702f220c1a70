from __future__ import annotations

import math

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import UsageError
from turnwise.stats import icc_within, krippendorff_alpha

FISH = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
"""Six targets and four judges, table 2 of P. E. Shrout and J. L. Fleiss, Psychological Bulletin 86 (1979)."""


def rng():
    return np.random.default_rng(0)


@given(
    rows=st.lists(
        st.lists(st.none() | st.integers(0, 8).map(lambda n: n / 8), min_size=3, max_size=3),
        min_size=2,
        max_size=15,
    )
)
def test_alpha_is_that_of_the_krippendorff_package(rows):
    kept = [[v for v in row if v is not None] for row in rows]
    pairable = [row for row in kept if len(row) > 1]
    if len(pairable) < 2 or len({v for row in pairable for v in row}) < 2:
        return
    found = krippendorff_alpha(rows, rng(), replicates=20)
    table = np.array([[np.nan if v is None else v for v in row] for row in rows]).T
    assert found.value == pytest.approx(krippendorff.alpha(table, level_of_measurement="interval"), abs=1e-12)


def test_alpha_has_an_interval_by_groups():
    chance = rng()
    truth = np.repeat(chance.random(40), 6)
    ratings = (truth[:, None] + chance.normal(0, 0.1, (240, 2))).tolist()
    alone = krippendorff_alpha(ratings, rng(), replicates=300)
    grouped = krippendorff_alpha(ratings, rng(), [str(n // 6) for n in range(240)], replicates=300)
    assert alone.value == grouped.value
    assert grouped.high - grouped.low > 1.3 * (alone.high - alone.low)
    assert (grouped.groups, alone.groups) == (40, 240)
    assert alone.low < alone.value < alone.high < 1
    again = krippendorff_alpha(ratings, rng(), replicates=300)
    assert (again.low, again.high) == (alone.low, alone.high)


def test_ratings_that_never_vary_show_no_agreement():
    assert math.isnan(krippendorff_alpha([[0.5, 0.5]] * 4, rng(), replicates=10).value)


def test_alpha_needs_two_ratings_of_two_units():
    with pytest.raises(UsageError, match="at least 2 units with 2 ratings each, not 1"):
        krippendorff_alpha([[1, 2], [1, None], [None, float("nan")]], rng())
    with pytest.raises(UsageError, match="one group for every unit"):
        krippendorff_alpha([[1, 2], [1, 2]], rng(), ["a"])


def test_the_published_example_of_the_intraclass_correlation():
    found = icc_within(FISH)
    assert (round(found.value, 2), round(found.low, 2), round(found.high, 2)) == (0.17, -0.13, 0.72)
    assert (found.units, found.repeats) == (6, 4)


@given(rows=st.lists(st.lists(st.floats(-3, 3), min_size=3, max_size=3), min_size=2, max_size=12))
def test_the_correlation_is_that_of_the_sums_of_squares(rows):
    table = np.array(rows)
    if table.var(axis=1).max() < 1e-6:
        return
    mean = table.mean(axis=1, keepdims=True)
    between = 3 * ((mean - table.mean()) ** 2).sum() / (len(rows) - 1)
    within = ((table - mean) ** 2).sum() / (2 * len(rows))
    found = icc_within(rows)
    assert found.value == pytest.approx((between - within) / (between + 2 * within), abs=1e-9)
    assert found.low <= found.value + 1e-12
    assert found.value <= found.high + 1e-12


def test_repeats_that_never_differ():
    assert icc_within([[1, 1], [2, 2]]).value == 1.0
    assert math.isnan(icc_within([[1, 1], [1, 1]]).value)


@pytest.mark.parametrize("rows", [[[1, 2]], [[1, 2], [1]], [[1], [2]]])
def test_the_correlation_needs_repeats(rows):
    with pytest.raises(UsageError, match="same 2 or more scores"):
        icc_within(rows)
