"""The search counts, packed into bits, what a live evaluation of the pattern says."""

from __future__ import annotations

import random

import numpy as np
import pytest

from turnwise.patterns import Evaluator, parse, series
from turnwise.scoring import Score, TurnScores
from turnwise.study import Example
from turnwise.study.discovery.conditions import BitLayout, conditions_of, decimals_of, limits_above, usual_values
from turnwise.study.discovery.quantities import Quantity, evaluated_turns, quantities, series_in, values_of

PRINCIPLES = ("reciprocity", "third_party_harm")


def sparse_example(name, attack, turns, generator):
    """Return a conversation with gaps of a principle, of a side, and of a whole turn."""
    told = []
    for turn in range(1, turns + 1):
        sides = [
            {
                principle: Score(*(generator.choice([0.0, 0.1, 0.25, 0.5, 0.7, 0.9]) for _ in "TIF"))
                for principle in PRINCIPLES
                if generator.random() < chance
            }
            for chance in (0.7, 0.3)
        ]
        told.append(TurnScores(turn, sides[0], 100, sides[1], 200))
    return Example(name, name, attack, tuple(told))


@pytest.fixture(scope="module")
def examples():
    generator = random.Random(8)
    made = [sparse_example(f"c{n}", n >= 25, generator.choice([1, 3, 8, 9, 20]), generator) for n in range(50)]
    return [example for example in made if evaluated_turns(example)]


@pytest.fixture(scope="module")
def layout(examples):
    lengths = np.array([len(evaluated_turns(example)) for example in examples])
    benign = sum(not example.attack for example in examples)
    return BitLayout(lengths, benign, benign - 5, len(examples) - benign - 10)


@pytest.fixture(scope="module")
def looked_at(examples):
    read = series_in(examples)
    table = values_of(read, examples)
    return quantities(read, {x: usual_values(column) for x, column in zip(read, table.columns, strict=True)})


@pytest.fixture(scope="module")
def pool(examples, layout, looked_at):
    table = values_of([quantity.expression for quantity in looked_at], examples)
    return conditions_of(looked_at, table, layout, 0.05)


def test_every_expression_parses_back(looked_at):
    for quantity in looked_at:
        assert parse(f"{quantity.expression} > 0").children()[0] == quantity.expression


def test_matches_are_those_of_the_live_evaluation(pool, examples, layout):
    generator = random.Random(1)
    for _ in range(60):
        members = tuple(sorted(generator.sample(range(len(pool.conditions)), generator.randint(1, 3))))
        evaluator = Evaluator(pool.expression(members))
        live = [any(value.holds for value in evaluator.run(example.turns)) for example in examples]
        assert pool.matched(members).tolist() == live
        place = generator.randrange(len(pool.conditions))
        attacks, benign = pool.counts(np.array([place]), members)
        both = pool.matched((*members, place))
        assert attacks[0] == both[layout.searched_attacks].sum()
        assert benign[0] == both[layout.searched_benign].sum()


def test_no_two_conditions_hold_at_the_same_turns_and_none_everywhere(pool, examples):
    assert len({row.tobytes() for row in pool.bits}) == len(pool.conditions)
    turns = sum(len(evaluated_turns(example)) for example in examples)
    held = np.unpackbits(pool.bits, axis=1).sum(axis=1)
    assert held.min() > 0
    assert held.max() < turns


def test_of_the_same_condition_the_simplest_stays(examples, layout):
    x = series("reciprocity").F
    twice = [Quantity(x + x - x * 1.0, "long"), Quantity(x, "short")]
    table = values_of([quantity.expression for quantity in twice], examples)
    alike = np.array_equal(table.columns[0], table.columns[1], equal_nan=True)
    pool = conditions_of(twice, table, layout, 0.05)
    assert alike
    assert {condition.family for condition in pool.conditions} == {"short up", "short down"}


def test_series_are_those_that_the_data_have(examples):
    read = set(series_in(examples))
    assert {series("reciprocity").F, series().T, series().balance} <= read
    assert any(str(found) == "response.third_party_harm.I" for found in read)
    alone = [
        Example("a", "a", False, (TurnScores(1, {"reciprocity": Score(0.5, 0.1, 0.2)}),)),
        Example("b", "b", True, (TurnScores(1, {}),)),
    ]
    assert [str(found) for found in series_in(alone) if found.principle is None] == ["balance", "strength"]


def test_limits_keep_out_the_benign_and_keep_in_the_attacks():
    benign = np.array([0.1, 0.2, 0.2, 0.3, 0.512])
    attacks = np.array([0.3, 0.7, 0.7, 0.7, 0.9])
    limits = limits_above(np.concatenate([benign, attacks]), benign, attacks, 0.01)
    assert any((benign > limit).sum() == 0 and (attacks > limit).sum() == 4 for limit in limits)
    assert any((attacks > limit).sum() == 4 and limit == 0.69 for limit in limits)
    assert all(limit == round(limit, 2) for limit in limits)


def test_a_quantity_that_never_differs_or_is_never_there_has_no_limits():
    nothing, same = np.full(4, np.nan), np.full(4, 0.25)
    assert decimals_of(nothing) is None
    assert limits_above(nothing, nothing, nothing, 0.01) == limits_above(same, same, same, 0.01) == ()
    assert len(usual_values(nothing)) == 5
    assert set(usual_values(same)) == {0.25}
    mostly_same = np.array([0.0] * 99 + [1.0])
    assert decimals_of(mostly_same) == 2
