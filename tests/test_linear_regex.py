"""Expressions over text of others: one finds what Python's `re` finds, many at once what each finds alone."""

from __future__ import annotations

import random
import re
import sys
import unicodedata
from itertools import chain

import pytest
from growth import grows_linearly
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise._support.characters import (
    DIGIT,
    LETTERS_AND_DIGITS,
    WHITE_SPACE,
    CharacterTable,
    byte_table,
    kinds_of,
)
from turnwise._support.regex_sets import RegexFilter, RegexSet, uncounted
from turnwise.guard.recognisers.patterns import filled, marked, read_table
from turnwise.linear_regex import SPACE, LinearRegex

CODE_SIGNS = read_table("code_signs.yaml")
WORDS = marked(CODE_SIGNS["words"])
SIGNS = [
    LinearRegex(f"(?m){filled(sign, WORDS)}") for sign in chain.from_iterable(CODE_SIGNS["languages"].values())
]
FILTER = RegexFilter([sign.pattern for sign in SIGNS])
CODE = """rm -rf /tmp/x
$ git clone x
SELECT a FROM b;
x <- c(1, 2)
@app.get('/')
def f(x):
    return g(x)
=> {
'' or 1=1
if a == b:
mov eax, 4
a.b(c).d(
my $x = 1;
add ai,
shutdown -h now
|> x()
"""


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.sampled_from(CODE.splitlines(keepends=True)) | st.text(st.characters(max_codepoint=127), max_size=9),
        max_size=9,
    )
)
def test_a_filter_leaves_out_no_expression_that_matches(pieces: list[str]) -> None:
    text = "".join(pieces)
    possible = FILTER.possible(text.encode())
    assert possible == sorted(possible)
    assert {index for index, sign in enumerate(SIGNS) if sign.search(text)} <= set(possible)


def test_a_filter_needs_few_expressions_of_prose() -> None:
    assert len(FILTER.possible(b"Could you tell me when the library opens on Sunday, please?")) < 5


@pytest.mark.parametrize("pattern", ["a[^b]{0,40}b", "a(?:bc){2,30}?d", r"\{1,20}", "a{2}b{3,}"])
@given(text=st.text("abcd{1,20}", max_size=50))
def test_an_expression_without_counts_matches_wherever_the_expression_does(pattern: str, text: str) -> None:
    assert not LinearRegex(pattern).search(text) or LinearRegex(uncounted(pattern)).search(text)


EXPRESSIONS = {
    "letters": [r"\pL{3}[0-9]"],
    "Cyrillic": [r"\b?и[\p{Cyrillic}]+\s"],
    "accents": ["[éü]{2}|ñ"],
    "marks": [r"\p{M}x"],
    "space": [r"a[\s\v\x85\pZ]b"],
    "range": [r"[\x{4e00}-\x{4e7f}][^\x{4e00}-\x{9fff}]"],
    "any": ["q.w"],
    "no ASCII": ["z[^ -~]z"],
}


def test_a_set_finds_in_texts_of_all_scripts_what_each_expression_finds() -> None:
    source = random.Random(1)
    every = [
        chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) not in ("Cs", "Cn")
    ]
    likely = "иданё éüñ x q w z a b\u2003\x85\u0301\u4e00\u4e80 12"
    patterns = RegexSet(EXPRESSIONS)
    for _ in range(60):
        text = "".join(source.choices(every, k=1500)) + "".join(source.choices(likely, k=60))
        text = "".join(source.sample(text, k=len(text)))[: source.choice((700, 1560))] + text[-30:]
        assert patterns.present(text) == {
            name for name, (pattern,) in EXPRESSIONS.items() if LinearRegex(pattern).search(text)
        }


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=40))
def test_a_table_maps_each_character_and_knows_where_it_came_from(text: str) -> None:
    def form(character: str) -> str:
        return {"a": "", "b": "xyz", "c": "\0"}.get(character, unicodedata.normalize("NFKC", character))

    mapped = CharacterTable(form).map(text)
    forms = [form(character) for character in text]
    assert mapped.text == "".join(forms)
    origins = range(len(text)) if mapped.origins is None else mapped.origins.tolist()
    assert [*origins] == [at for at, each in enumerate(forms) for _ in each]


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=40))
def test_kinds_tell_letters_digits_and_space_as_python_does(text: str) -> None:
    table = byte_table({"0": DIGIT + "0123456789", "a": LETTERS_AND_DIGITS, " ": WHITE_SPACE}, "!")
    shapes = kinds_of(text).translate(table).decode()
    expected = [
        "0" if each.isdecimal() else "a" if each.isalnum() else " " if each.isspace() else "!" for each in text
    ]
    assert shapes == "".join(expected)


@pytest.mark.parametrize("unit", ["a\u0301", "i\u0308 have ", "\u4e00\u0434 "])
def test_sets_take_linear_time(unit: str) -> None:
    patterns = RegexSet({"far": [r"\b(?:i|we)\b[^.]{0,40}\byour\b"], "near": [r"\pL{2,30}x"]}, ignore_case=True)
    patterns.present(unit * 2000)
    assert grows_linearly(patterns.present, unit)


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
