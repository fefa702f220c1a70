"""The text form: what it parses to, how it prints, and that the two undo each other."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from pattern_trees import ODD_NAMES, trees

from turnwise.patterns import Expression, Kind, Library, NamedPattern, parse, parse_expression

LONG_NUMBERS = (0.1 + 0.2, 1e-300, 1e100, -1e100, 123456789.123, 1e15, 1e16, 5e-324, -2.0, -0.0, 3.0)
PATTERNS = Library(
    [
        NamedPattern(
            "doubt", "streak(x > limit) >= turns", "Doubt.", "", {"x": "I", "limit": "0.5", "turns": "2"}
        ),
        NamedPattern("jump", "delta(x)", "A number.", "", {"x": "F"}),
        NamedPattern("doubtful_jump", "jump(x=T) > 0.3 and doubt(limit=lower)", "Both.", "", {"lower": "0.4"}),
    ]
)


@settings(max_examples=50)
@given(st.one_of(*(trees(kind, 7, (None, "reciprocity", *ODD_NAMES), LONG_NUMBERS) for kind in Kind)))
def test_printing_and_parsing_undo_each_other(expression: Expression) -> None:
    text = str(expression)
    assert parse_expression(text) == expression
    assert str(parse_expression(text)) == text


@given(x=trees(Kind.NUMBER, 3), limit=st.sampled_from(LONG_NUMBERS), inside=st.booleans())
def test_named_patterns_print_and_parse_too(x: Expression, limit: float, inside: bool) -> None:
    text = f"doubt(x={x}, limit={limit!r})"
    expression = parse(f"not {text} or count({text}) > 1" if inside else text, patterns=PATTERNS)
    assert parse(str(expression), patterns=PATTERNS) == expression
    assert "doubt(x=" in str(expression)


@pytest.mark.parametrize(
    "text",
    [
        "rise(reciprocity.F, 1, 5) > 0.5",
        "streak(reciprocity.I > 0.6) >= 3",
        "any(reciprocity.T > 0.8 and context_integrity.F > 0.7)",
        "slope(reciprocity.F) > 0.1",
        "slope(reciprocity.F, window=5) > 0.1",
        "cusum(reciprocity.F, drift=0.05) > 0.2 or peak(third_party_harm.F) >= 0.7",
        "ema(strength, alpha=0.3, start=0.5) < 0.6",
        "k_of(2, F > 0.5, I > 0.5, T < 0.5)",
        "turns_since(response.F > 0.7) <= 3 and response.chars / chars > 2",
        "not (F > 0.5 or I > 0.5) and not T < 0.5",
        "(F > 0.5 or I > 0.5) and T < 0.5",
        "(F > 0.5 and I > 0.5) and T < 0.5",
        "F - (I - T) - 1 > -(2) * -F / (I * T)",
        '"my-principle".F > 0.5',
        "at(F, 3) == 1",
        "gradual_drift(x=context_integrity.F, limit=0.05)",
        "gradual_drift",
    ],
)
def test_text_that_is_as_short_as_it_gets_stays_as_it_is(text: str) -> None:
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("F>.5", "F > 0.5"),
        ("(((F)) > (0.50))", "F > 0.5"),
        ("F > 0.5 and I > 0.5 or T < 0.5", "(F > 0.5 and I > 0.5) or T < 0.5"),
        ("not F > 0.5 and I > 0.5", "(not (F > 0.5)) and I > 0.5"),
        ("F + I * T > 1", "F + (I * T) > 1"),
        ("F - I - T > 1", "(F - I) - T > 1"),
        ("-F * 2 > 1", "(-F) * 2 > 1"),
        ("slope(F, 5) > 0", "slope(F, window=5) > 0"),
        ("ema(F) > 0", "ema(F, alpha=0.3) > 0"),
        ("ema(F, start=1, alpha=0.5) > 0", "ema(F, 0.5, 1) > 0"),
        ("rise(F, j=5, i=1) > 0", "rise(F, 1, 5) > 0"),
        ("trust < 0.6", "ema(strength, alpha=0.3, start=0.5) < 0.6"),
        ("reciprocity.trust < 0.6", "ema(reciprocity.strength, alpha=0.3, start=0.5) < 0.6"),
        ("response.trust < 0.6", "ema(response.strength, alpha=0.3, start=0.5) < 0.6"),
        ("F\n  >\t0.5", "F > 0.5"),
        ("1e-1 < F", "0.1 < F"),
        ("gradual_drift()", "gradual_drift"),
        ('"reciprocity".F > 0', "reciprocity.F > 0"),
        ('"\\u0061".F > 0', "a.F > 0"),
    ],
)
def test_different_texts_of_one_tree(text: str, same: str) -> None:
    assert parse(text) == parse(same)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("F > 0.5 and I > 0.5 and T < 1", "F > 0.5 and (I > 0.5 and T < 1)"),
        ("-2 < F", "-(2) < F"),
        ("F > 1", "1 < F"),
    ],
)
def test_trees_that_are_not_the_same(text: str, other: str) -> None:
    assert parse(text) != parse(other)


def test_a_named_pattern_knows_what_it_stands_for() -> None:
    expression = parse("doubtful_jump(lower=0.25)", patterns=PATTERNS)
    assert str(expression) == "doubtful_jump(lower=0.25)"
    assert str(expression.body) == "jump(x=T) > 0.3 and doubt(limit=0.25)"
    assert expression.size == 1 + parse("delta(T) > 0.3 and streak(I > 0.25) >= 2").size + 2
