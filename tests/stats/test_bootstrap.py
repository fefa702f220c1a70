from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, roc_auc_score

from turnwise.errors import UsageError
from turnwise.stats import (
    Judged,
    ResampleWeights,
    alarms_of,
    auc_of,
    confusion,
    delay_of,
    difference,
    f1_of,
    fpr_of,
    horizon_of,
    interval,
    interval_of,
    kaplan_meier,
    precision_of,
    recall_at_of,
    recall_of,
    resamples,
)
from turnwise.study import threshold_for


@st.composite
def conversations(draw, least=3, most=25):
    found = []
    for number in range(draw(st.integers(least, most))):
        turns = draw(st.integers(1, 8))
        turn = draw(st.none() | st.integers(1, turns))
        found.append(
            Judged(
                sequence_id=f"s{number:03}",
                group=f"g{draw(st.integers(0, 6))}",
                attack=number % 2 == 0,
                turns=turns,
                score=draw(st.integers(0, 5)) / 5,
                fired=turn is not None,
                turn=turn,
                final=draw(st.booleans()),
                alarms=draw(st.integers(0, 2)),
            )
        )
    return found


def once(judged):
    return ResampleWeights(np.ones((1, len(judged))), np.arange(len(judged)))


def drawn_from(judged, seed=0, replicates=50):
    rng = np.random.default_rng(seed)
    return resamples([one.group for one in judged], [one.attack for one in judged], rng, replicates)


@settings(max_examples=25)
@given(judged=conversations())
def test_with_equal_weights_a_statistic_is_what_it_says(judged):
    counts = confusion(judged)
    labels, flags = [one.attack for one in judged], [one.fired for one in judged]
    scores = [one.score for one in judged]
    assert recall_of(judged)(once(judged))[0] == pytest.approx(counts.recall.count / counts.recall.of)
    found = fpr_of(judged, final=True)(once(judged))[0]
    last = confusion(judged, final=True)
    assert found == pytest.approx(last.false_alarms / (last.false_alarms + last.cleared))
    assert f1_of(judged)(once(judged))[0] == pytest.approx(f1_score(labels, flags, zero_division=0))
    assert auc_of(judged)(once(judged))[0] == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    precision = precision_of(judged)(once(judged))[0]
    if counts.precision.of:
        assert precision == pytest.approx(counts.precision.count / counts.precision.of)
    else:
        assert math.isnan(precision)
    benign = [one for one in judged if not one.attack]
    expected = 1000 * sum(one.alarms for one in benign) / sum(one.turns for one in benign)
    assert alarms_of(judged)(once(judged))[0] == pytest.approx(expected)


@settings(max_examples=25)
@given(judged=conversations(), horizon=st.integers(1, 9))
def test_the_mean_delay_is_the_area_under_the_curve(judged, horizon):
    attacks = [one for one in judged if one.attack]
    curve = kaplan_meier([one.turn or one.turns for one in attacks], [one.fired for one in attacks])
    area = sum(curve.at(turn) for turn in range(horizon))
    assert delay_of(judged, horizon)(once(judged))[0] == pytest.approx(area, abs=1e-12)


@given(judged=conversations(least=20, most=40), rate=st.sampled_from([0.1, 0.2, 0.3, 0.5]))
def test_recall_at_a_rate_uses_the_calibrated_threshold(judged, rate):
    limit = threshold_for([one.score for one in judged if not one.attack], rate)
    attacks = [one.score for one in judged if one.attack]
    expected = sum(score >= limit for score in attacks) / len(attacks)
    assert recall_at_of(judged, rate)(once(judged))[0] == pytest.approx(expected)


@given(judged=conversations(least=8))
def test_weights_count_a_conversation_as_often_as_they_say(judged):
    drawn = drawn_from(judged, replicates=3)
    for statistic in (recall_of, f1_of, auc_of, delay_of, alarms_of):
        kwargs = {"horizon": 5} if statistic is delay_of else {}
        found = drawn.replicates(statistic(judged, **kwargs))
        for row, value in zip(drawn.counts, found, strict=True):
            copies = [one for one, place in zip(judged, drawn.place, strict=True) for _ in range(int(row[place]))]
            if {one.attack for one in copies} == {True, False}:
                assert value == pytest.approx(statistic(copies, **kwargs)(once(copies))[0], nan_ok=True)


@settings(max_examples=25)
@given(judged=conversations(), seed=st.integers(0, 9))
def test_the_same_seed_gives_the_same_draws_in_any_order(judged, seed):
    forth, back = drawn_from(judged, seed), drawn_from(judged[::-1], seed)
    assert (forth.counts == back.counts).all()
    there, again = interval(recall_of(judged), forth), interval(recall_of(judged[::-1]), back)
    assert (there.low, there.high) == (again.low, again.high)


