from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from turnwise.patterns import parse
from turnwise.rates import Rate
from turnwise.scoring import Score, TurnScores
from turnwise.stats import fisher_exact
from turnwise.study import Example
from turnwise.study.discovery import discover
from turnwise.study.discovery.verify import count_matches, one_of_each_group, verify


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
