"""The readings of hostile texts: what is undone stands in order and apart, and every value keeps its place."""

from __future__ import annotations

import random

import pytest
from benchmarks.hostile import UNITS

from turnwise.guard import build_guardrail, finding_of
from turnwise.guard.recognisers.decoding import decoders_for, entities, tags
from turnwise.guard.recognisers.deobfuscation import readings_of
from turnwise.guard.recognisers.disguises import DISGUISES, pulled_apart
from turnwise.guard.recognisers.hidden_text import respelled

PIECES = (*UNITS, "&lt&#65;", "<b>", "=\r\n", "%41", "\\u0041", "a-b-c-d-e-", "SGVsbG8gd29ybGQgYWdhaW4= ", "AKIA")


def mixed(seed: int) -> str:
    return "".join(random.Random(seed).choices(PIECES, k=120))


def without(text: str, undo) -> str:
    """Return a text with what an undoing finds carried out."""
    for start, end, instead in reversed([*undo(text)]):
        text = text[:start] + instead + text[end:]
    return text


@pytest.mark.parametrize("seed", range(40))
def test_what_is_undone_stands_in_order_and_apart(seed: int) -> None:
    text = mixed(seed)
    for undo in (*decoders_for(text), *DISGUISES):
        behind = 0
        for start, end, _ in undo(text):
            assert behind <= start < end <= len(text), undo.__name__
            behind = end


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
    assert without(text, entities) == "4111 1111 1111 1111 <A<A 4111 1111 1111 1111"
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
        ("\u00e9 \u00e9 \u00e9 \u00e9 \u00e9", "\u00e9\u00e9\u00e9\u00e9\u00e9"),
        ("a\uff0cb\uff0cc\uff0cd\uff0ce", "abcde"),
        ("1 2 3 4 5 and p.q.r.s.t", "12345 and pqrst"),
    ],
)
def test_words_pulled_apart_are_put_together(text: str, plain: str) -> None:
    assert without(text, pulled_apart) == plain


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
    assert without(text, tags) == plain


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("I h@te you", "I hate you"),
        ("k1ll y0urs3lf!", "kill yourself!"),
        ("f**k that, you id*ot", "fuck that, you idiot"),
        ("stuuuupid", "stupid"),
        ("ignore-all+the_rules.", "ignore all the rules"),
        ("ignoreallrules", "ignore all rules"),
        ("y0u 1d10t", "y0u idiot"),
        ("an mp3 of 3d films, mail a@b.example", "an mp3 of 3d films, mail a@b.example"),
    ],
)
def test_signs_and_drawn_out_letters_are_read_where_this_gives_a_known_word(text: str, plain: str) -> None:
    known = frozenset({"hate", "kill", "yourself", "fuck", "idiot", "stupid", "ignore", "rules"})
    assert respelled(text, known) == plain
