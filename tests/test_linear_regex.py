"""Expressions over text of others: what Python's `re` finds, in linear time."""

from __future__ import annotations

import re

import pytest
from growth import grows_linearly
from hypothesis import given
from hypothesis import strategies as st

from turnwise._support.regex_sets import RegexSet
from turnwise.linear_regex import SPACE, LinearRegex

TEXTS = st.text(st.sampled_from(["a", "b", "A", "1", " ", "\n", "é", "👩", "\ud800", "\u2003", "-"]), max_size=30)


def spans(found):
    return [(match.start, match.end, match[0], match["b"]) for match in found]


@given(TEXTS)
@pytest.mark.parametrize(
    "pattern", ["a(?P<b>b)?", "(?i)(?P<b>a+)[^b]", "(?P<b>é|👩)+", "(?s)a.(?P<b>.)", "a(?P<b>[^b])?"]
)
def test_finds_what_re_finds(pattern, text):
    ours, theirs = LinearRegex(pattern), re.compile(pattern)
    expected = [(*match.span(), match[0], match["b"] or "") for match in theirs.finditer(text)]
    assert spans(ours.finditer(text)) == expected
    assert spans(filter(None, [ours.search(text)])) == expected[:1]
    assert bool(ours.match(text)) == bool(theirs.match(text))
    assert ours.sub(lambda found: f"<{found[0]}>", text) == theirs.sub(r"<\g<0>>", text)
    assert ours.split(text) == [part or "" for part in theirs.split(text)]


@pytest.mark.parametrize("text", ["a1a2-", "é1a2é3", ""])
def test_spans_are_those_of_re_group_by_group(text):
    pattern = "([aé])|([0-9])"
    expected = [(found.span(), *found.regs[1:]) for found in re.finditer(pattern, text)]
    assert [tuple(found) for found in LinearRegex(pattern).spans(text)] == expected


def test_what_a_match_looks_at_behind_its_group_is_free_for_the_next():
    found = LinearRegex("(?:^|[^a-z])([a-z])(?:$|[^a-z])").spans("é é.a", overlapping=True)
    assert [group for _, group in found] == [(4, 5)]
    found = LinearRegex("(?:^| )([a-z]+)(?:$| )").spans("é a b c", overlapping=True)
    assert [group for _, group in found] == [(2, 3), (4, 5), (6, 7)]


def test_a_set_says_which_of_its_expressions_match():
    patterns = RegexSet({"digit": ["[0-9]"], "word": ["[a-z]{2}", "é"]}, ignore_case=True)
    assert [patterns.present(text) for text in ("A1", "AB 1", "É", "")] == [
        {"digit"},
        {"digit", "word"},
        {"word"},
        set(),
    ]


@given(st.characters(codec=None, exclude_categories=()))
def test_white_space_is_that_of_python(mark):
    assert bool(LinearRegex(f"[{SPACE}]").match(mark)) == mark.isspace()


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(?:a?){50}a{50}b", "(.*)(.*)(.*)x"])
@pytest.mark.parametrize("unit", ["a", "aé"])
def test_takes_linear_time_where_others_hang(pattern, unit):
    expression = LinearRegex(pattern)
    assert grows_linearly(lambda text: expression.search(text + "!"), unit)


@given(st.text("ab", max_size=30))
def test_places_are_those_of_spans_in_bytes(text):
    regex = LinearRegex("ab+|b{3}")
    assert [*regex.places(text.encode())] == [spans[0] for spans in regex.spans(text)]


def test_places_begin_where_they_are_told_and_may_share_their_ends():
    regex = LinearRegex("a,a,a")
    assert [*regex.places(b"a,a,a,a,a")] == [(0, 5)]
    assert [*regex.places(b"a,a,a,a,a", shared=1)] == [(0, 5), (4, 9)]
    assert [*regex.places(b"a,a,a,a,a", 2)] == [(2, 7)]
