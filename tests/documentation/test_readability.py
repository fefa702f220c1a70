"""Pages for newcomers can be read with ease."""

from __future__ import annotations

from pathlib import Path

import pytest
from documentation.readability import grade, prose

ROOT = Path(__file__).parents[2]

TUTORIALS = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs" / "tutorials").glob("*.md"))

PAGES = ["README.md", *TUTORIALS]
"""Pages that are held to a grade."""

HARDEST = 9
"""School year that has to follow them."""


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_read_with_ease(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert len(prose(text).split()) > 100
    assert grade(text) <= HARDEST


def test_there_are_at_most_five_tutorials_and_each_says_what_you_will_have():
    assert 1 <= len(TUTORIALS) <= 5
    for page in TUTORIALS:
        first = (ROOT / page).read_text(encoding="utf-8").split("\n\n")[1]
        assert first.startswith("In ten minutes you will have"), page


def test_long_words_and_long_sentences_are_hard():
    easy = "You run it. It tells you which of the turns is bad."
    long = "You run it and it tells you which of the turns of any of the chats in the store is bad and why it is."
    hard = "Indeterminacy characterises conversational trajectories exhibiting insufficient evaluability."
    assert grade(easy) < HARDEST < grade(hard)
    assert grade(easy) < grade(long)


def test_code_tables_headings_and_addresses_are_not_read_aloud():
    page = """# Extraordinarily complicated considerations

You run it, and [it says so](very/long/unpronounceable/address.md).

| incomprehensible | categorisation |
|---|---|

```sh
turnwise incomprehensible --categorisation
```
"""
    assert " ".join(prose(page).split()) == "You run it, and it says so."


def test_a_page_without_prose_has_no_grade():
    with pytest.raises(ValueError, match="no prose"):
        grade("# Heading\n\n```\ncode\n```\n")
