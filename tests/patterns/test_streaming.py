"""Live evaluation: it agrees with the plain meaning at every turn, and its state is small, complete and JSON."""

from __future__ import annotations

import json
import math
import pickle

import hypothesis.strategies as st
import pytest
from hypothesis import assume, given, settings
from pattern_reference import TooCloseError, evaluated, holds, value
from pattern_trees import calls, trajectories, trees

from turnwise.errors import PatternError
from turnwise.patterns import (
    FUNCTIONS,
    Evaluator,
    Expression,
    Stream,
    ValueKind,
    default_library,
    match,
    named,
    parse,
    parse_expression,
    series,
    shipped_patterns,
)
from turnwise.patterns import slope as slope_of
from turnwise.scoring import Score, TurnScores

FIVE_FUNCTIONS = (
    "slope(reciprocity.F) > 0.1 and streak(reciprocity.I > 0.6) >= 3 or cusum(reciprocity.F, drift=0.05) > 0.2 "
    "or mean(context_integrity.F) > 0.4 and volatility(third_party_harm.F) > 0.2"
)


def turns_of(*F: float | None, principle: str = "reciprocity") -> list[TurnScores]:
    return [
        TurnScores(turn, {} if f is None else {principle: Score(0.5, 0.2, f)}, length=100)
        for turn, f in enumerate(F, start=1)
    ]


def check_against_reference(expression: Expression, turns: list[TurnScores]) -> None:
    values = Evaluator(expression).run(turns)
    known = evaluated(turns)
    for turn, given_value in zip(turns, values, strict=True):
        before = [other for other in known if other.turn <= turn.turn]
        if turn not in known:
            assert given_value == (False, None, None)
        elif expression.kind is ValueKind.CONDITION:
            assert given_value.holds is holds(expression, before)
            assert given_value.value is None
        else:
            expected = value(expression, before)
            assert (given_value.value is None) == (expected is None)
            assert expected is None or math.isclose(given_value.value, expected, rel_tol=1e-9, abs_tol=1e-9)
            assert given_value[:2] == (False, None)


@settings(max_examples=60)
@given(expression=st.one_of(trees(ValueKind.NUMBER), trees(ValueKind.CONDITION)), turns=trajectories())
def test_live_evaluation_agrees_with_the_plain_meaning_at_every_turn(
    expression: Expression, turns: list[TurnScores]
) -> None:
    try:
        check_against_reference(expression, turns)
    except TooCloseError:
        assume(False)


@pytest.mark.parametrize("function", FUNCTIONS)
@settings(max_examples=25)
@given(data=st.data(), turns=trajectories())
def test_each_function_agrees_with_its_plain_meaning(
    function: str, data: st.DataObject, turns: list[TurnScores]
) -> None:
    try:
        check_against_reference(data.draw(calls(function)), turns)
    except TooCloseError:
        assume(False)


@settings(max_examples=25)
@given(
    expression=st.one_of(trees(ValueKind.NUMBER), trees(ValueKind.CONDITION)),
    turns=trajectories(),
    cut=st.integers(0, 12),
)
def test_a_state_goes_through_json_at_any_turn(expression: Expression, turns: list[TurnScores], cut: int) -> None:
    whole = Evaluator(expression).run(turns)
    stream = Stream(expression)
    first = [stream.update(scores) for scores in turns[:cut]]
    resumed = Stream.from_json(expression, stream.to_json())
    assert (*first, *(resumed.update(scores) for scores in turns[cut:])) == whole


@settings(max_examples=25)
@given(pattern=trees(ValueKind.CONDITION), turns=trajectories())
def test_the_margin_has_the_sign_of_the_answer(pattern: Expression, turns: list[TurnScores]) -> None:
    for given_value in Evaluator(pattern).run(turns):
        assert given_value.margin is None or math.isfinite(given_value.margin)
        if given_value.margin:
            assert given_value.holds is (given_value.margin > 0)


