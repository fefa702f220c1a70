"""What is in the data is found, and what is not in them is not."""

from __future__ import annotations

import dataclasses
import itertools
import random
import re

import pytest

from turnwise.errors import UsageError
from turnwise.patterns import load_patterns, match, named, parse
from turnwise.study import discover
from turnwise.study.discovery import halves_of, names_of, to_yaml

PLANTED = "turns_since(current_streak(reciprocity.I > 0.5) >= 2) <= 1 and delta(F) > 0.3 and reciprocity.T > 0.5"
"""The pattern as a person who knows how the data were made would write it."""

SHUFFLES = 6


@pytest.fixture(scope="module")
def found(planted):
    return discover(planted, seed=1)


def ever(expression, examples):
    return [match(expression, example.turns).ever for example in examples]


def shuffled(examples, seed):
    """Return the examples with their labels dealt out anew among the groups."""
    attacked = {example.group: example.attack for example in examples}
    labels = list(attacked.values())
    random.Random(seed).shuffle(labels)
    dealt = dict(zip(attacked, labels, strict=True))
    return [dataclasses.replace(example, attack=dealt[example.group]) for example in examples]


@pytest.mark.shows("SC-006")
def test_a_planted_pattern_is_found_in_an_equivalent_form(found, make_planted):
    fresh = make_planted(100, 300, seed=99)
    wanted = ever(parse(PLANTED), fresh)
    assert wanted == [example.attack for example in fresh]
    best = found.found[0]
    agreed = [a == b for a, b in zip(ever(best.expression, fresh), wanted, strict=True)]
    assert sum(agreed) >= 0.97 * len(fresh)
    assert set(re.findall(r"\b(?:T|I|F|balance|strength)\b", str(best.expression))) == {"T", "I", "F"}
    assert best.p_holm < 1e-4
    assert best.gain.recall.low > 0.8


def test_no_part_of_it_is_enough_so_no_simpler_pattern_is_reported(found, planted):
    first, _ = halves_of(sorted(planted, key=lambda example: example.sequence_id), 1)
    allowed = 0.01 * found.discovery.benign
    for tested in found.patterns:
        conditions = str(tested.expression).split(" and ")
        assert len(conditions) > 1
        for rest in itertools.combinations(conditions, len(conditions) - 1):
            matched = ever(parse(" and ".join(rest)), first)
            benign = sum(hit for hit, example in zip(matched, first, strict=True) if not example.attack)
            assert benign > allowed


def test_the_counts_are_those_of_the_pattern_itself(found, planted):
    halves = halves_of(sorted(planted, key=lambda example: example.sequence_id), 1)
    for tested in found.patterns:
        for counts, half in zip((tested.discovery, tested.held_out), halves, strict=True):
            hits = [(example.attack, match(tested.expression, example.turns).turn) for example in half]
            assert counts.attacks.count == sum(attack and turn is not None for attack, turn in hits)
            assert counts.benign.count == sum(not attack and turn is not None for attack, turn in hits)
            assert counts.at_first_turn == sum(attack and turn == 1 for attack, turn in hits)
        assert not tested.discovery.above(found.max_fpr)


def test_no_group_is_in_both_halves_and_nothing_is_lost(planted):
    for seed in range(5):
        halves = halves_of(planted, seed)
        one, other = ({example.group for example in half} for half in halves)
        assert not one & other
        assert len(halves[0]) + len(halves[1]) == len(planted)


def test_the_held_out_half_has_no_part_in_the_choice(found, planted):
    _, second = halves_of(planted, 1)
    names = {example.sequence_id for example in second}
    donors = {example.attack: example.turns for example in second}
    spoilt = [
        dataclasses.replace(example, turns=donors[not example.attack]) if example.sequence_id in names else example
        for example in planted
    ]
    again = discover(spoilt, seed=1)
    assert {str(tested.expression) for tested in again.patterns} == {
        str(tested.expression) for tested in found.patterns
    }
    assert again.found == ()
    assert all(tested.p_holm == 1 for tested in again.patterns)


def test_the_same_seed_gives_the_same_in_any_order(found, planted):
    mixed = list(planted)
    random.Random(4).shuffle(mixed)
    assert discover(mixed, seed=1) == found


@pytest.mark.shows("SC-006")
def test_on_shuffled_labels_it_reports_nothing(make_planted):
    examples = make_planted(32, 64)
    told = [discover(shuffled(examples, seed), seed=seed) for seed in range(SHUFFLES)]
    assert sum(bool(discovery.found) for discovery in told) <= 1
    # The search itself does find what fits by chance; it is the held-out half that refutes it.
    assert sum(bool(discovery.patterns) for discovery in told) > SHUFFLES / 2


def test_what_was_found_is_a_file_of_named_patterns(found, planted, tmp_path):
    path = tmp_path / "found.yaml"
    path.write_text(to_yaml(found, "first", "local 1.2"), encoding="utf-8")
    library = load_patterns(path)
    assert list(names_of(found)) == [name for name in library.names() if name.startswith("found_")]
    for name, tested in names_of(found).items():
        assert named(name, patterns=library).body == tested.expression
        pattern = library.get(name)
        assert str(tested.held_out.attacks) in pattern.description
        assert "--run first" in pattern.reference
        assert "--seed 1" in pattern.reference
        assert "local 1.2" in pattern.reference


def test_more_data_than_fit_are_searched_in_part(planted, monkeypatch):
    monkeypatch.setattr("turnwise.study.discovery.method.MOST_TURNS", 500)
    found = discover(planted, seed=1)
    assert found.searched == 100
    assert found.discovery.attacks + found.discovery.benign == 150


def test_it_says_how_far_it_is(planted):
    told = []
    discover(planted[:30] + planted[-120:], tell=told.append)
    assert "searching" in told[0]
    assert "testing" in told[-1]


@pytest.mark.parametrize(
    ("attacks", "benign", "message"),
    [
        (16, 200, "8 evaluated attacks are too few for the discovery half: at least 10"),
        (60, 12, "6 evaluated benign conversations are too few"),
    ],
)
def test_too_few_conversations_are_refused(attacks, benign, message, make_planted):
    with pytest.raises(UsageError, match=message):
        discover(make_planted(attacks, benign))


@pytest.mark.parametrize("setting", [{"max_fpr": 0}, {"max_fpr": 1}, {"level": 0}, {"level": 1.5}])
def test_rates_lie_between_0_and_1(setting, planted):
    with pytest.raises(UsageError, match=r"must lie in \(0, 1\)"):
        discover(planted, **setting)
