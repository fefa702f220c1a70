"""A pattern as SQL gives at every turn what live evaluation gives."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_patterns import PRINCIPLES, PatternGenerator, random_call, random_condition, random_turns
from trajectory_table import TABLE, make_table

from turnwise.conversation import Side
from turnwise.errors import PatternError, UnknownNameError
from turnwise.patterns import (
    FUNCTIONS,
    Evaluator,
    Expression,
    ValueKind,
    default_library,
    match,
    parse,
    parse_expression,
    series,
)
from turnwise.patterns.sql import Columns, matches_sql, values_sql
from turnwise.scoring import Score, TurnScores

BOTH_SIDES = Columns(tuple((principle, side) for principle in PRINCIPLES for side in Side))
Turns = Sequence[TurnScores]


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET threads = 1")
        yield connection


def turns_of(*falsities: float | None, principle: str = "reciprocity") -> list[TurnScores]:
    """Return turns with one principle; None is a gap, at which the others were evaluated all the same."""
    other = {"context_integrity": Score(0.5, 0.5, 0.5)}
    return [
        TurnScores(turn, other if F is None else {principle: Score(1 - F, 0.25, F), **other}, 100)
        for turn, F in enumerate(falsities, start=1)
    ]


def values(
    database: Any, expression: Expression, conversations: Sequence[Turns], columns: Columns = BOTH_SIDES
) -> list[list[float | None]]:
    make_table(database, columns, conversations)
    found = {row[0]: row[2] for row in database.execute(values_sql(expression, columns, TABLE)).fetchall()}
    return [found.get(key, []) for key in range(len(conversations))]


def live(expression: Expression, turns: Turns) -> list[float | None]:
    evaluated = [turn.turn for turn in turns if turn.scores or turn.response_scores]
    said = Evaluator(expression).run(turns)
    number = expression.kind is ValueKind.NUMBER
    return [said[turn - 1].value if number else float(said[turn - 1].holds) for turn in evaluated]


def check_two_runs(database: Any, pattern: Expression, pairs: Sequence[tuple[Turns, Turns]]) -> None:
    """Compare SQL with live evaluation of a pattern that reads another run over the same conversations."""
    columns = BOTH_SIDES.with_others({"second": BOTH_SIDES})
    make_table(database, BOTH_SIDES, [second for _, second in pairs], "second_run")
    make_table(database, BOTH_SIDES, [first for first, _ in pairs])
    table = columns.joined_sql(TABLE, ["second_run"])
    rows = database.execute(matches_sql(pattern, columns, table)).fetchall()
    found_matches = {key: (turn, final) for key, turn, final in rows}
    found = {row[0]: row[2] for row in database.execute(values_sql(pattern, columns, table)).fetchall()}
    for key, (first, second) in enumerate(pairs):
        others = {"second": second}
        said = Evaluator(pattern).run(first, others)
        evaluated = [value for turn, value in zip(first, said, strict=True) if turn.scores or turn.response_scores]
        assert found.get(key, []) == [float(value.holds) for value in evaluated], str(pattern)
        assert found_matches.get(key, (None, False)) == tuple(match(pattern, first, others)), str(pattern)


def check(database: Any, expression: Expression, conversations: Sequence[Turns]) -> None:
    for turns, found in zip(conversations, values(database, expression, conversations), strict=True):
        expected = live(expression, turns)
        # To the last digit: else a comparison of numbers that are equal would be true in one of the two alone.
        assert found == expected, str(expression)
    if expression.kind is ValueKind.CONDITION:
        rows = database.execute(matches_sql(expression, BOTH_SIDES, TABLE)).fetchall()
        found_matches = {key: (turn, final) for key, turn, final in rows}
        for key, turns in enumerate(conversations):
            assert found_matches.get(key, (None, False)) == tuple(match(expression, turns)), str(expression)


@pytest.mark.parametrize("function", FUNCTIONS)
@settings(max_examples=4)
@given(seed=st.integers(0, 2**32))
def test_every_function_agrees_with_live_evaluation(
    database: duckdb.DuckDBPyConnection, function: str, seed: int
) -> None:
    chance = random.Random(seed)
    conversations = [random_turns(chance, chance.choice((0, 1, 2, 5, 12, 40))) for _ in range(4)]
    for depth in (3, 4):
        check(database, random_call(chance, function, depth), conversations)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_conditions_agree_with_live_evaluation(database: duckdb.DuckDBPyConnection, seed: int) -> None:
    chance = random.Random(seed)
    conversations = [random_turns(chance, chance.choice((0, 1, 3, 8, 20))) for _ in range(6)]
    check(database, random_condition(chance, chance.randint(2, 6)), conversations)


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_patterns_over_two_runs_agree_with_live_evaluation(database: duckdb.DuckDBPyConnection, seed: int) -> None:
    chance = random.Random(seed)
    pairs = []
    for length in (0, 1, 4, 9):
        first, second = random_turns(chance, length), random_turns(chance, length)
        pairs.append((first, [other_scores(turn, scored) for turn, scored in zip(first, second, strict=True)]))
    pairs.append((random_turns(chance, 5), []))  # the other run has nothing of it
    generator = PatternGenerator(chance, runs=("second",))
    check_two_runs(database, generator.condition(chance.randint(2, 5)), pairs)
    check_two_runs(database, parse('abs(run("second").F - F) > 0.25'), pairs)


def other_scores(turn: TurnScores, scored: TurnScores) -> TurnScores:
    """Return what another run says of a turn: other scores, of the same texts."""
    return TurnScores(turn.turn, scored.scores, turn.length, scored.response_scores, turn.response_length)


@settings(max_examples=1)
@given(seed=st.integers(0, 2**32))
def test_long_conversations_agree_too(database: duckdb.DuckDBPyConnection, seed: int) -> None:
    chance = random.Random(seed)
    conversations = [random_turns(chance, length) for length in (299, 300)]
    for text in ("slope(F) + cusum(balance, drift=0.01)", "ema(mean(F), alpha=0.05) + volatility(delta(T))"):
        check(database, parse_expression(text), conversations)


@pytest.mark.parametrize("name", default_library().names())
def test_named_patterns_agree(database: duckdb.DuckDBPyConnection, name: str) -> None:
    chance = random.Random(name)
    check(database, parse(name), [random_turns(chance, length) for length in (0, 1, 4, 9, 30)])


@pytest.mark.parametrize(
    ("text", "falsities", "expected"),
    [
        ("reciprocity.F", (0.25, None, 0.5), [0.25, None, 0.5]),
        ("peak(reciprocity.F)", (0.25, None, 0.5, 0.125), [0.25, 0.25, 0.5, 0.5]),
        ("at(reciprocity.F, 2)", (0.25, None, 0.5), [None, None, None]),
        ("rise(reciprocity.F, 1, 3)", (0.25, None, 0.5), [None, None, 0.25]),
        ("delta(reciprocity.F)", (0.25, None, 0.5, 0.25), [None, None, 0.25, -0.25]),
        ("mean(reciprocity.F)", (0.25, None, 0.75), [0.25, 0.25, 0.5]),
        ("slope(reciprocity.F)", (0.0, None, 0.5), [None, None, 0.25]),
        ("slope(reciprocity.F, window=2)", (1.0, 0.25, None, 0.75), [None, -0.75, -0.75, 0.25]),
        ("cusum(reciprocity.F, drift=0.25)", (0.5, None, 0.75, 0.0), [0.25, 0.25, 0.75, 0.5]),
        ("ema(reciprocity.F, alpha=0.5, start=0.5)", (None, 1.0, 0.5), [None, 0.75, 0.625]),
        ("streak(reciprocity.F > 0.3)", (0.5, 0.5, None, 0.5), [1, 2, 2, 2]),
        ("current_streak(reciprocity.F > 0.3)", (0.5, 0.5, None, 0.5), [1, 2, 0, 1]),
        ("share(reciprocity.F > 0.3)", (0.5, None, 0.25), [1, 1, 0.5]),
        ("turns_since(reciprocity.F > 0.3)", (0.25, 0.5, None, 0.25), [None, 0, 1, 2]),
        ("abs(reciprocity.F - 0.5)", (0.25, None, 0.75), [0.25, None, 0.25]),
        ("peak(abs(delta(reciprocity.F)))", (0.75, 0.25, None, 0.5), [None, 0.5, 0.5, 0.5]),
        ("reciprocity.F / (reciprocity.F - 0.5)", (0.5, 0.25, 0.75), [None, -1, 3]),
        ("reciprocity.F * 1e100 * 1e100", (0.5, 0.0), [None, 0]),
        ("not delta(reciprocity.F) > 0.1", (0.25, 0.5, None), [1, 0, 1]),
        ("any(not delta(reciprocity.F) > 0.1)", (0.25, 0.5, None), [0, 0, 0]),
        ("k_of(2, reciprocity.F > 0.3, turn > 1, reciprocity.T > 0.9)", (0.5, 0.5, None), [0, 1, 0]),
    ],
)
def test_values_by_hand(
    database: duckdb.DuckDBPyConnection,
    text: str,
    falsities: tuple[float | None, ...],
    expected: list[float | None],
) -> None:
    turns = turns_of(*falsities)
    expression = parse_expression(text)
    assert values(database, expression, [turns]) == [expected]
    assert live(expression, turns) == expected


def test_first_turn_and_last_turn_of_a_match(database: duckdb.DuckDBPyConnection) -> None:
    make_table(database, BOTH_SIDES, [turns_of(0.1, 0.9, 0.9), turns_of(0.1, 0.9, 0.2), turns_of(0.1, 0.1, 0.1)])
    expected = [(0, 2, True), (1, 2, False), (2, None, False)]
    for text in ("reciprocity.F > 0.5", "last(reciprocity.F) > 0.5"):
        assert database.execute(matches_sql(parse(text), BOTH_SIDES, TABLE)).fetchall() == expected


def test_the_number_of_a_turn_is_not_its_place_among_the_evaluated(database: duckdb.DuckDBPyConnection) -> None:
    turns = [
        TurnScores(1, {}),
        *turns_of(None, 0.5)[1:],
        TurnScores(3, {}),
        TurnScores(4, {"reciprocity": Score(0, 0, 1)}),
    ]
    make_table(database, BOTH_SIDES, [turns])
    for text in ("reciprocity.F > 0.7", "peak(reciprocity.F) > 0.7"):
        assert database.execute(matches_sql(parse(text), BOTH_SIDES, TABLE)).fetchall() == [(0, 4, True)]


def test_deep_and_wide_patterns_stay_small_enough_to_ask(database: duckdb.DuckDBPyConnection) -> None:
    deep: Expression = series().F
    for _ in range(25):
        deep = deep / series().T * 1e50
    nested = "mean(" * 6 + "F" + ")" * 6 + " >= 0"
    wide = " or ".join(f"slope(F, window={window}) > 0.1" for window in range(2, 12))
    for pattern in (deep > 0, parse(nested), parse(wide)):
        assert len(matches_sql(pattern, BOTH_SIDES, TABLE)) < 100_000
        check(database, pattern, [turns_of(0.25, None, 0.5, 0.75)])


def test_a_side_that_nobody_scored_is_all_gaps(database: duckdb.DuckDBPyConnection) -> None:
    prompts = Columns((("reciprocity", Side.PROMPT),))
    turns = [turns_of(0.5, 0.75)]
    for text in ("response.F", "response.reciprocity.F", "response.chars", "response.balance"):
        assert values(database, parse_expression(text), turns, prompts) == [[None, None]]


def test_what_can_not_be_asked() -> None:
    with pytest.raises(PatternError, match="nested at most 8 levels deep"):
        matches_sql(parse("mean(" * 40 + "F" + ")" * 40 + " > 0"), BOTH_SIDES, TABLE)
    with pytest.raises(UnknownNameError, match=r"unknown principle 'recprocity'; did you mean 'reciprocity'"):
        matches_sql(parse("recprocity.F > 0.5"), BOTH_SIDES, TABLE)
    with pytest.raises(PatternError, match="compare it"):
        matches_sql(parse_expression("peak(F)"), BOTH_SIDES, TABLE)
