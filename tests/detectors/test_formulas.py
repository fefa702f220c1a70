"""Every detector against its formula, computed in the plainest way on the whole series at once."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from turnwise.detectors import build_detector, run_detector
from turnwise.scoring import Score, TurnScores, balance

series = st.lists(st.tuples(st.booleans(), st.floats(0, 1)), min_size=1, max_size=25).map(
    lambda points: [(turn, F) for turn, (there, F) in enumerate(points, start=1) if there]
)
"""Turn number and F of the evaluated turns; some turns are gaps."""

BENIGN, ATTACK = (1.0, 4.0), (1.0, 1.0)


def learned(weights, turns, intercept=0.0):
    """Return the log odds of principle p after the last turn, by a model with these weights."""
    detector = build_detector({"detector": "learned", "weights": weights, "intercept": intercept})
    return run_detector(detector, turns).signals[-1].contributions["p"]


def scores_of(spec, points):
    """Return the detector's score after each evaluated turn."""
    by_turn = dict(points)
    turns = [
        TurnScores(turn, {"p": Score(0.5, 0.3, by_turn[turn])} if turn in by_turn else {}, length=100)
        for turn in range(1, max(by_turn, default=0) + 1)
    ]
    signals = run_detector(build_detector(spec), turns).signals
    return [signals[turn - 1].score for turn, _ in points]


def log_ratios(values):
    inside = np.clip(values, 1e-3, 1 - 1e-3)
    ratios = stats.beta.logpdf(inside, *ATTACK) - stats.beta.logpdf(inside, *BENIGN)
    return np.clip(ratios, -4.0, 4.0).tolist()


def f_ema(values, alpha=0.3, level=0.5, slope_limit=0.15):
    averages = [
        (1 - alpha) ** k * values[0] + sum(alpha * (1 - alpha) ** (k - i) * values[i] for i in range(1, k + 1))
        for k in range(len(values))
    ]
    rises = [-math.inf, *(later - earlier for earlier, later in itertools.pairwise(averages))]
    return [max(average / level, rise / slope_limit) for average, rise in zip(averages, rises, strict=True)]


def page_hinkley(values, drift=0.02):
    sums = [0.0]
    for k in range(1, len(values) + 1):
        sums.append(sums[-1] + values[k - 1] - sum(values[:k]) / k - drift)
    return [sums[k] - min(sums[1 : k + 1]) for k in range(1, len(values) + 1)]


def shiryaev_roberts(values):
    """The sum over all turning points of the likelihood ratio of the turns since."""
    ratios = log_ratios(values)
    return [math.log(sum(math.exp(sum(ratios[j : k + 1])) for j in range(k + 1))) for k in range(len(values))]


def sprt(values, lower=-2.3):
    shown, total = [], 0.0
    for ratio in log_ratios(values):
        total = (0.0 if total <= lower else total) + ratio
        shown.append(total)
    return shown


def hmm(values, enter=0.05, leave=0.1, start=0.02):
    """Enumerate all paths through the two states."""
    likelier, shown = [math.exp(ratio) for ratio in log_ratios(values)], []
    for k in range(1, len(values) + 1):
        weight = {0: 0.0, 1: 0.0}
        for path in itertools.product((0, 1), repeat=k + 1):
            p = start if path[0] else 1 - start
            for ratio, (before, after) in zip(likelier, itertools.pairwise(path), strict=False):
                move = (leave if after == 0 else 1 - leave) if before else (enter if after else 1 - enter)
                p *= move * (ratio if after else 1.0)
            weight[path[-1]] += p
        shown.append(math.log(weight[1] / weight[0]))
    return shown


def peak_accumulation(values):
    shown = []
    for k in range(1, len(values) + 1):
        seen = values[:k]
        rising = k >= 3 and seen[-3] < seen[-2] < seen[-1]
        shown.append(max(seen) + 0.45 * sum(F >= 0.3 for F in seen) / k + (0.2 if rising else 0.0))
    return shown


