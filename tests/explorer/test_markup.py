"""Texts of others are text, whatever is in them."""

from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from turnwise.explorer.markup import element, text_lines

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
