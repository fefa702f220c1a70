"""Pages that people write are few words, and each begins with what it is for."""

from __future__ import annotations

import re

import pytest
from documentation.word_count import hand_written, words

PAGES = hand_written()


def test_all_pages_together_are_short():
    assert 20_000 < sum(words().values()) <= 42_000, "see python -m documentation --words"
    assert sum(words(code=True).values()) <= 49_000


@pytest.mark.parametrize("name", [name for name in PAGES if "/decisions/" in name])
def test_a_decision_is_short(name):
    assert len(PAGES[name].splitlines()) <= 40


@pytest.mark.parametrize("name", PAGES)
def test_a_page_begins_with_a_paragraph_that_says_what_it_is_for(name):
    title, empty, *rest = PAGES[name].splitlines()
    assert title.startswith("# ") and not empty
    first = "\n".join(rest).split("\n\n")[0]
    assert not re.match(r"[#>|!<]|```|- |\* |\d+\. ", first), first
    assert 10 <= len(first.split()) <= 80, first