def boundary_testing(values):
    shown = []
    for k in range(1, len(values) + 1):
        seen = values[:k]
        balances = [balance(Score(0.5, 0.3, F), 100) for F in seen]
        deltas = [later - earlier for earlier, later in itertools.pairwise(balances)][-5:]
        rules = [sum(F > 0.65 for F in seen) / 3, sum(F > 0.6 for F in seen[-5:]) / 3]
        if len(deltas) >= 2:
            rules.append(-sum(deltas) / len(deltas) / 0.3)
        shown.append(max(rules))
    return shown


@pytest.mark.parametrize(
    ("spec", "formula"),
    [
        ("f_ema", f_ema),
        ("page_hinkley", page_hinkley),
        ("shiryaev_roberts", shiryaev_roberts),
        ("sprt", sprt),
        ("peak_accumulation", peak_accumulation),
        ("boundary_testing", boundary_testing),
        ("first_turn", lambda values: [values[0]] * len(values)),
        ("last_turn", lambda values: values),
        (
            "count_flags:flag=0.4",
            lambda values: [sum(F >= 0.4 for F in values[:k]) for k in range(1, len(values) + 1)],
        ),
        ("length_only", lambda values: list(range(1, len(values) + 1))),
        ("length_only:chars=1", lambda values: [100 * k for k in range(1, len(values) + 1)]),
        ("always", lambda values: [1.0] * len(values)),
        ("never", lambda values: [0.0] * len(values)),
    ],
)
@given(points=series)
def test_the_score_is_that_of_the_formula(spec, formula, points):
    values = [F for _, F in points]
    expected = formula(values) if values else []
    assert scores_of(spec, points) == pytest.approx(expected, abs=1e-9)


@given(points=series)
def test_the_hidden_markov_filter_is_the_sum_over_all_paths(points):
    values = [F for _, F in points][:6]
    assert scores_of("hmm", points)[: len(values)] == pytest.approx(hmm(values) if values else [], abs=1e-9)


@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_page_hinkley_agrees_with_river(values):
    from river.drift import PageHinkley  # takes two seconds, which every worker would spend

    limit = 0.7
    theirs = PageHinkley(min_instances=1, delta=0.02, threshold=limit, alpha=1.0, mode="up")
    points = list(enumerate(values, start=1))
    ours = scores_of(f"page_hinkley:drift=0.02,limit={limit}", points)
    for value, score in zip(values, ours, strict=True):
        theirs.update(value)
        assert score == pytest.approx(theirs._sum_increase - theirs._min_increase, abs=1e-12)
        assert theirs.drift_detected == (score > limit)
        if theirs.drift_detected:  # from here on river starts anew, ours goes on
            break


@given(points=series, second=st.lists(st.floats(0, 1), min_size=25, max_size=25))
def test_the_features_are_what_they_say(points, second):
    if not points:
        return
    by_turn = dict(points)
    turns = [
        TurnScores(
            turn,
            {"p": Score(0.5, 0.3, by_turn[turn]), "q": Score(0.5, 0.3, second[turn - 1])}
            if turn in by_turn
            else {},
        )
        for turn in range(1, max(by_turn) + 1)
    ]
    numbers, values = [turn for turn, _ in points], [F for _, F in points]
    moves = [abs(later - earlier) for earlier, later in itertools.pairwise(values)]
    longest = run = 0
    for turn in range(1, max(by_turn) + 1):
        run = run + 1 if by_turn.get(turn, 0.0) >= 0.5 else 0
        longest = max(longest, run)
    expected = {
        "peak": max(values),
        "mean": sum(values) / len(values),
        "last": values[-1],
        "slope": stats.linregress(numbers, values).slope if len(values) > 2 else 0.0,
        "streak": math.log1p(longest),
        "cusum": scores_of("cusum", points)[-1],
        "volatility": sum(moves) / len(moves) if moves else 0.0,
        "divergence": max(F - min(F, second[turn - 1]) for turn, F in points),
        "turns": math.log1p(len(values)),
    }
    assert {name: learned({name: 1.0}, turns) for name in expected} == pytest.approx(expected, abs=1e-7)
    weights = {name: 0.5 + number for number, name in enumerate(expected)}
    odds = -1.0 + sum(weights[name] * expected[name] for name in expected)
    assert learned(weights, turns, intercept=-1.0) == pytest.approx(odds)