@pytest.mark.parametrize(
    ("text", "margins"),
    [
        ("reciprocity.F > 0.25", [-0.25, 0.5, 0.25]),
        ("reciprocity.F >= 0.25", [-0.25, 0.5, 0.25]),
        ("0.25 < reciprocity.F", [-0.25, 0.5, 0.25]),
        ("reciprocity.F <= 0.25", [0.25, -0.5, -0.25]),
        ("not reciprocity.F > 0.25", [0.25, -0.5, -0.25]),
        ("reciprocity.F == 0.25", [-0.25, -0.5, -0.25]),
        ("reciprocity.F != 0.25", [0.25, 0.5, 0.25]),
        ("reciprocity.F > 0.25 and turn < 2", [-0.25, 0.0, -1.0]),
        ("reciprocity.F > 0.25 or turn < 2", [1.0, 0.5, 0.25]),
        ("k_of(2, reciprocity.F > 0.25, turn < 2, reciprocity.F > 0)", [0.0, 0.5, 0.25]),
        ("any(reciprocity.F > 0.25)", [-0.25, 0.5, 0.5]),
        ("all(reciprocity.F > 0.25)", [-0.25, -0.25, -0.25]),
        ("delta(reciprocity.F) > 0.25", [None, 0.5, -0.5]),
        ("not delta(reciprocity.F) > 0.25", [None, -0.5, 0.5]),
        ("delta(reciprocity.F) > 0.25 or reciprocity.F > 0.25", [-0.25, 0.5, 0.25]),
        ("delta(reciprocity.F) > 0.25 and reciprocity.F > 0.25", [None, 0.5, -0.5]),
        ("not delta(reciprocity.F) > 0.25 and reciprocity.F > 0.25", [-0.25, -0.5, 0.25]),
        ("any(context_integrity.F > 0.25)", [None, None, None]),
        ("any(context_integrity.F > 0.25 or reciprocity.F > 0.25)", [None, 0.5, 0.5]),
        ("all(context_integrity.F > 0.25 and reciprocity.F > 0.25)", [-0.25, -0.25, -0.25]),
        ("any(k_of(2, context_integrity.F > 0.25, reciprocity.F > 0.25, turn > 1))", [0.0, 0.5, 0.5]),
        ("any(not reciprocity.F > 0.25)", [0.25, 0.25, 0.25]),
        ("k_of(1, reciprocity.F > 0.25, turn <= 1, turn < 0)", [0.0, 0.5, 0.25]),
        ("not (reciprocity.F > 0.25 and turn <= 2)", [0.25, 0.0, 1.0]),
        ("any(reciprocity.F != 0.25 and 1 == turn)", [0.0, 0.0, 0.0]),
    ],
)
def test_the_margin_of_each_form(text: str, margins: list[float | None]) -> None:
    values = Evaluator(parse(text)).run(turns_of(0.0, 0.75, 0.5))
    assert [value.margin for value in values] == margins


@pytest.mark.parametrize("name", [pattern.name for pattern in shipped_patterns()])
@pytest.mark.parametrize("form", ["{}", "not {}", "{} and turn > 2", "any({})", "all(not {})", "count({}) > 1"])
def test_a_named_pattern_is_evaluated_as_what_it_stands_for(name: str, form: str) -> None:
    pattern = named(name)
    turns = default_library().get(name).example_turns()
    written, spelt_out = parse(form.format(name)), parse(form.format(f"({pattern.body})"))
    assert written != spelt_out
    assert Evaluator(written).run(turns) == Evaluator(spelt_out).run(turns)


def test_mixed_comparisons_at_a_margin_of_zero() -> None:
    def holds_at_half(text: str) -> bool:
        return match(parse(text), turns_of(0.5)).ever

    assert holds_at_half("reciprocity.F >= 0.5 and not reciprocity.F > 0.5")
    assert holds_at_half("k_of(2, reciprocity.F > 0.5, reciprocity.F >= 0.5, reciprocity.F == 0.5)")
    assert not holds_at_half("k_of(1, reciprocity.F > 0.5, reciprocity.F < 0.5, reciprocity.F != 0.5)")
    assert holds_at_half("reciprocity.F > 0.5 or reciprocity.F <= 0.5")
    assert not holds_at_half("reciprocity.F > 0.5 and reciprocity.F >= 0.5")
    assert not holds_at_half("not (reciprocity.F > 0.5 or reciprocity.F >= 0.5)")


def test_a_number_streams_as_well() -> None:
    stream = Stream(parse_expression("peak(reciprocity.F)"))
    assert [stream.update(scores) for scores in turns_of(0.25, 0.75)] == [(False, None, 0.25), (False, None, 0.75)]
    assert str(stream.expression) == "peak(reciprocity.F)"


@pytest.mark.parametrize("turns", [10, 10_000])
def test_the_state_of_five_functions_stays_below_a_kilobyte(turns: int) -> None:
    stream = Stream(parse(FIVE_FUNCTIONS))
    for turn in range(1, turns + 1):
        names = ("reciprocity", "context_integrity", "third_party_harm")
        scores = {
            name: Score(0.5, turn % 7 / 7, (turn * (3 + index)) % 11 / 13) for index, name in enumerate(names)
        }
        stream.update(TurnScores(turn, scores, length=300))
    assert len(stream.to_json()) <= 1024


