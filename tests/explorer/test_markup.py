"""Texts of others are text, whatever is in them."""

from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from turnwise.explorer.markup import element, text_lines
from turnwise.explorer.svg_charts import small_graph
from turnwise.explorer.views.turn_detail import detail

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J\u202etxt.exe\u2066\x00 &lt; \"'"


@given(st.text())
def test_a_text_never_becomes_markup(text):
    for made in (element("p", text), element("p", title=text), text_lines(text)):
        inner = made.removeprefix("<p>").removeprefix('<p title="').removesuffix("</p>").removesuffix('">')
        assert "<" not in inner and ">" not in inner and '"' not in inner


def test_what_could_hide_or_forge_something_is_shown():
    shown = element("p", HOSTILE)
    assert "<script" not in shown and "<img" not in shown
    assert not any(character in shown for character in "\x1b\u202e\u2066\x00")
    assert "\\u202e" in shown and "\\x1b" in shown


def test_markup_of_our_own_stays():
    assert element("p", element("b", "x"), [Markup("<br>"), None, 3]) == "<p><b>x</b><br>3</p>"


def test_a_small_graph_is_broken_at_a_gap_and_says_in_words_what_it_shows():
    graph = small_graph([(1, 0.1), (2, 0.5), (4, 0.9)], turns=4, flag=4)
    assert graph.count("M") == 2 and graph.count("L") == 1
    assert 'aria-label="highest F 0.90, flagged at turn 4"' in graph
    assert "no score" in small_graph([], turns=3)


def test_the_detail_of_a_turn_shows_its_metadata_as_text():
    from turnwise.conversation import Conversation, Label, Sequence
    from turnwise.explorer.data.sequence import Chat

    chat = Conversation()
    chat.add_turn("Hello", metadata={HOSTILE: HOSTILE})
    shown = detail(Chat(Sequence("a", Label.BENIGN, "s", chat)), 1)
    assert "<script" not in shown and "onerror" in shown
