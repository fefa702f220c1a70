"""The readings of hostile texts: what is undone stands in order and apart, and every value keeps its place."""

from __future__ import annotations

import random
from pathlib import Path

import evasions
import pytest
from benchmarks.hostile import UNITS

from turnwise.guard import build_guardrail, finding_of
from turnwise.guard.recognisers.deobfuscation import readings_of

CASES = list(evasions.cases())
ORDINARY = [
    line.replace("\\n", "\n").replace("\\t", "\t")
    for line in Path(__file__).with_name("ordinary_messages.txt").read_text(encoding="utf-8").splitlines()
]
PIECES = (*UNITS, "&lt&#65;", "<b>", "=\r\n", "%41", "\\u0041", "a-b-c-d-e-", "SGVsbG8gd29ybGQgYWdhaW4= ", "AKIA")


def mixed(seed: int) -> str:
    return "".join(random.Random(seed).choices(PIECES, k=120))


@pytest.mark.parametrize("seed", range(40))
def test_every_stretch_of_a_reading_has_its_place_in_the_text(seed: int) -> None:
    text = mixed(seed)
    for reading in readings_of(text):
        places = [reading.span(at, at + 1) for at in range(len(reading.plain))]
        assert all(0 <= start < end <= len(text) for start, end in places)
        assert places == sorted(places)
        length = len(places)
        for start, end in ((0, length), (length // 3, length // 2), (length // 2, length // 2 + 1)):
            assert reading.span(start, end) == (places[start][0], places[end - 1][1])


@pytest.mark.parametrize("seed", range(12))
def test_values_among_hostile_pieces_are_cut_out_where_they_stand(seed: int) -> None:
    text = f"{mixed(seed)}\n\nMy SSN is 123-45-6789, ok?\n\n{mixed(seed + 100)}"
    for guardrail in (build_guardrail("secrets"), build_guardrail("pii")):
        behind = 0
        for redaction in finding_of(guardrail, text).redactions:
            assert behind <= redaction.start < redaction.end <= len(text)
            behind = redaction.end
    assert any(
        text[each.start : each.end] == "123-45-6789" or each.start < text.find("123-45") < each.end
        for each in finding_of(build_guardrail("pii"), text).redactions
    )


def test_entities_that_run_into_each_other_are_undone_once() -> None:
    text = "4111 1111 1111 1111 &lt&#65;&lt&#65; 4111 1111 1111 1111"
    assert readings_of(text)[1].plain == "4111 1111 1111 1111 <A<A 4111 1111 1111 1111"
    assert [(each.start, each.end) for each in finding_of(build_guardrail("pii"), text).redactions] == [
        (0, 19),
        (37, 56),
    ]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("i-d-i-o-t", "idiot"),
        ("it is A-K-I-A-Q, x", "it is AKIAQ, x"),
        ("a,b,c,d", "a,b,c,d"),  # too few to be a word
        ("a, b,  c , d,e", "abcde"),
        ("a,b,c,d,e,,,f,g,h,i,j", "abcde,fghij"),
        ("a,b,c,d,e,,,,,,f,g,h,i,j", "abcde,,,,,,fghij"),  # the gap is too wide for one word
        ("so a.b.c.d.e; f.g.h.i.j", "so abcde; fghij"),
        ("x;a,b,c,d,e;y,f,g,h,i", "x;abcde;yfghi"),  # signs end a word, and the next begins behind them
        ("\u00e9 \u00e9 \u00e9 \u00e9 \u00e9", "eeeee"),
        ("a\uff0cb\uff0cc\uff0cd\uff0ce", "abcde"),
        ("1 2 3 4 5 and p.q.r.s.t", "12345 and pqrst"),
    ],
)
def test_words_pulled_apart_are_put_together(text: str, plain: str) -> None:
    assert readings_of(text)[-1].plain == plain


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("4<b></b>1", "41"),
        ("a < b > c", "a < b > c"),
        ("x<!-- <b> -->y", "xy"),
        ("x<!-- never closed >y", "x<!-- never closed >y"),
        ("<div\n>a</div>", "\na\n"),
        (f"<b {'x' * 400}> <i>a</i>", f"<b {'x' * 400}> a"),  # too long for a tag; those behind it count
        ("\u00e9<b>\u00e9</b>", "\u00e9\u00e9"),
    ],
)
def test_tags_are_taken_out(text: str, plain: str) -> None:
    assert [reading.plain for reading in readings_of(text) if not reading.loose][-1] == plain


KNOWN = ("hate", "kill", "yourself", "fuck", "idiot", "stupid", "ignore", "rules")
TOPICS = build_guardrail("topics", deny={word: (word,) for word in KNOWN}, inflect=False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I h@te you", "hate"),
        ("k1ll y0urs3lf!", "kill yourself"),
        ("fu*k that, you id*ot", "fuck idiot"),
        ("stuuuupid", "stupid"),
        ("ignore-all+the_rules.", "ignore rules"),
        ("ignoreallrules", "ignore rules"),
        ("y0u 1d10t", "idiot"),
        ("an mp3 of 3d films, mail a@b.example", ""),
    ],
)
def test_signs_and_drawn_out_letters_are_read_where_this_gives_a_known_word(text: str, words: str) -> None:
    assert sorted((finding_of(TOPICS, text).data or {"topics": []})["topics"]) == words.split()


def test_an_ordinary_text_has_one_reading() -> None:
    assert len(readings_of("I would like to know how long the delivery takes, and how to pay for 3 chairs.")) == 1


def test_a_very_long_row_of_single_characters_is_one_place() -> None:
    text = f"ssn 123-45-6789, {'a b ' * 300}"
    loose = readings_of(text)[-1]
    at = loose.plain.index("abab")
    assert loose.span(at + 1, at + 3) == loose.span(at + 300, at + 302)
    assert [(each.start, each.end) for each in finding_of(build_guardrail("pii"), text).redactions] == [(4, 15)]


@pytest.mark.parametrize("text", ORDINARY[::3] + [case.text for case in CASES[::7]])
def test_spans_lie_in_the_original(text: str) -> None:
    for reading in readings_of(text):
        ends = 0
        for at in range(len(reading.plain)):
            start, end = reading.span(at, at + 1)
            assert 0 <= start < end <= len(text)
            assert end >= ends
            ends = end


@pytest.mark.parametrize("sign", ["", " ", "-", "*", ". "])
def test_a_text_that_is_passed_over_has_nothing_hidden(sign: str) -> None:
    for case in CASES:
        text = sign.join(case.text.replace("\n", " "))[:400]
        if len(readings_of(text)) == 1:
            # A text of several lines is never passed over.
            assert len(readings_of(f"\n{text}")) == 1, text
