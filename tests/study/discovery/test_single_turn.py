"""What a pattern adds to the best rule on single turns; where it adds nothing, nothing is found."""

from __future__ import annotations

import random

import numpy as np
import pytest

from turnwise.patterns import series
from turnwise.scoring import Score, TurnScores
from turnwise.study import Example
from turnwise.study.discovery import SingleTurnRule, discover
from turnwise.study.discovery.verify import best_rule, gain_of, peaks_of

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
