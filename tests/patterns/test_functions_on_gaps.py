"""A test for each row of docs/reference/pattern-functions.md: values, gaps, and where a function is undefined."""

from __future__ import annotations

import pytest

from turnwise.patterns import FUNCTIONS, Evaluator, Stream, ValueKind, parse_expression
from turnwise.scoring import Score, TurnScores, balance, trust_strength

GAPPY = [0.25, None, 0.75, 0.5, None, 1.0]
"""F of reciprocity; turns 2 and 5 are gaps. Turn 5 was evaluated for nothing at all."""


def turns() -> list[TurnScores]:
    """Return six turns: context_integrity is there at turn 2, where reciprocity is not."""
    rows = []
    for number, F in enumerate(GAPPY, start=1):
        scores = {} if F is None else {"reciprocity": Score(0.5, 0.25, F)}
        if number == 2:
            scores = {"context_integrity": Score(0.5, 0.25, 0.125)}
        rows.append(TurnScores(number, scores, length=10 * number))
    return rows


def run(text: str) -> list[float | bool | None]:
    """Return the value of an expression at each turn; where nothing was evaluated, None or False."""
    expression = parse_expression(text)
    values = Evaluator(expression).run(turns())
    return [value.value if expression.kind is ValueKind.NUMBER else value.holds for value in values]


X = "reciprocity.F"
HIGH = "reciprocity.F > 0.4"
"""Told at turns 1, 3, 4 and 6: false, true, true, true."""


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (f"at({X}, 1)", [0.25, 0.25, 0.25, 0.25, None, 0.25]),
        (f"at({X}, 3)", [None, None, 0.75, 0.75, None, 0.75]),
        (f"at({X}, 2)", [None, None, None, None, None, None]),
        (f"at({X}, 5)", [None, None, None, None, None, None]),
        (f"first({X})", [0.25, 0.25, 0.25, 0.25, None, 0.25]),
        ("first(context_integrity.F)", [None, 0.125, 0.125, 0.125, None, 0.125]),
        (f"last({X})", [0.25, 0.25, 0.75, 0.5, None, 1.0]),
        (f"peak({X})", [0.25, 0.25, 0.75, 0.75, None, 1.0]),
        (f"low({X} - 0.5)", [-0.25, -0.25, -0.25, -0.25, None, -0.25]),
        ("low(context_integrity.F)", [None, 0.125, 0.125, 0.125, None, 0.125]),
        (f"mean({X})", [0.25, 0.25, 0.5, 0.5, None, 0.625]),
        (f"rise({X}, 1, 3)", [None, None, 0.5, 0.5, None, 0.5]),
        (f"rise({X}, 1, 2)", [None, None, None, None, None, None]),
        (f"rise({X}, 2, 3)", [None, None, None, None, None, None]),
        (f"rise({X}, 1, 5)", [None, None, None, None, None, None]),
        (f"delta({X})", [None, None, 0.5, -0.25, None, 0.5]),
        (f"drop({X})", [0.0, 0.0, 0.0, 0.25, None, 0.0]),
        ("drop(context_integrity.F)", [None, 0.0, 0.0, 0.0, None, 0.0]),
        (f"volatility({X})", [None, None, 0.5, 0.375, None, 1.25 / 3]),
        (f"ema({X}, alpha=0.5, start=0.75)", [0.5, 0.5, 0.625, 0.5625, None, 0.78125]),
        ("ema(context_integrity.F, alpha=0.5, start=0.75)", [None, 0.4375, 0.4375, 0.4375, None, 0.4375]),
        (f"ema({X}, alpha=0.5)", [0.25, 0.25, 0.5, 0.5, None, 0.75]),
        (f"cusum({X}, drift=0.5)", [0.0, 0.0, 0.25, 0.25, None, 0.75]),
        ("cusum(context_integrity.F, drift=0)", [None, 0.125, 0.125, 0.125, None, 0.125]),
        (f"streak({HIGH})", [0, 0, 1, 2, None, 2]),
        (f"streak({X} < 2)", [1, 1, 1, 2, None, 2]),
        (f"current_streak({HIGH})", [0, 0, 1, 2, None, 1]),
        (f"current_streak({X} < 2)", [1, 0, 1, 2, None, 1]),
        (f"count({HIGH})", [0, 0, 1, 2, None, 3]),
        (f"share({HIGH})", [0.0, 0.0, 0.5, 2 / 3, None, 0.75]),
        ("share(context_integrity.F > 0.1)", [None, 1.0, 1.0, 1.0, None, 1.0]),
        (f"any({HIGH})", [False, False, True, True, False, True]),
        ("any(not context_integrity.F > 0.5)", [False, True, True, True, False, True]),
        (f"all({X} < 1)", [True, True, True, True, False, False]),
        ("all(context_integrity.F < 1)", [False, True, True, True, False, True]),
        (f"turns_since({HIGH})", [None, None, 0, 0, None, 0]),
        (f"turns_since({X} > 0.6)", [None, None, 0, 1, None, 0]),
        ("turns_since(context_integrity.F < 1)", [None, 0, 1, 2, None, 4]),
        (f"k_of(1, {HIGH}, context_integrity.F > 0.1)", [False, True, True, True, False, True]),
        (f"k_of(2, {HIGH}, context_integrity.F > 0.1)", [False] * 6),
    ],
)
def test_values_over_gaps(text: str, values: list[float | bool | None]) -> None:
    assert run(text) == pytest.approx(values)