def test_what_occurs_twice_is_reckoned_once() -> None:
    once = Evaluator(parse("slope(F) > 0.1")).start()["cells"]
    twice = Evaluator(parse("slope(F) > 0.1 and turn > 2 or slope(F) > 0.3")).start()["cells"]
    assert twice == once


def test_slope_is_exact_late_and_far_from_zero() -> None:
    slope = slope_of(series().F * 1e-3 + 1e6)
    windowed = slope_of(series().F + 1e6, window=50)
    streams = Stream(slope), Stream(windowed)
    for turn in range(1, 10_001):
        scores = TurnScores(turn, {"reciprocity": Score(0.5, 0.2, turn / 10_000)})
        late, last = (stream.update(scores).value for stream in streams)
    assert late == pytest.approx(1e-7, rel=1e-4)
    assert last == pytest.approx(1e-4, rel=1e-4)


def test_an_evaluator_serves_many_conversations_at_once() -> None:
    evaluator = Evaluator(parse("count(reciprocity.F > 0.5) >= 2"))
    one, other = evaluator.start(), evaluator.start()
    for scores in turns_of(0.9, 0.9):
        answer = evaluator.update(one, scores)
    assert answer.holds
    assert not evaluator.update(other, turns_of(0.9)[0]).holds


def test_an_evaluator_goes_to_other_processes() -> None:
    evaluator = Evaluator(parse("slow_boil"))
    turns = default_library().get("slow_boil").example_turns()
    assert pickle.loads(pickle.dumps(evaluator)).run(turns) == evaluator.run(turns)


@pytest.mark.shows("FR-006")
def test_turns_come_in_order() -> None:
    stream = Stream(parse("F > 0.5"))
    stream.update(TurnScores(3, {}))
    with pytest.raises(PatternError, match="turn 3 came after turn 3; turns come in order"):
        stream.update(TurnScores(3, {}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "must be JSON"),
        ("[]", "not a saved pattern state"),
        ('{"pattern": "x", "turn": 0, "cells": []}', "of another pattern"),
        ('{"pattern": "DIGEST", "turn": "0", "cells": [[null]]}', "damaged"),
        ('{"pattern": "DIGEST", "turn": 0, "cells": []}', "damaged"),
        ('{"pattern": "DIGEST", "turn": 0, "cells": [[]]}', "damaged"),
        ('{"pattern": "DIGEST", "turn": 0, "cells": {"0": 1}}', "damaged"),
    ],
)
def test_a_state_that_is_none_is_refused(text: str, message: str) -> None:
    pattern = parse("peak(F) > 0.5")
    digest = json.loads(Stream(pattern).to_json())["pattern"]
    with pytest.raises(PatternError, match=message):
        Stream.from_json(pattern, text.replace("DIGEST", digest))


def test_a_state_is_refused_by_another_pattern() -> None:
    one, other = Evaluator(parse("peak(F) > 0.5")), Evaluator(parse("peak(T) > 0.5"))
    with pytest.raises(PatternError, match="of another pattern"):
        other.update(one.start(), TurnScores(1, {}))


def test_ever_and_final_are_two_answers() -> None:
    pattern = parse("reciprocity.F > 0.5")
    assert match(pattern, turns_of(0.1, 0.9, 0.1)) == (2, False)
    assert match(pattern, turns_of(0.1, 0.9, None)) == (2, True)
    assert match(pattern, turns_of(0.9, 0.1, 0.9)) == (1, True)
    never = match(pattern, turns_of(0.1, None))
    assert never == (None, False)
    assert not never.ever
    assert match(pattern, []) == (None, False)
    with pytest.raises(PatternError, match="compare it"):
        match(parse_expression("peak(F)"), [])


@pytest.mark.shows("FR-005")
@settings(max_examples=25)
@given(pattern=trees(ValueKind.CONDITION), turns=trajectories(), cut=st.integers(0, 12))
def test_a_pattern_is_causal(pattern: Expression, turns: list[TurnScores], cut: int) -> None:
    evaluator = Evaluator(pattern)
    assert evaluator.run(turns)[:cut] == evaluator.run(turns[:cut])


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        ("ema(reciprocity.F) > 0.5 and streak(F>0.1) > 2", "08b73925c57d"),
    ],
)
def test_states_that_were_saved_before_still_belong_to_their_pattern(text: str, digest: str) -> None:
    assert Evaluator(parse(text)).digest == digest
