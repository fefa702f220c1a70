from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar as oracle
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from turnwise.errors import UsageError
from turnwise.rates import clopper_pearson
from turnwise.study import holm
from turnwise.study.stats.judged_conversations import Judged, confusion
from turnwise.study.stats.paired import mcnemar, missing_bounds, paired_bounds, sign_flip


def judged(states, attack=True):
    """Return conversations that were flagged (True), not flagged (False) or not evaluated (None)."""
    return [
        Judged(
            f"{attack}{n}",
            f"g{n}",
            attack,
            4,
            None if state is None else 0.5,
            fired=bool(state),
            turn=2 if state else None,
            missing_turns=4 if state is None else 0,
        )
        for n, state in enumerate(states)
    ]


states = st.lists(st.sampled_from([True, False, None]), max_size=40)


@given(attacks=states, benign=states, guesses=st.lists(st.booleans(), min_size=80, max_size=80))
def test_whatever_the_missing_ones_would_have_been_the_rate_lies_within_the_bounds(attacks, benign, guesses):
    guess = iter(guesses)
    filled = [[next(guess) if state is None else state for state in side] for side in (attacks, benign)]
    found = missing_bounds([*judged(attacks), *judged(benign, False)])
    whole = confusion([*judged(filled[0]), *judged(filled[1], False)])
    for bounds, rate in ((found.recall, whole.recall), (found.fpr, whole.fpr)):
        assert bounds.none_flagged.of == bounds.all_flagged.of == rate.of
        assert bounds.none_flagged.count <= rate.count <= bounds.all_flagged.count
    assert found.attacks.count == attacks.count(None)
    assert found.benign.count == benign.count(None)
    absent, total = attacks.count(None) + benign.count(None), len(attacks) + len(benign)
    assert bool(found.warning) == (total > 0 and absent / total > 0.05)


def test_the_rates_of_what_was_evaluated_are_given_beside():
    found = missing_bounds(judged([True, True, False, None]))
    assert (found.recall.evaluated.count, found.recall.evaluated.of) == (2, 3)
    assert (found.turns.count, found.turns.of) == (4, 16)
    assert found.warning.startswith("1 of 4 conversations (25.0 %) were not evaluated")


def test_a_conclusion_that_missing_verdicts_could_turn_round_is_seen():
    first, second = judged([False] * 30), judged([True] * 8 + [None] * 22)
    found = paired_bounds(first, second)
    assert found.complete.pairs == 8
    assert found.complete.p == pytest.approx(2 / 2**8)
    assert found.for_second.b_alone == 30
    assert found.against_second.b_alone == 8
    assert paired_bounds(judged([None]), judged([False])).against_second.a_alone == 1
    assert paired_bounds(first, second, attack=False).complete.pairs == 0


def test_bounds_need_the_missing_ones_to_be_listed():
    with pytest.raises(UsageError, match="missing ones included"):
        paired_bounds(judged([True, False]), judged([True]))


verdicts = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)


@given(pairs=verdicts)
def test_the_p_value_is_that_of_statsmodels(pairs):
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    found = mcnemar(first, second)
    table = [[sum((one, other) == (x, y) for one, other in pairs) for y in (True, False)] for x in (True, False)]
    assert (found.a_alone, found.b_alone) == (table[0][1], table[1][0])
    assert found.p == pytest.approx(min(1.0, oracle(table, exact=True).pvalue), abs=1e-12)
    assert found.pairs == len(pairs)


@given(pairs=verdicts)
def test_the_test_does_not_care_which_detector_comes_first(pairs):
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    one, other = mcnemar(first, second), mcnemar(second, first)
    assert (one.a_alone, one.b_alone, one.p) == (other.b_alone, other.a_alone, other.p)


@given(pairs=verdicts)
def test_groups_of_one_give_the_ordinary_test(pairs):
    net = [int(other) - int(one) for one, other in pairs]
    found = mcnemar([one for one, _ in pairs], [other for _, other in pairs])
    assert sign_flip(net) == pytest.approx(found.p, abs=1e-12)


@settings(max_examples=25)
@given(net=st.lists(st.integers(-4, 4), max_size=9))
def test_the_sign_flip_is_the_count_over_all_signs(net):
    sums = [
        sum(s * d for s, d in zip(signs, net, strict=True))
        for signs in itertools.product((1, -1), repeat=len(net))
    ]
    expected = sum(abs(total) >= abs(sum(net)) for total in sums) / len(sums)
    assert sign_flip(net) == pytest.approx(expected, abs=1e-12)


def test_a_group_counts_once_however_many_conversations_it_has():
    found = mcnemar([False] * 20, [True] * 20, ["only one goal"] * 20)
    assert found.p < 1e-5
    assert found.p_group == 1.0


def test_detectors_that_never_differ_have_p_1():
    found = mcnemar([True, False], [True, False], ["x", "x"])
    assert (found.a_alone, found.b_alone, found.p, found.p_group) == (0, 0, 1.0, 1.0)
    assert mcnemar([], []).p == 1.0


@pytest.mark.parametrize("groups", [None, ["x"]])
def test_verdicts_must_be_paired(groups):
    with pytest.raises(UsageError, match="for every conversation"):
        mcnemar([True, False], [True] if groups is None else [True, False], groups)


@given(of=st.integers(1, 400), data=st.data())
def test_exact_intervals_are_those_of_statsmodels(of, data):
    count = data.draw(st.integers(0, of))
    low, high = clopper_pearson(count, of)
    assert (low, high) == pytest.approx(proportion_confint(count, of, 0.05, method="beta"), abs=1e-12)


@pytest.mark.parametrize("number", range(6))
def test_the_correction_agrees_with_statsmodels(number):
    """Few families: the other library collects garbage at every call."""
    generator = random.Random(number)
    values = [generator.choice([0.0, 0.01, 0.05, 1.0, generator.random()]) for _ in range(1 + 3 * number)]
    assert holm(values) == pytest.approx(multipletests(values, method="holm")[1], abs=1e-12)


@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=15))
def test_a_correction_lowers_no_value_and_keeps_their_order(values):
    corrected = holm(values)
    assert all(value <= other <= 1 for value, other in zip(values, corrected, strict=True))
    assert all(
        corrected[a] <= corrected[b]
        for a in range(len(values))
        for b in range(len(values))
        if values[a] < values[b]
    )


def test_nothing_tested_is_nothing_adjusted():
    assert holm([]) == ()


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_p_value_is_a_probability(value):
    with pytest.raises(UsageError, match="a p-value lies in"):
        holm([0.5, value])
