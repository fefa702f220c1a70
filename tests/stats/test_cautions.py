"""What a study warns of, told from its numbers alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta

from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.stats import cautions
from turnwise.study import threshold_for


def flags(count, of=1000):
    return [n < count for n in range(of)]


GROUPS = [str(n) for n in range(1000)]


def test_different_false_positive_rates_are_told():
    assert cautions.different_rates(flags(20), flags(20), GROUPS) == ()
    assert cautions.different_rates(flags(20), flags(24), GROUPS) == ()
    assert cautions.different_rates(flags(1), flags(2), GROUPS) == ()
    [tested] = cautions.different_rates(flags(20), flags(34), GROUPS, ("any_turn", "ema"))
    assert "any_turn and ema" in tested and "20/1000 = 2.0 % [1.2, 3.1]" in tested and "p = 0.0001" in tested
    [ratio] = cautions.different_rates(flags(1), flags(3), GROUPS)
    assert "more than 2 times as many" in ratio and "p =" not in ratio
    assert cautions.different_rates(flags(20), flags(34), ["one group"] * 1000) == ()


def test_a_threshold_on_few_benign_scores_is_told_with_the_rates_to_expect():
    benign = [n / 587 for n in range(587)]
    assert cautions.thin_threshold(benign, 577 / 587) == ()
    [told] = cautions.thin_threshold(benign, threshold_for(benign, 0.01), "ema")
    low, high = beta.ppf(0.025, 4, 587 + 1 - 4), beta.ppf(0.975, 5, 587 - 4)
    assert "ema rests on 4 of 587" in told and f"between {100 * low:.2f} % and {100 * high:.2f} %" in told
    assert "95 % range" in told
    [above] = cautions.thin_threshold(benign, 1.0, "ema", "fold 2 of 4")
    assert "The threshold of ema in fold 2 of 4 lies above all 587 benign calibration conversations" in above


def test_principles_that_are_copies_or_worse_than_chance_are_told():
    rng = np.random.default_rng(0)
    one, other = rng.random(200), rng.random(200)
    assert cautions.copied_principles({"a": one, "b": other, "flat": [0.0] * 200}) == ()
    [told] = cautions.copied_principles({"a": one, "b": one**3, "c": other})
    assert "principles a and b are copies" in told
    labels = [n < 100 for n in range(200)]
    good = one + np.array(labels)
    [told] = cautions.principles_below_chance({"good": good, "bad": -good}, labels)
    assert "principle bad is worse than chance: AUC 0.0" in told
    with pytest.raises(UsageError, match="same turns"):
        cautions.copied_principles({"a": [0.1], "b": [0.1, 0.2]})
    with pytest.raises(UsageError, match="needs 2 values, one a conversation, not 1"):
        cautions.principles_below_chance({"a": [0.1]}, [True, False])


def test_disjoint_sources_and_strong_baselines_are_told():
    assert cautions.disjoint_sources(["x", "x", "y"], [True, False, True]) == ()
    assert cautions.disjoint_sources(["x", "y"], [True, True]) == ()
    [told] = cautions.disjoint_sources(["x", "y"], [True, False])
    assert "different sources (x; y)" in told
    assert cautions.strong_baselines(Rate(40, 100), {"first_turn": Rate(19, 100), "none": Rate(0, 100)}) == ()
    assert cautions.strong_baselines(Rate(0, 100), {"none": Rate(0, 100)}) == ()
    [told] = cautions.strong_baselines(Rate(40, 100), {"first_turn": Rate(20, 100)})
    assert told.startswith("first_turn sees no course of a conversation and still catches 20/100")