def test_slope_leaves_the_turn_number_of_a_gap_out() -> None:
    # Of (1, 0.25), (3, 0.75), (4, 0.5), (6, 1.0) the mean turn is 3.5 and the sum of squares around it 13.
    later = (-2.5 * 0.25 - 0.5 * 0.75 + 0.5 * 0.5 + 2.5 * 1.0) / 13
    assert run(f"slope({X})") == pytest.approx([None, None, 0.25, 3 / 28, None, later])


def test_slope_over_a_window_counts_values_not_turn_numbers() -> None:
    assert run(f"slope({X}, window=2)") == pytest.approx([None, None, 0.25, -0.25, None, 0.25])
    assert run(f"slope({X}, window=3)") == pytest.approx([None, None, 0.25, 3 / 28, None, 3 / 28])


def test_a_bare_condition_is_about_the_present_turn() -> None:
    assert run(HIGH) == [False, False, True, True, False, True]


def test_at_a_turn_without_any_score_nothing_holds_and_nothing_changes() -> None:
    assert run("turn > 0") == [True, True, True, True, False, True]
    assert run("count(turn > 0)") == [1, 2, 3, 4, None, 5]


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        # At turn 2 reciprocity is a gap and context_integrity.F is 0.125; at the others it is the other way round.
        ("reciprocity.F > 0.4 and context_integrity.F > 0.1", [1, 1, 1, 1, None, 1]),
        ("reciprocity.F < 0.4 and context_integrity.F > 0.2", [0, 1, 2, 3, None, 4]),
        ("reciprocity.F > 0.4 or context_integrity.F > 0.1", [0, 1, 2, 3, None, 4]),
        ("k_of(1, reciprocity.F > 0.4, context_integrity.F > 0.1)", [0, 1, 2, 3, None, 4]),
        ("k_of(2, reciprocity.F > 0.4, context_integrity.F > 0.1)", [1, 1, 1, 1, None, 1]),
        ("not (reciprocity.F > 0.4 or context_integrity.F > 0.1)", [0, 1, 2, 3, None, 4]),
    ],
)
def test_within_functions_a_condition_is_told_once_a_part_decides_it(
    condition: str, told: list[int | None]
) -> None:
    assert run(f"count({condition}) + count(not ({condition}))") == told


