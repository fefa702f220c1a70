from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from turnwise.errors import UsageError
from turnwise.stats import Judged, compare_pairs, measure


def arm(recall, *, seed=0, attacks=90, benign=130, missing=0, shift=1.0):
    """Return conversations of which a share of the attacks is flagged."""
    rng = np.random.default_rng(seed)
    judged = []
    for n in range(attacks + benign):
        attack = n < attacks
        hit = bool(attack and rng.random() < recall) or (not attack and n % 65 == 0)
        score = None if n < missing else float(rng.normal(shift * attack))
        judged.append(
            Judged(
                f"s{n:03}",
                f"g{n // 3}",
                attack,
                6,
                score,
                fired=hit and score is not None,
                turn=int(rng.integers(1, 7)) if hit and score is not None else None,
                final=hit and n % 2 == 0 and score is not None,
                alarms=int(hit),
                missing_turns=6 if score is None else 0,
                cost_usd=0.01 if n % 2 else None,
                latency_ms=20.0,
            )
        )
    return judged


def result(judged, name="cusum", seed=0):
    return measure(
        judged, np.random.default_rng(seed), name=name, threshold=0.5, run="r", context="turn", replicates=150
    )


def test_a_result_holds_everything_of_one_detector():
    found = result(arm(0.6))
    assert found.counts.recall.of == 90
    assert found.final.caught < found.counts.caught
    assert found.recall_by_group.value == pytest.approx(found.counts.caught / 90)
    assert found.recall_by_group.low < found.recall_by_group.value < found.recall_by_group.high
    assert found.f1_by_group.value == pytest.approx(found.counts.f1)
    assert found.auc.value == pytest.approx(found.auc_by_group.value, abs=1e-12)
    assert found.fpr_by_group.value == pytest.approx(2 / 130)
    assert [one.rate for one in found.recall_at] == [0.01, 0.001]
    assert found.recall_at[0].recall.of == 90
    assert "too few" in found.recall_at[1].reason
    assert found.first_flag.survival.caught == found.counts.caught
    curve = found.first_flag.survival
    assert found.mean_turn.value == pytest.approx(sum(curve.at(turn) for turn in range(found.mean_turn_horizon)))
    alarms = found.alarms_per_thousand_benign_turns
    assert (alarms.alarms, alarms.turns) == (2, 780)
    assert (found.cost_usd, found.latency_ms) == (pytest.approx(0.01), pytest.approx(20.0))
    assert found.missing.warning == ""
    assert (found.run, found.context, found.threshold) == ("r", "turn", 0.5)


def test_the_same_seed_gives_the_same_result():
    assert result(arm(0.6)) == result(arm(0.6))
    assert result(arm(0.6), seed=1).recall_by_group != result(arm(0.6)).recall_by_group


def test_one_label_alone_gives_what_can_be_said():
    attacks = result(arm(0.5, benign=0))
    assert (attacks.auc, attacks.auc_by_group, attacks.fpr_by_group) == (None, None, None)
    assert attacks.alarms_per_thousand_benign_turns.value is None
    benign = result(arm(0.5, attacks=0))
    assert benign.recall_by_group is benign.mean_turn is benign.first_flag is benign.f1_by_group is None


def test_nothing_evaluated_is_refused():
    with pytest.raises(UsageError, match="cusum: no conversation was evaluated"):
        result(arm(0.5, attacks=5, benign=0, missing=5))


def test_a_planted_effect_is_found():
    results = [result(arm(share, seed=seed)) for share, seed in ((0.3, 1), (0.35, 2), (0.9, 3))]
    tests = compare_pairs(results, replicates=150)
    assert [(one.a, one.b) for one in tests] == [(0, 1), (0, 2), (1, 2)]
    none, large, _ = tests
    assert none.p > 0.05
    assert large.p < 1e-6
    assert large.p_group < 1e-3
    assert large.b_alone - large.a_alone == results[2].counts.caught - results[0].counts.caught
    assert 0.4 < large.recall.low < large.recall.value < large.recall.high
    assert large.mean_turn.value < 0
    assert large.auc.value == pytest.approx(large.delong.difference, abs=1e-12)
    assert large.benign.pairs == 130
    assert (large.conversations, large.left_out) == (220, 0)


def test_results_can_be_compared_with_one_of_them():
    results = [result(arm(share, seed=seed)) for share, seed in ((0.3, 1), (0.5, 2), (0.9, 3))]
    tests = compare_pairs(results, reference=1, replicates=60)
    assert [(one.a, one.b) for one in tests] == [(1, 0), (1, 2)]
    assert tests[0].recall.value < 0 < tests[1].recall.value
    assert compare_pairs(results[:1]) == ()
    with pytest.raises(UsageError, match="no result at place 7"):
        compare_pairs(results, reference=7)


def test_only_what_both_evaluated_is_compared_and_the_rest_is_counted():
    results = [result(arm(0.5, seed=1)), result(arm(0.5, seed=2, missing=10))]
    assert results[1].missing.attacks.count == 10
    [test] = compare_pairs(results, replicates=60)
    assert (test.conversations, test.left_out) == (210, 10)
    assert compare_pairs(results, replicates=60) == (test,)


def test_arms_without_an_attack_in_common_are_refused():
    results = [result(arm(0.5, attacks=3)), result(arm(0.5, attacks=3, missing=3))]
    with pytest.raises(UsageError, match="share no attack"):
        compare_pairs(results)
    other = dataclasses.replace(results[0], judged=tuple(arm(0.5, attacks=4)))
    with pytest.raises(UsageError, match="the same label"):
        compare_pairs([results[0], other])
