"""Differences of arms over many splits of the same conversations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stats.conftest import conversations

from turnwise.errors import UsageError
from turnwise.stats import (
    CALIBRATE,
    TEST,
    Difference,
    draw_parts,
    matched_rates,
    resamples,
    split_gains,
    weighted_thresholds,
)
from turnwise.study import Example, split_by_group, threshold_for

RATE = 0.1


def study(seed=0, **options):
    scores, groups, attack = conversations(seed)
    parts = draw_parts(groups, attack, 6, seed=seed)
    return split_gains(scores, groups, attack, parts, [1] * 6, rate=RATE, replicates=60, **options)


def test_parts_are_those_that_a_study_with_the_seed_has():
    _, groups, attack = conversations(0)
    names = sorted(set(groups))
    examples = [
        Example(str(n), group, label, ()) for n, (group, label) in enumerate(zip(groups, attack, strict=True))
    ]
    found = draw_parts(groups, attack, 3, seed=7)
    for number, part in enumerate(found):
        split = split_by_group(examples, {"train": 0.3, "calibrate": 0.3, "test": 0.4}, 7 + number)
        for label, members in enumerate(split.values()):
            assert {example.group for example in members} == {names[n] for n in np.flatnonzero(part == label)}


def test_each_split_is_judged_at_the_threshold_that_calibration_sets():
    scores, groups, attack = conversations(3)
    parts = draw_parts(groups, attack, 4)
    found = split_gains(scores, groups, attack, parts, [1, 0, 1, 1], rate=RATE, replicates=5)
    names, labels = sorted(set(groups)), np.array(attack)
    for split, part in enumerate(parts):
        of = part[[names.index(group) for group in groups]]
        for arm in (0, 1):
            limit = threshold_for(scores[arm][(of == CALIBRATE) & ~labels], RATE)
            assert found.thresholds[split, arm] == pytest.approx(limit)
            assert found.recall[split, arm] == np.mean(scores[arm][(of == TEST) & labels] >= limit)
            assert found.fpr[split, arm] == np.mean(scores[arm][(of == TEST) & ~labels] >= limit)
    assert found.gain[1] == 0
    assert found.gain.tolist() == [found.recall[s, arm] - found.recall[s, 0] for s, arm in enumerate([1, 0, 1, 1])]
    assert found.overall.expected.value == pytest.approx(found.gain.mean())


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=30),
    st.sampled_from([0.05, 0.2, 0.4]),
    st.sampled_from([None, 0.5, 0.9]),
)
def test_a_weight_counts_a_conversation_so_many_times(pairs, rate, confidence):
    scores, weights = (np.array(column, dtype=float) for column in zip(*sorted(pairs, reverse=True), strict=True))
    found = weighted_thresholds(scores, weights[:, None], weights.sum(keepdims=True), rate, confidence)[0]
    repeated = np.repeat(scores, weights.astype(int))
    try:
        assert found == pytest.approx(threshold_for(list(repeated), rate, confidence))
    except UsageError:
        assert np.isnan(found)


def test_a_threshold_that_needs_more_than_the_highest_scores():
    """Many benign conversations share few groups, so that a resample may hold none of the highest scores."""
    rng = np.random.default_rng(0)
    groups = [f"b{n // 150}" for n in range(1500)] + [f"a{n}" for n in range(30)]
    attack = [False] * 1500 + [True] * 30
    scores = np.sort(rng.standard_normal(1530))[None]  # the last groups have all the high scores
    parts = np.array([[0] * 10 + [TEST] * 20 + [CALIBRATE] * 9 + [TEST]])
    found = split_gains(scores, groups, attack, parts, [0], rate=0.4, replicates=100)
    assert np.isfinite(found.replicates).all()


def test_each_resample_repeats_whole_groups_in_calibration_and_test_alike():
    scores, groups, attack = conversations(6)
    parts = draw_parts(groups, attack, 3)
    found = split_gains(scores, groups, attack, parts, [1] * 3, rate=RATE, replicates=8, seed=5)
    drawn = resamples(groups, attack, np.random.default_rng(5), 8)
    labels = np.array(attack)
    for number, counts in enumerate(drawn.counts.astype(int)):
        gains = []
        for part in parts[:, drawn.place]:
            recalls = []
            for arm in scores:
                benign, tested = (part == CALIBRATE) & ~labels, (part == TEST) & labels
                limit = threshold_for(list(np.repeat(arm[benign], counts[drawn.place[benign]])), RATE)
                recalls.append(np.mean(np.repeat(arm[tested], counts[drawn.place[tested]]) >= limit))
            gains.append(recalls[1] - recalls[0])
        assert found.replicates[number] == pytest.approx(np.mean(gains))
    low, high = np.quantile(found.replicates, [0.025, 0.975])
    assert (found.overall.expected.low, found.overall.expected.high) == (low, high)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.randoms(use_true_random=False))
def test_the_order_of_conversations_changes_nothing(seed, random):
    scores, groups, attack = conversations(seed)
    parts = draw_parts(groups, attack, 3)
    order = list(range(len(groups)))
    random.shuffle(order)
    moved = [groups[n] for n in order], [attack[n] for n in order]
    assert (draw_parts(*moved, 3) == parts).all()
    first = split_gains(scores, groups, attack, parts, [1] * 3, rate=RATE, replicates=20)
    second = split_gains(scores[:, order], *moved, parts, [1] * 3, rate=RATE, replicates=20)
    assert first.overall == second.overall
    assert first.replicates.tobytes() == second.replicates.tobytes()
    one = matched_rates(*scores, groups, attack, limits=(1.0, 1.2), replicates=20)
    other = matched_rates(*scores[:, order], *moved, limits=(1.0, 1.2), replicates=20)
    assert one == other


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000))
def test_equal_arms_gain_nothing_anywhere(seed):
    scores, groups, attack = conversations(seed, arms=1)
    twice = np.vstack([scores, scores])
    found = split_gains(twice, groups, attack, draw_parts(groups, attack, 3), [1] * 3, rate=RATE, replicates=20)
    expected, single = found.overall.expected, found.overall.one_study
    assert (expected.value, expected.low, expected.high) == (0, 0, 0)
    assert (single.helps, single.equal, single.hurts) == (0, 1, 0)
    compared = matched_rates(*twice, groups, attack, limits=(1.0, 1.0), replicates=20)
    for one in (*compared.partial_auc.values(), *compared.recall.values(), compared.thresholds_used):
        assert (one.value, one.low, one.high, one.p) == (0, 0, 0, 1)


def test_a_seed_gives_the_same_bytes_twice_and_another_does_not():
    assert study(seed=4).replicates.tobytes() == study(seed=4).replicates.tobytes()
    scores, groups, attack = conversations(0)
    parts = draw_parts(groups, attack, 2)
    of = [split_gains(scores, groups, attack, parts, [1, 1], rate=RATE, seed=n, replicates=30) for n in (0, 1)]
    assert of[0].replicates.tobytes() != of[1].replicates.tobytes()
    assert of[0].gain.tobytes() == of[1].gain.tobytes()


def test_an_arm_that_catches_everything_helps_every_study():
    scores, groups, attack = conversations(1)
    scores[1] = attack
    parts = draw_parts(groups, attack, 5)
    found = split_gains(scores, groups, attack, parts, [1] * 5, rate=RATE, replicates=100)
    assert found.recall[:, 1].tolist() == [1.0] * 5
    assert found.overall.one_study.helps == 1.0
    assert found.overall.expected.low > 0
    assert not found.overall.expected.conditions_on_threshold


def test_a_subset_counts_its_own_attacks_against_all_benign_conversations():
    scores, groups, attack = conversations(2)
    caught = np.arange(len(attack)) < 150  # attacks 120 to 149
    scores[0], scores[1] = 0.0, caught & np.array(attack)
    parts = draw_parts(groups, attack, 5)
    found = split_gains(
        scores,
        groups,
        attack,
        parts,
        [1] * 5,
        rate=RATE,
        replicates=50,
        sources={"these": caught, "others": ~caught},
    )
    assert found.by_source["these"].expected.value == 1.0
    assert found.by_source["others"].expected.value == 0.0
    assert found.by_source["these"].attacks + found.by_source["others"].attacks == found.overall.attacks == 60
    assert "fewer than 20 groups" in str(found.by_source["these"])


def test_fitted_arms_have_scores_of_their_own_in_each_split():
    scores, groups, attack = conversations(5)
    parts = draw_parts(groups, attack, 2)
    each = np.array([scores, scores[::-1]])
    found = split_gains(each, groups, attack, parts, [1, 1], rate=RATE, replicates=10)
    plain = split_gains(scores, groups, attack, parts, [1, 1], rate=RATE, replicates=10)
    assert found.recall[0].tolist() == plain.recall[0].tolist()
    assert found.recall[1].tolist() == plain.recall[1][::-1].tolist()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"scores": [[np.nan] * 180] * 2}, "no number"),
        ({"scores": [[np.inf] * 180] * 2}, "plus infinity"),
        ({"scores": [[1.0] * 179] * 2}, "one value for each arm"),
        ({"parts": [[3] * 75] * 2}, "parts need 0, 1 or 2"),
        ({"followed": [1]}, "2 splits need one followed arm each"),
        ({"followed": [1, 2]}, "arms from 0 to 1"),
        ({"rate": 0.001}, "a threshold at 0.001 needs 999"),
        ({"rate": 0.0}, "rate must lie in"),
        ({"sources": {"x": [True]}}, "sources must say of each conversation"),
        ({"parts": [[CALIBRATE] * 75] * 2}, "0 attacks to test on"),
    ],
)
def test_what_does_not_fit_is_refused(change, says):
    scores, groups, attack = conversations(0)
    given_ = {"scores": scores, "parts": draw_parts(groups, attack, 2), "followed": [1, 1], "rate": RATE} | change
    with pytest.raises(UsageError, match=says):
        split_gains(groups=groups, attack=attack, replicates=5, **given_)


def test_an_interval_says_whether_it_takes_the_threshold_as_given():
    told = [
        str(Difference("gain", 0.1, 0.0, 0.2, fixed, "percentile", 9, p=0.04, note="few"))
        for fixed in (True, False)
    ]
    assert told[0].endswith("for these thresholds alone: how they were chosen is not in the interval (few)")
    assert told[1] == "gain: +0.100 [+0.000, +0.200], p = 0.04 (few)"
