"""The text form: what it parses to and how it prints, and errors that show the place and say what to do."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings
from pattern_trees import ODD_NAMES, trees

from turnwise.errors import PatternError, TurnwiseError, UsageError
from turnwise.patterns import (
    Expression,
    Library,
    NamedPattern,
    ValueKind,
    default_library,
    parse,
    parse_expression,
)

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
@given(st.one_of(*(trees(kind, 7, (None, "reciprocity", *ODD_NAMES), LONG_NUMBERS) for kind in ValueKind)))
def test_printing_and_parsing_undo_each_other(expression: Expression) -> None:
    text = str(expression)
    assert parse_expression(text) == expression
    assert str(parse_expression(text)) == text


@given(x=trees(ValueKind.NUMBER, 3), limit=st.sampled_from(LONG_NUMBERS), inside=st.booleans())
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


PRINCIPLES = ("reciprocity", "context_integrity")

WORDS = (
    *(
        "and",
        "or",
        "not",
        "(",
        ")",
        ",",
        ".",
        "=",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "+",
        "-",
        "*",
        "/",
        '"',
        "0.5",
        "3",
    ),
    *(
        "F",
        "T",
        "I",
        "balance",
        "strength",
        "trust",
        "turn",
        "chars",
        "response",
        "reciprocity",
        "1e5",
        "1e999",
        "&",
    ),
    *("k_of", "slope", "streak", "any", "at", "rise", "window", "alpha", "gradual_drift", "limit", "x", "\n", "ß"),
)


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("F > 0.5 > 0.2", 9, "comparisons don't chain; write F > 0.5 and 0.5 > ..."),
        ("F = 0.5", 3, "write == to compare"),
        ("slope(F", 6, "this parenthesis is not closed"),
        ("(F > 1", 1, "this parenthesis is not closed"),
        ("peak(F))", 8, "this parenthesis closes nothing"),
        ("peak(F I)", 8, "an operator such as and, or, > or + is missing before I"),
        ("peek(F) > 1", 1, "unknown function 'peek'; did you mean 'peak'?"),
        ("F", 1, "a pattern must be a condition, but F is a number; compare it, as in F > 0.5"),
        ("  peak(F)  ", 3, "a pattern must be a condition"),
        ("F and I > 1", 1, "and takes a condition, but F is a number"),
        ("F > 1 or I", 10, "or takes a condition, but I is a number"),
        ("not F", 5, "not takes a condition"),
        ("slope(F > 1) > 1", 7, "slope takes a number, but F > 1 is a condition; count(...) and share(...)"),
        ("any(F)", 5, "any takes a condition"),
        ("1 + (F > 1) > 1", 5, "+ takes a number"),
        ("-(F > 1) > 1", 2, "- takes a number"),
        ("F > (I > 1)", 5, "> takes a number"),
        ("k_of(1, F > 1, I)", 16, "k_of takes a condition"),
        ("reciprocity.f > 1", 13, "unknown series 'f'; did you mean 'F'?"),
        ("reciprocty.F > 1", 1, "unknown principle 'reciprocty'; did you mean 'reciprocity'?"),
        ("response.reciprocty.F > 1", 10, "unknown principle 'reciprocty'; did you mean 'reciprocity'?"),
        ("Response.F > 1", 1, "did you mean 'response'?"),
        ("reciprocity > 0.5", 1, "reciprocity is a principle: write reciprocity.F"),
        ("response > 0.5", 1, "response is a side: write response.F"),
        ("slop > 0.5", 1, "unknown name 'slop'; did you mean 'slope'?"),
        ("slope > 0.5", 1, "slope is a function: write slope(...)"),
        ("k_of > 0.5", 1, "k_of is a function"),
        ("gradual_drft", 1, "unknown name 'gradual_drft'; did you mean 'gradual_drift'?"),
        ("f > 1", 1, "unknown name 'f'; did you mean 'F'?"),
        ("F > 0.5 AND I > 1", 9, "write and in small letters"),
        ("NOT F > 1", 1, "write not in small letters"),
        ("OR", 1, "write or in small letters"),
        ("F > 0.5 && I > 1", 9, "'&&' is not used here; write and"),
        ("F ≥ 0.5", 3, "write >="),
        ("F > 0,5", 6, "an operator"),
        ("F $ 1", 3, "'$' has no meaning in a pattern"),
        ('"reciprocity.F > 1', 1, "the quoted name is not closed"),
        ('"a" > 1', 1, 'a name in quotes is a principle: write "a".F'),
        ('"".F > 1', 1, "a quoted name is empty"),
        ('"\\x".F > 1', 1, "escape as in JSON"),
        ("reciprocity. > 1", 14, "after the dot, write one of T, I, F, balance, strength, trust"),
        ("response.reciprocity.F.T > 1", 24, "leave out T"),
        ("slope(F, window=1) > 0", 17, "window of slope must be a whole number in [2, 100], not 1"),
        ("slope(F, window=2.5) > 0", 17, "not 2.5"),
        ("slope(F, windw=3) > 0", 10, "unknown parameter of slope 'windw'; did you mean 'window'?"),
        ("slope(F, 3, 4) > 0", 13, "slope got too many arguments: slope(x, window)"),
        ("slope(F, 3, window=4) > 0", 13, "window of slope is given twice"),
        ("slope(F, window=T) > 0", 17, "window of slope must be a number, the same at every turn"),
        ("slope() > 0", 1, "slope needs an argument: slope(x, window)"),
        ("streak() > 0", 1, "streak(condition)"),
        ("slope(window=3) > 0", 1, "slope needs an argument"),
        ("at(F) > 0", 1, "at needs k"),
        ("at(F, 0) > 0", 7, "k of at must be a whole number"),
        ("ema(F, alpha=0) > 0", 14, "alpha of ema must be a number in (0, 1], not 0"),
        ("rise(F, 5, 1) > 0", 1, "rise goes from an earlier turn i to a later j, not 5 to 1"),
        ("k_of(3, F > 1) ", 6, "k of k_of must be a whole number from 1 to its 1 conditions, not 3"),
        ("k_of(F > 1, F > 1)", 6, "k of k_of must be a whole number"),
        ("k_of(1)", 1, "k_of takes a number and conditions"),
        ("k_of(k=1, F > 1)", 6, "k_of takes no named parameter"),
        ("gradual_drift(0.5)", 15, "by name: gradual_drift(x=F, limit=0.1, turns=3)"),
        ("gradual_drift(limt=2)", 15, "unknown parameter of gradual_drift 'limt'; did you mean 'limit'?"),
        ("gradual_drift(limit=1, limit=2)", 24, "limit of gradual_drift is given twice"),
        ("gradual_drift(limit=F > 1)", 1, "limit of gradual_drift must be a number"),
        ("F > 1 and slope_(x=2)", 11, "unknown function 'slope_'"),
        ("F >", 4, "the pattern ends where a value should follow"),
        ("> 1", 1, "> can't stand here"),
        ("F > +1", 5, "leave out the + before the number"),
        ("F > 1e999", 5, "at most 1e+100 in size"),
        ("F + 1 > 2 and", 14, "the pattern ends"),
        ("a.b.c.F > 1", 5, "leave out c"),
    ],
)
def test_the_error_points_at_its_place(text: str, column: int, words: str) -> None:
    with pytest.raises(PatternError) as caught:
        parse(text, principles=PRINCIPLES)
    error = caught.value
    assert words in error.reason
    assert error.column == column
    first, line, caret = str(error).split("\n")
    assert first == f"column {column}: {error.reason}"
    assert line == f"  {text}"
    assert caret.index("^") == column + 1
    assert caret.strip(" ^") == ""


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_an_empty_pattern(text: str) -> None:
    with pytest.raises(PatternError, match="the pattern is empty; write a condition"):
        parse(text)


def test_the_line_of_a_longer_text_is_shown() -> None:
    with pytest.raises(PatternError) as caught:
        parse("F > 0.5\n  and\tpeek(I) > 1\n  and T < 1")
    assert (caught.value.line, caught.value.column) == (2, 7)
    assert str(caught.value).split("\n")[0].startswith("line 2, column 7: unknown function 'peek'")
    assert str(caught.value).split("\n")[1:] == ["    and peek(I) > 1", "        ^^^^"]


def test_of_a_long_line_the_part_around_the_error_is_shown() -> None:
    text = "F > 0.5 and " * 20 + "peek(I) > 1" + " and F > 0.5" * 20
    with pytest.raises(PatternError) as caught:
        parse(text)
    _, line, caret = str(caught.value).split("\n")
    assert len(line) < 110
    assert line[caret.index("^") : caret.rindex("^") + 1] == "peek"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(" * 100 + "F" + ")" * 100 + " > 1", "nested more than 60 levels"),
        ("not " * 100 + "F > 1", "nested more than 60 levels"),
        ("F > " + "-" * 100 + "I", "nested more than 60 levels"),
        ("F" + " + 1" * 100 + " > 1", "nested more than 60 levels"),
        ("peak(" * 100 + "F" + ")" * 100 + " > 1", "nested more than 60 levels"),
        (" and ".join(["F > 1"] * 1000), "more than 1000 parts"),
        ("F > 1 " + " " * 10_000, "at most 10,000 characters"),
    ],
)
def test_patterns_have_a_limit(text: str, words: str) -> None:
    with pytest.raises(PatternError, match=words):
        parse(text)


def test_a_pattern_error_is_wrong_use() -> None:
    assert issubclass(PatternError, UsageError)
    assert issubclass(PatternError, TurnwiseError)


def test_without_a_list_of_principles_every_name_is_one() -> None:
    assert str(parse("candour.F > 0.5")) == "candour.F > 0.5"


def test_principles_are_checked_inside_named_patterns() -> None:
    with pytest.raises(PatternError, match="unknown principle 'context_integrity'") as caught:
        parse("F > 1 or cross_dimensional_divergence", principles=["reciprocity"])
    assert caught.value.column == 10


def test_a_default_that_is_not_used_may_be_about_a_principle_that_is_not_there() -> None:
    text = "cross_dimensional_divergence(kept=reciprocity.T, broken=candour.F)"
    assert str(parse(text, principles=["reciprocity", "candour"])) == text


def read(text: str) -> None:
    """Parse a text to a tree that prints and parses back, or to a PatternError."""
    try:
        expression = parse_expression(text, principles=PRINCIPLES)
    except PatternError as error:
        assert str(error)
        return
    assert parse_expression(str(expression)) == expression


@settings(max_examples=50)
@given(st.text(max_size=200))
@example("\x00")
@example("\ud800")
@example('"\\ud800".F > 1')
@example("1" * 9_000)
@example("٣ > F")
@example("F" * 9_999)
def test_any_text_is_a_tree_or_a_pattern_error(text: str) -> None:
    read(text)


@settings(max_examples=50)
@given(st.lists(st.sampled_from([*WORDS, *default_library().names()]), max_size=40), st.sampled_from(["", " "]))
def test_any_sequence_of_words_is_a_tree_or_a_pattern_error(words: list[str], between: str) -> None:
    read(between.join(words))


@settings(max_examples=50)
@given(
    expression=st.one_of(*(trees(kind, 7, (None, "reciprocity", *ODD_NAMES)) for kind in ValueKind)),
    cuts=st.lists(
        st.tuples(st.integers(0, 400), st.integers(0, 5), st.sampled_from(WORDS)), min_size=1, max_size=4
    ),
)
def test_mutations_of_patterns_are_a_tree_or_a_pattern_error(
    expression: Expression, cuts: list[tuple[int, int, str]]
) -> None:
    text = str(expression)
    for at, removed, inserted in cuts:
        place = at % (len(text) + 1)
        text = text[:place] + inserted + text[place + removed :]
    read(text)
