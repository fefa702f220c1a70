from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta
from sklearn.metrics import roc_auc_score, roc_curve

from turnwise.errors import UsageError
from turnwise.rates import Rate
from turnwise.study import threshold_for, threshold_with_confidence
from turnwise.study.examples import Example, split_by_group
from turnwise.study.stats import cautions
from turnwise.study.stats.bootstrap import resamples
from turnwise.study.stats.matched_rates import matched_rates, roc_heads
from turnwise.study.stats.redraw import Difference, draw_parts, redraws
from turnwise.study.stats.split_samples import CALIBRATE, TEST, weighted_limits
from turnwise.study.stats.turn_truth import TurnVerdict, flagged_turns, summarise_turns

RATE = 0.1


def conversations(seed, arms=2, benign=120, attacks=60, decimals=1):
    """Return scores with many ties, groups of up to four, and labels."""
    rng = np.random.default_rng(seed)
    groups = [f"b{n // 2}" for n in range(benign)] + [f"a{n // 4}" for n in range(attacks)]
    attack = [False] * benign + [True] * attacks
    scores = rng.standard_normal((arms, benign + attacks)) + 1.5 * np.array(attack)
    return scores.round(decimals), groups, attack


def study(seed=0, **options):
    scores, groups, attack = conversations(seed)
    parts = draw_parts(groups, attack, 6, seed=seed)
    return redraws(scores, groups, attack, parts, [1] * 6, rate=RATE, replicates=60, **options)


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
    found = redraws(scores, groups, attack, parts, [1, 0, 1, 1], rate=RATE, replicates=5)
    names, labels = sorted(set(groups)), np.array(attack)
    for split, part in enumerate(parts):
        of = part[[names.index(group) for group in groups]]
        for arm in (0, 1):
            limit = threshold_for(scores[arm][(of == CALIBRATE) & ~labels], RATE)
            assert found.limits[split, arm] == pytest.approx(limit)
            assert found.recall[split, arm] == np.mean(scores[arm][(of == TEST) & labels] >= limit)
            assert found.false_positive_rate[split, arm] == np.mean(scores[arm][(of == TEST) & ~labels] >= limit)
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
    found = weighted_limits(scores, weights[:, None], weights.sum(keepdims=True), rate, confidence)[0]
    repeated = np.repeat(scores, weights.astype(int))
    try:
        if confidence is None:
            expected = threshold_for(list(repeated), rate)
        else:
            expected = threshold_with_confidence(list(repeated), rate, confidence)
        assert found == pytest.approx(expected)
    except UsageError:
        assert np.isnan(found)


def test_a_threshold_that_needs_more_than_the_highest_scores():
    """Many benign conversations share few groups, so that a resample may hold none of the highest scores."""
    rng = np.random.default_rng(0)
    groups = [f"b{n // 150}" for n in range(1500)] + [f"a{n}" for n in range(30)]
    attack = [False] * 1500 + [True] * 30
    scores = np.sort(rng.standard_normal(1530))[None]  # the last groups have all the high scores
    parts = np.array([[0] * 10 + [TEST] * 20 + [CALIBRATE] * 9 + [TEST]])
    found = redraws(scores, groups, attack, parts, [0], rate=0.4, replicates=100)
    assert np.isfinite(found.replicates).all()


def test_each_resample_repeats_whole_groups_in_calibration_and_test_alike():
    scores, groups, attack = conversations(6)
    parts = draw_parts(groups, attack, 3)
    found = redraws(scores, groups, attack, parts, [1] * 3, rate=RATE, replicates=8, seed=5)
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
    first = redraws(scores, groups, attack, parts, [1] * 3, rate=RATE, replicates=20)
    second = redraws(scores[:, order], *moved, parts, [1] * 3, rate=RATE, replicates=20)
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
    found = redraws(twice, groups, attack, draw_parts(groups, attack, 3), [1] * 3, rate=RATE, replicates=20)
    expected, single = found.overall.expected, found.overall.one_study
    assert (expected.value, expected.low, expected.high) == (0, 0, 0)
    assert (single.helps, single.equal, single.hurts) == (0, 1, 0)
    compared = matched_rates(*twice, groups, attack, limits=(1.0, 1.0), replicates=20)
    for one in (*compared.partial_auc.values(), *compared.recall.values(), compared.carried_over):
        assert (one.value, one.low, one.high, one.p) == (0, 0, 0, 1)


def test_a_seed_gives_the_same_bytes_twice_and_another_does_not():
    assert study(seed=4).replicates.tobytes() == study(seed=4).replicates.tobytes()
    scores, groups, attack = conversations(0)
    parts = draw_parts(groups, attack, 2)
    of = [redraws(scores, groups, attack, parts, [1, 1], rate=RATE, seed=n, replicates=30) for n in (0, 1)]
    assert of[0].replicates.tobytes() != of[1].replicates.tobytes()
    assert of[0].gain.tobytes() == of[1].gain.tobytes()


def test_an_arm_that_catches_everything_helps_every_study():
    scores, groups, attack = conversations(1)
    scores[1] = attack
    parts = draw_parts(groups, attack, 5)
    found = redraws(scores, groups, attack, parts, [1] * 5, rate=RATE, replicates=100)
    assert found.recall[:, 1].tolist() == [1.0] * 5
    assert found.overall.one_study.helps == 1.0
    assert found.overall.expected.low > 0
    assert not found.overall.expected.conditions_on_threshold


