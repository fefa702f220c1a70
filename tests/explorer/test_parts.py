"""Small graphs, and where the words of a search are in a text."""

from hypothesis import given
from hypothesis import strategies as st

from turnwise.explorer import excerpt, found_words, search_words
from turnwise.explorer.parts import drawing


def test_a_small_graph_is_broken_at_a_gap_and_says_in_words_what_it_shows():
    graph = drawing([(1, 0.1), (2, 0.5), (4, 0.9)], turns=4, flag=4)
    assert graph["path"].count("M") == 2 and graph["path"].count("L") == 1
    assert graph["said"] == "highest F 0.90, flagged at turn 4" and graph["flag"]
    assert drawing([], turns=3) == {"path": "", "flag": "", "said": "no score"}


def test_words_are_found_in_any_case_and_with_any_accents():
    text = "Straße: ein CAFÉ, zwei Cafés"
    assert [text[begin:end] for begin, end in found_words(text, ["strasse", "cafe", "caf*"])] == [
        "Straße", "CAFÉ", "Caf",
    ]  # fmt: skip


@given(st.text(), st.lists(st.text(max_size=4), max_size=4))
def test_what_is_found_lies_in_the_text_in_order_and_apart(text, words):
    found = found_words(text, words)
    ends = [0, *(place for span in found for place in span), len(text)]
    assert ends == sorted(ends)


def test_an_excerpt_has_what_is_around_the_first_word_and_shows_what_would_hide():
    cell = excerpt("a\u202eb please " + "c" * 100, search_words('-nothing "please"'))
    assert cell == {"before": "a\\u202eb ", "found": "please", "after": " " + "c" * 59}
    assert excerpt("nothing", ["please"]) is None
