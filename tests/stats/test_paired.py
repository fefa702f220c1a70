"""Two arms compared at the same rate of false positives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve
from tests.stats.conftest import conversations

from turnwise.errors import UsageError
from turnwise.stats import matched_rates, roc_heads


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.01, 0.03, 0.05, 0.3]), st.sampled_from([1, 6]))
def test_partial_areas_agree_with_scikit_learn(seed, rate, decimals):
    scores, _, attack = conversations(seed, arms=1, decimals=decimals)
    areas, recalls = roc_heads(scores[0], attack, np.ones((180, 1)), [rate])
    assert areas[0, 0] == pytest.approx(roc_auc_score(attack, scores[0], max_fpr=rate), abs=1e-12)
    x, y, _ = roc_curve(attack, scores[0], drop_intermediate=False)
    assert recalls[0, 0] == pytest.approx(np.interp(rate, x, y), abs=1e-12)


def test_weights_stand_for_repeated_conversations():
    scores, _, attack = conversations(8, arms=1)
    weights = np.random.default_rng(0).integers(0, 4, 180)
    found = roc_heads(scores[0], attack, weights[:, None].astype(float), [0.05])
    repeated = roc_heads(
        np.repeat(scores[0], weights), np.repeat(attack, weights), np.ones((weights.sum(), 1)), [0.05]
    )
    np.testing.assert_allclose(found, repeated, atol=1e-12)


def test_a_better_arm_wins_at_matched_rates_and_the_carried_thresholds_are_labelled():
    scores, groups, attack = conversations(0, decimals=6)
    scores[1] += 2.0 * np.array(attack)
    found = matched_rates(*scores, groups, attack, limits=(2.0, 1.0), replicates=200)
    assert all(one.low > 0 and one.p < 0.05 for one in found.partial_auc.values())
    assert not any(one.conditions_on_threshold for one in (*found.partial_auc.values(), *found.recall.values()))
    assert found.thresholds_used.conditions_on_threshold
    assert "for these thresholds alone" in str(found.thresholds_used)
    assert found.fpr[0].count < found.fpr[1].count
    assert str(found.fpr[1]) in str(found)


@pytest.mark.parametrize(
    ("labels", "rates", "says"),
    [
        ([True] * 4, (0.1,), "attacks and benign"),
        ([True, False] * 2, (1.5,), "rate must lie"),
        ([True], (0.1,), "one score each"),
    ],
)
def test_matched_rates_refuse_what_they_cannot_compare(labels, rates, says):
    with pytest.raises(UsageError, match=says):
        matched_rates([1.0] * 4, [2.0] * 4, list("abcd"), labels, rates=rates)
