"""What a pattern adds to the best rule on single turns, and its test on held-out conversations."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from turnwise.patterns import parse, series
from turnwise.rates import Rate
from turnwise.scoring import Score, TurnScores
from turnwise.stats import fisher_exact
from turnwise.study import Example, discover
from turnwise.study.discovery.verify import (
    SingleTurnRule,
    best_rule,
    count_matches,
    gain_of,
    one_of_each_group,
    peaks_of,
    verify,
)

F = series("reciprocity").F
RULE = SingleTurnRule(F, 0.6)


def chat(name: str, attack: bool, *falsities: float, group: str | None = None, other: float = 0.0) -> Example:
    turns = tuple(
        TurnScores(turn, {"reciprocity": Score(0.5, 0.1, value), "third_party_harm": Score(0.5, 0.1, other)}, 80)
        for turn, value in enumerate(falsities, start=1)
    )
    return Example(name, group or name, attack, turns)


def gain(attacks: list[tuple[float, bool]], benign: list[tuple[float, bool]], a_group: int = 1):
    """Return the gain where each conversation has a highest F, and a pattern that matches it or not."""
    pairs = [(True, number, *one) for number, one in enumerate(attacks)]
    pairs += [(False, number, *one) for number, one in enumerate(benign)]
    examples = [
        chat(f"{attack}{n}", attack, peak, group=f"{attack} {n // a_group}") for attack, n, peak, _ in pairs
    ]
    peaks = peaks_of(F, examples)
    return gain_of(RULE, list(peaks > RULE.limit), [matched for *_, matched in pairs], peaks, examples, 0)


def test_the_rule_is_loosened_until_it_flags_as_many():
    attacks = [(0.9, False), (0.5, True), (0.3, True), (0.2, False)]
    found = gain(attacks, [(0.7, False), (0.4, True), (0.35, False), (0.1, False)])
    assert (found.together.count, found.benign.count) == (3, 2)
    assert found.alone.count == 2  # the rule at 0.4 flags 0.7 and 0.4, and catches 0.9 and 0.5
    assert found.recall.value == pytest.approx(0.25)
    assert found.p == 0.5


def test_where_benign_ones_share_a_value_the_rule_may_flag_more():
    found = gain([(0.9, False), (0.5, True)], [(0.5, True), (0.5, False), (0.1, False)])
    assert (found.together.count, found.alone.count, found.recall.value) == (2, 2, 0)
    assert not found.shown


def test_where_neither_flags_a_benign_one_the_rule_stands_just_above_them():
    found = gain([(0.5, True), (0.45, True), (0.3, True)], [(0.4, False), (0.2, False)])
    assert (found.together.count, found.alone.count) == (3, 2)


def test_the_test_counts_groups_and_the_interval_resamples_them():
    attacks = [(0.1, number < 20) for number in range(40)]
    found = gain(attacks, [(0.2, False)] * 40, a_group=10)
    assert found.recall.value == 0.5
    assert found.p == 0.25  # two groups gained, two are as before
    assert found.recall.low < 0.2
    assert found.recall.high > 0.8


def test_each_resample_sets_the_limit_anew():
    generator = random.Random(3)
    attacks = [(generator.random(), generator.random() < 0.6) for _ in range(60)]
    benign = [(0.8 * generator.random(), generator.random() < 0.05) for _ in range(80)]
    found = gain(attacks, benign)
    rng, differences = np.random.default_rng(1), []
    for _ in range(400):
        a, b = ([rows[place] for place in rng.integers(0, len(rows), len(rows))] for rows in (attacks, benign))
        flagged = sum(peak > RULE.limit or matched for peak, matched in b)
        cut = sorted((peak for peak, _ in b), reverse=True)
        together = sum(peak > RULE.limit or matched for peak, matched in a)
        alone = sum(peak > cut[flagged] or (flagged > 0 and peak >= cut[flagged - 1]) for peak, _ in a)
        differences.append((together - alone) / len(a))
    low, high = np.quantile(differences, (0.025, 0.975))
    assert (found.recall.low, found.recall.high) == pytest.approx((low, high), abs=0.04)


def test_the_best_rule_is_the_one_that_catches_most_within_the_rate():
    examples = [chat(f"a{n}", True, 0.1, 0.5 + 0.01 * n, other=0.9) for n in range(20)]
    examples += [chat(f"b{n}", False, 0.4, other=0.95 if n < 3 else 0.1) for n in range(20)]
    read = [series("reciprocity").T, F, series("third_party_harm").F, series().F]
    assert best_rule(read, examples, 0) == SingleTurnRule(F, 0.4)
    assert best_rule(read, examples, 3) == SingleTurnRule(F, 0.4)
    assert best_rule(read[:1], examples, 3) is None
    assert best_rule([series("third_party_harm").F], examples, 2) is None


def spiked(planted: bool, seed: int = 8) -> list[Example]:
    """Return attacks that a single high turn gives away; where planted, half of them only rise instead."""
    generator = random.Random(seed)
    examples = []
    for number in range(280):
        attack = number < 120
        rows = [generator.uniform(0, 0.3) for _ in range(6)]
        if attack and not (planted and number % 2):
            rows[generator.randrange(6)] = generator.uniform(0.8, 1.0)
        elif attack:
            rows = [0.1 * turn + generator.uniform(0, 0.05) for turn in range(6)]
        else:
            rows[generator.randrange(6)] = generator.uniform(0.4, 0.65)
        examples.append(chat(f"c{number}", attack, *rows, group=f"g{number // 2}"))
    return examples


def test_nothing_is_found_where_single_turns_say_it_all():
    found = discover(spiked(planted=False), seed=2)
    assert found.found == ()
    rule = found.baselines[0]
    assert rule.name == "single turn"
    assert rule.held_out.attacks.count >= 0.95 * rule.held_out.attacks.of


@pytest.mark.shows("SC-006")
def test_what_single_turns_do_not_say_is_found_and_measured():
    found = discover(spiked(planted=True), seed=2)
    assert found.found
    best = found.found[0].gain
    assert best.together.count - best.alone.count == round(best.recall.value * best.together.of)
    assert best.recall.low > 0.2
    assert best.recall.high < 0.8
    assert best.benign.count <= 0.1 * best.benign.of


def example(name, group, attack, *falsities):
    turns = tuple(
        TurnScores(turn, {} if F is None else {"reciprocity": Score(0.5, 0.1, F)})
        for turn, F in enumerate(falsities, start=1)
    )
    return Example(name, group, attack, turns)


@given(st.integers(0, 12), st.integers(1, 12), st.integers(0, 15), st.integers(1, 15))
def test_the_p_value_is_the_tail_of_the_hypergeometric(hits, attacks, false, benign):
    hits, false = min(hits, attacks), min(false, benign)
    tail = hypergeom.sf(hits - 1, attacks + benign, hits + false, attacks)
    assert fisher_exact(Rate(hits, attacks), Rate(false, benign), greater=True) == pytest.approx(tail, abs=1e-12)


def test_counts_tell_the_labels_and_the_first_turn_apart():
    examples = [
        example("a", "a", True, 0.9),
        example("b", "b", True, None, 0.2, 0.8),
        example("c", "c", True, 0.1),
        example("d", "d", False, 0.8),
        example("e", "e", False, 0.1, 0.1),
    ]
    counts = count_matches(parse("F > 0.5"), examples)
    assert (counts.attacks, counts.benign, counts.at_first_turn) == (Rate(2, 3), Rate(1, 2), 1)
    assert counts.above(0.4)
    assert not counts.above(0.5)


def test_a_group_counts_once_a_label_in_the_test_but_whole_in_the_counts():
    alike = [example(f"a{n}", "one goal", True, 0.9) for n in range(50)]
    benign = [example(f"b{n}", f"b{n}", False, 0.1) for n in range(20)]
    pair = [example("t1", "twin", True, 0.9), example("t2", "twin", False, 0.1)]
    (tested,) = verify([parse("F > 0.5")], pair, [*alike, *benign, *pair], None, level=0.05, seed=0)
    assert tested.held_out.attacks == Rate(51, 51)
    assert tested.gain.p == 1 / 4  # two groups of attacks; one table of 23 choose 2 has a smaller p
    assert tested.p == 1 / 4
    kept = one_of_each_group([*alike, *pair], 3)
    assert len(kept) == 3
    assert one_of_each_group([*pair[::-1], *alike[::-1]], 3) == kept


def test_every_pattern_is_corrected_for_the_others():
    examples = [example(f"a{n}", f"a{n}", True, 0.9 if n < 8 else 0.1) for n in range(10)]
    examples += [example(f"b{n}", f"b{n}", False, 0.1) for n in range(12)]
    one = verify([parse("F > 0.5")], examples, examples, None, level=0.01, seed=0)
    many = verify(
        [parse("F > 0.5"), parse("F > 0.95"), parse("I > 0.5")], examples, examples, None, level=0.01, seed=0
    )
    assert one[0].found
    assert many[0].p_holm == pytest.approx(3 * one[0].p)
    assert not many[0].found
    assert [tested.p_holm for tested in many[1:]] == [1, 1]


def test_length_and_first_turn_stand_beside_what_was_found(make_planted):
    longer = []
    for given_example in make_planted(40, 120):
        turns = given_example.turns
        if given_example.attack:
            turns = (*turns, *(TurnScores(6 + n, turns[0].scores, 100) for n in range(3)))
        first = TurnScores(1, {"reciprocity": Score(0.6 if given_example.attack else 0.9, 0.1, 0.1)}, 100)
        longer.append(
            Example(given_example.sequence_id, given_example.group, given_example.attack, (first, *turns[1:]))
        )
    _, length, first_turn = discover(longer).baselines
    assert length.name == "length"
    assert str(length.expression) in {"turn >= 6", "turn >= 7", "turn >= 8"}
    assert str(first_turn.expression).startswith("at(")
    for baseline in (length, first_turn):
        assert baseline.held_out.attacks.count == baseline.held_out.attacks.of == 20
        assert baseline.held_out.benign.count == 0
    assert first_turn.held_out.at_first_turn == 20


def test_a_baseline_may_say_nothing(make_planted):
    same = [
        Example(e.sequence_id, e.group, e.attack, tuple(TurnScores(s.turn, s.scores, 100) for s in e.turns))
        for e in make_planted(40, 120)
    ]
    _, length, _ = discover(same).baselines
    assert (length.expression, length.discovery, length.held_out) == (None, None, None)


def test_patterns_are_tested_without_a_statistics_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    examples = [example(f"a{n}", f"a{n}", True, 0.9) for n in range(12)]
    examples += [example(f"b{n}", f"b{n}", False, 0.1) for n in range(12)]
    [found] = verify([parse("reciprocity.F > 0.5")], examples, examples, None, level=0.05, seed=0)
    assert found.found and found.p == pytest.approx(0.5**12)
