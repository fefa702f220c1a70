"""Words of a search: the index that finds conversations, and where they are in a text."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.conversation import Conversation, Label, Sequence
from turnwise.explorer import ViewedStore, WordIndex, excerpt, found_words, search_words
from turnwise.store import Store


def sequence(name, *texts):
    chat = Conversation()
    for text in texts:
        chat.add_turn(text)
    return Sequence(name, Label.BENIGN, "test", chat)


@pytest.fixture
def file(tmp_path):
    with Store(tmp_path / "work.db", create=True) as store:
        store.add_sequences([sequence("one", "Résumé of a marmot"), sequence("two", "a marmoset")])
    return tmp_path / "work.db"


def found(file, words):
    with Store(file) as store:
        index = WordIndex(ViewedStore(store))
        try:
            index.wait()
            return index.find(words).tolist(), index.progress()
        finally:
            index.close()


def test_it_lies_beside_the_record_and_goes_on_where_it_was(file):
    assert found(file, "marmot") == ([1], (2, 2))
    assert file.with_name("work.db-words").is_file()
    with Store(file) as store:
        store.add_sequences([sequence("three", "hello", "the marmot again")])
    assert found(file, "marmot") == ([1, 3], (3, 3))
    assert found(file, "marmo*") == ([1, 2, 3], (3, 3))
    assert found(file, "resume MARMOT") == ([1], (3, 3))


def test_another_record_of_the_same_name_gets_an_index_of_its_own(file, tmp_path):
    assert found(file, "marmot")[0] == [1]
    with Store(tmp_path / "other.db", create=True) as store:
        store.add_sequences([sequence("a", "nothing"), sequence("b", "one marmot")])
    shutil.copy(tmp_path / "other.db", file)
    assert found(file, "marmot") == ([2], (2, 2))


def test_a_file_of_that_name_that_is_not_ours_is_left_alone(file):
    there = file.with_name("work.db-words")
    there.write_text("my notes")
    assert found(file, "marmot")[0] == [1]
    assert there.read_text() == "my notes"


def test_an_index_with_objects_of_somebody_else_is_left_alone(file):
    assert found(file, "marmot")[0] == [1]
    there = file.with_name("work.db-words")
    with closing(sqlite3.connect(there)) as index:
        index.execute("CREATE TRIGGER t AFTER INSERT ON upto BEGIN DELETE FROM upto; END")
    before = there.read_bytes()
    assert found(file, "marmot")[0] == [1]
    assert there.read_bytes() == before


def test_sequences_that_come_while_it_is_open_are_found(file):
    with Store(file) as store:
        index = WordIndex(ViewedStore(store))
        index.wait()
        store.add_sequences([sequence("three", "a marmot")])
        index.wait()
        assert index.find("marmot").tolist() == [1, 3]
        index.close()


def test_what_was_erased_is_not_found_by_an_explorer_that_is_open(file):
    with Store(file) as looking, Store(file) as other:
        index = WordIndex(ViewedStore(looking))
        try:
            index.wait()
            assert index.find("marmot").tolist() == [1]
            other.erase(["one"])
            index.wait()
            assert index.find("marmot").tolist() == [] and index.find("marmoset").tolist() == [2]
        finally:
            index.close()


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