def test_another_seed_gives_other_draws():
    judged = [Judged(str(n), str(n), True, 3, 0.5) for n in range(40)]
    assert (drawn_from(judged, 1).counts != drawn_from(judged, 2).counts).any()


@settings(max_examples=25)
@given(judged=conversations())
def test_groups_are_drawn_whole_and_as_many_of_each_kind_as_there_are(judged):
    drawn = drawn_from(judged)
    attacked = {one.group for one in judged if one.attack}
    names = sorted({one.group for one in judged})
    kinds = np.array([name in attacked for name in names])
    assert (drawn.counts.sum(axis=1) == len(names)).all()
    assert (drawn.counts[:, kinds].sum(axis=1) == kinds.sum()).all()
    assert [names[place] for place in drawn.place] == [one.group for one in judged]


def test_conversations_that_are_alike_give_a_wider_interval():
    rng = np.random.default_rng(3)
    flags = np.repeat(rng.random(40) < 0.5, 8)

    def judged(group):
        return [
            Judged(str(n), group(n), True, 3, 0.5, fired=bool(hit), turn=1 if hit else None)
            for n, hit in enumerate(flags)
        ]

    def width(group):
        found = interval(recall_of(judged(group)), drawn_from(judged(group), replicates=1000))
        return found.high - found.low

    assert width(lambda n: str(n // 8)) > 2 * width(str)


@pytest.mark.parametrize(("method", "scipy_method"), [("percentile", "percentile"), ("bca", "BCa")])
def test_the_interval_is_near_that_of_scipy(method, scipy_method):
    values = np.random.default_rng(8).exponential(size=60)

    def mean(weights):
        sums = weights.sums(np.column_stack([values, np.ones(60)]))
        return sums[:, 0] / sums[:, 1]

    drawn = resamples([str(n) for n in range(60)], [True] * 60, np.random.default_rng(1), 8000)
    order = np.argsort([str(n) for n in range(60)])
    assert drawn.place[order].tolist() == list(range(60))
    found = interval(mean, drawn, method=method)
    oracle = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=8000, method=scipy_method, rng=np.random.default_rng(2)
    ).confidence_interval
    assert (found.low, found.high) == pytest.approx((oracle.low, oracle.high), abs=0.015)
    assert (found.value, found.method, found.groups) == (pytest.approx(values.mean()), method, 60)


def test_differences_are_paired():
    first = [Judged(str(n), str(n), True, 3, 0.1, fired=n < 20, turn=1 if n < 20 else None) for n in range(60)]
    second = [Judged(str(n), str(n), True, 3, 0.1, fired=n < 40, turn=1 if n < 40 else None) for n in range(60)]
    found = interval(difference(recall_of(first), recall_of(second)), drawn_from(first, replicates=500))
    assert found.value == pytest.approx(1 / 3)
    assert 0.15 < found.low < found.value < found.high < 0.5
    same = interval(difference(recall_of(first), recall_of(first)), drawn_from(first))
    assert (same.low, same.high) == (0.0, 0.0)
    assert "no width" in same.note


def test_what_an_interval_does_not_say_is_noted():
    judged = [Judged(str(n), str(n), True, 3, 0.1, fired=n < 3, turn=1 if n < 3 else None) for n in range(9)]
    found = interval(recall_of(judged), drawn_from(judged))
    assert "fewer than 20 groups" in found.note
    none = interval(fpr_of(judged), drawn_from(judged))
    assert math.isnan(none.value)
    assert "can't be computed" in none.note
    rarely = interval(precision_of(judged), drawn_from(judged, replicates=2000))
    assert "of 2000 resamples could not be used" in rarely.note
    assert math.isnan(recall_at_of(judged, 0.01)(once(judged))[0])
    assert math.isnan(delay_of([Judged("b", "b", False, 3, 0.1)])(once(judged[:1]))[0])
    assert horizon_of([]) == 1


def test_bca_without_anything_that_moves_is_the_value_itself():
    judged = [Judged(str(n), str(n), True, 3, 0.1, fired=True, turn=1) for n in range(30)]
    found = interval(recall_of(judged), drawn_from(judged), method="bca")
    assert (found.low, found.high) == (1.0, 1.0)


def test_a_bootstrap_refuses_what_it_can_not_draw():
    with pytest.raises(UsageError, match="at least one conversation"):
        resamples([], [], np.random.default_rng(0))
    judged = [Judged("a", "a", True, 3, 0.1)]
    with pytest.raises(UsageError, match="confidence must lie in"):
        interval_of(0.5, np.array([0.5]), recall_of(judged), drawn_from(judged), 1.0)