def test_outside_functions_an_undefined_comparison_is_false_and_not_denies_it() -> None:
    assert run("delta(reciprocity.F) > 0") == [False, False, True, False, False, True]
    assert run("not delta(reciprocity.F) > 0") == [True, True, False, True, False, False]
    assert run("0 < delta(reciprocity.F)") == run("delta(reciprocity.F) > 0")


@pytest.mark.parametrize(
    "undefined",
    [
        "reciprocity.F / 0",
        "1 / (turn - turn)",
        "1e100 * 1e100",
        "-1e100 - 1e100",
        "turn / 1e-100 / 1e-9",
        "no.F + 1",
        "-no.F",
    ],
)
def test_no_number_comes_of_what_is_undefined(undefined: str) -> None:
    assert set(run(undefined)) == {None}
    assert not any(run(f"{undefined} > 0 or {undefined} <= 0 or {undefined} == 0 or {undefined} != 0"))


@pytest.mark.parametrize("function", [one for one in FUNCTIONS if FUNCTIONS[one].of is ValueKind.NUMBER])
def test_running_functions_never_overflow(function: str) -> None:
    parameters = {"at": ", 1", "rise": ", 1, 3", "cusum": ", drift=-1e100", "ema": ", start=-1e100"}.get(
        function, ""
    )
    stream = Stream(parse_expression(f"{function}(1e100 * (reciprocity.F * 4 - 2){parameters})"))
    values = [stream.update(scores).value for scores in turns()]
    assert all(value is None or abs(value) <= 1e100 for value in values)
    assert "Infinity" not in stream.to_json()


def test_a_function_whose_value_is_too_large_is_undefined_until_it_is_not() -> None:
    far_apart = "1e100 * (reciprocity.F * 4 - 2)"  # -1e100, gap, 1e100, 0, gap, undefined
    assert run(f"delta({far_apart})") == [None, None, None, -1e100, None, None]
    assert run(f"rise({far_apart}, 1, 3)") == [None] * 6
    assert run(f"mean({far_apart})") == pytest.approx([-1e100, -1e100, 0, 0, None, 0])


def both_sides() -> TurnScores:
    prompt = {"a": Score(0.9, 0.1, 0.2), "b": Score(0.4, 0.6, 0.62)}
    return TurnScores(7, prompt, 120, {"a": Score(0.8, 0.3, 0.7)}, 6_000)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a.T", 0.9),
        ("a.I", 0.1),
        ("a.F", 0.2),
        ("a.balance", balance(Score(0.9, 0.1, 0.2), 120)),
        ("a.strength", 1.0),
        ("T", 0.4),
        ("I", 0.6),
        ("F", 0.62),
        ("balance", balance(Score(0.4, 0.6, 0.62), 120)),
        ("strength", 1.0),
        ("turn", 7),
        ("chars", 120),
        ("response.T", 0.8),
        ("response.a.F", 0.7),
        ("response.a.balance", -1.0),
        ("response.strength", trust_strength(Score(0.8, 0.3, 0.7), 6_000)),
        ("response.chars", 6_000),
        ("response.b.F", None),
        ("c.F", None),
        ("trust", 0.3 * 1.0 + 0.7 * 0.5),
        ("response.a.trust", 0.3 * 0.15 + 0.7 * 0.5),
    ],
)
def test_every_series(text: str, value: float | None) -> None:
    assert Evaluator(parse_expression(text)).run([both_sides()])[0].value == pytest.approx(value)


def test_a_side_without_scores_is_a_gap_for_that_side_alone() -> None:
    response_only = TurnScores(1, {}, 50, {"a": Score(0.5, 0.5, 0.5)}, 80)
    prompt_only = TurnScores(1, {"a": Score(0.5, 0.5, 0.5)}, 50)

    def values(turn: TurnScores) -> list[float | None]:
        texts = ("F", "response.F", "chars", "response.chars", "trust")
        return [Evaluator(parse_expression(text)).run([turn])[0].value for text in texts]

    assert values(response_only) == [None, 0.5, 50, 80, None]
    assert values(prompt_only) == [0.5, None, 50, None, pytest.approx(0.65)]