def test_a_subset_counts_its_own_attacks_against_all_benign_conversations():
    scores, groups, attack = conversations(2)
    caught = np.arange(len(attack)) < 150  # attacks 120 to 149
    scores[0], scores[1] = 0.0, caught & np.array(attack)
    parts = draw_parts(groups, attack, 5)
    found = redraws(
        scores,
        groups,
        attack,
        parts,
        [1] * 5,
        rate=RATE,
        replicates=50,
        subsets={"these": caught, "others": ~caught},
    )
    assert found.subsets["these"].expected.value == 1.0
    assert found.subsets["others"].expected.value == 0.0
    assert found.subsets["these"].attacks + found.subsets["others"].attacks == found.overall.attacks == 60
    assert "fewer than 20 groups" in str(found.subsets["these"])


def test_fitted_arms_have_scores_of_their_own_in_each_split():
    scores, groups, attack = conversations(5)
    parts = draw_parts(groups, attack, 2)
    each = np.array([scores, scores[::-1]])
    found = redraws(each, groups, attack, parts, [1, 1], rate=RATE, replicates=10)
    plain = redraws(scores, groups, attack, parts, [1, 1], rate=RATE, replicates=10)
    assert found.recall[0].tolist() == plain.recall[0].tolist()
    assert found.recall[1].tolist() == plain.recall[1][::-1].tolist()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"scores": [[np.nan] * 180] * 2}, "not finite"),
        ({"scores": [[1.0] * 179] * 2}, "one value for each arm"),
        ({"parts": [[3] * 75] * 2}, "parts need 0, 1 or 2"),
        ({"followed": [1]}, "2 splits need one followed arm each"),
        ({"followed": [1, 2]}, "arms 0 to 1"),
        ({"rate": 0.001}, "a threshold at 0.001 needs 999"),
        ({"rate": 0.0}, "rate must lie in"),
        ({"subsets": {"x": [True]}}, "a subset says for each conversation"),
        ({"parts": [[CALIBRATE] * 75] * 2}, "0 attacks to test on"),
    ],
)
def test_what_does_not_fit_is_refused(change, says):
    scores, groups, attack = conversations(0)
    given_ = {"scores": scores, "parts": draw_parts(groups, attack, 2), "followed": [1, 1], "rate": RATE} | change
    with pytest.raises(UsageError, match=says):
        redraws(groups=groups, attack=attack, replicates=5, **given_)


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
    assert found.carried_over.conditions_on_threshold
    assert "for these thresholds alone" in str(found.carried_over)
    assert found.realised[0].count < found.realised[1].count
    assert str(found.realised[1]) in str(found)


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


def test_an_interval_says_whether_it_takes_the_threshold_as_given():
    told = [
        str(Difference("gain", 0.1, 0.0, 0.2, fixed, "percentile", 9, p=0.04, note="few"))
        for fixed in (True, False)
    ]
    assert told[0].endswith("for these thresholds alone: how they were chosen is not in the interval (few)")
    assert told[1] == "gain: +0.100 [+0.000, +0.200], p = 0.04 (few)"


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
    with pytest.raises(UsageError, match="1 values for 2"):
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


@pytest.mark.parametrize(
    ("reader", "fired", "outcome", "delay"),
    [
        ((3, 5), 3, "hit", 0),
        ((3, 5), 8, "hit", 5),
        ((5, 3), 1, "early", -2),
        ((3,), None, "miss", None),
        ((), 4, "false alarm", None),
        ((), None, "clear", None),
    ],
)
def test_a_detector_beside_a_reader(reader, fired, outcome, delay):
    found = TurnVerdict("g", 9, reader, fired)
    assert (found.outcome, found.delay) == (outcome, delay)


def test_a_turn_that_the_conversation_does_not_have_is_refused():
    for reader, fired in (((0,), None), ((), 10)):
        with pytest.raises(UsageError, match="turns 1 to 9"):
            TurnVerdict("g", 9, reader, fired)


def test_a_summary_counts_every_outcome_once():
    reader = flagged_turns([{"scarcity": 0.49}, {"scarcity": 0.1, "liking": 0.5}, {}])
    assert reader == (2,)
    verdicts = [TurnVerdict(f"g{n}", 10, reader, 2 + n) for n in range(5)]
    verdicts += [TurnVerdict("e", 10, (8,), 4), TurnVerdict("m", 10, (1,), None)]
    verdicts += [TurnVerdict("f", 50, (), 7), TurnVerdict("c", 50, (), None)]
    found = summarise_turns(verdicts, replicates=200)
    assert (found.hit, found.early, found.miss) == (Rate(5, 7), Rate(1, 7), Rate(1, 7))
    assert found.false_alarm == Rate(1, 2)
    assert found.alarms_per_thousand == (10.0, *(1000 * end for end in Rate(1, 100).interval))
    assert [found.delay[share].value for share in (0.25, 0.5, 0.75)] == [1, 2, 3]
    assert 0 <= found.delay[0.5].low < 2 < found.delay[0.5].high <= 4
    assert found.lead[0.5].value == 4
    assert "delay of the hits: median 2 turns" in str(found)
    assert found == summarise_turns(verdicts[::-1], replicates=200)


def test_a_summary_of_nothing_has_no_numbers():
    found = summarise_turns([])
    assert found.alarms_per_thousand is None and np.isnan(found.delay[0.5].value)
    assert str(found).startswith("hit: 0/0")
