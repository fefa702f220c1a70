"""What people say of conversations is kept beside what the data set said, with author, time and note."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.store.conftest import NOW

from turnwise.conversation import Label, Seen, SeenDigest, Side
from turnwise.errors import UnknownNameError, UsageError
from turnwise.scoring import Score
from turnwise.store import LabelCorrection, Store

MILD, GRAVE = Score(0.8, 0.1, 0.1), Score(0.1, 0.2, 0.9)
VERSIONS = {"reciprocity": "1+abc", "third_party_harm": "1+def"}
Make = Callable[..., Any]
Raw = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def chats(store: Store, make_sequence: Make) -> Store:
    """Return a store of a conversation labelled attack and one labelled benign."""
    store.add_sequences([make_sequence("a"), make_sequence("b", label=Label.BENIGN)])
    return store


def test_a_correction_has_author_time_and_note_and_the_label_stays(chats: Store) -> None:
    said = chats.people.correct_label("a", "benign", " Ann ", "a lesson on locks\n")
    assert said == LabelCorrection("a", "label", Label.BENIGN, None, "Ann", "a lesson on locks", NOW)
    assert chats.people.corrections() == (said,)
    assert chats.sequence("a").label is Label.ATTACK


def test_the_latest_word_of_each_author_counts_and_the_earlier_ones_stay(chats: Store) -> None:
    people = chats.people
    people.correct_label("a", Label.BENIGN, "ann")
    people.correct_label("a", Label.UNLABELLED, "ann", "not sure any more")
    people.correct_label("a", Label.ATTACK, "ben")
    people.mark_turn("a", 2, "ann")
    latest = [(one.author, one.kind, one.label, one.turn) for one in people.corrections()]
    assert latest == [
        ("ann", "label", Label.UNLABELLED, None),
        ("ben", "label", Label.ATTACK, None),
        ("ann", "turn", None, 2),
    ]
    assert len(people.corrections(history=True)) == 4
    assert [one.author for one in people.corrections(author="ben")] == ["ben"]
    assert people.corrections(ids=["b"]) == ()
    assert people.authors() == ("ann", "ben")


def test_what_was_said_can_be_taken_back(chats: Store) -> None:
    chats.people.correct_label("a", "benign", "ann")
    chats.people.correct_label("a", None, "ann")
    assert chats.people.corrections() == ()
    assert [one.taken_back for one in chats.people.corrections(history=True)] == [False, True]


def test_labels_of_people_hold_where_they_agree(chats: Store) -> None:
    people = chats.people
    people.correct_label("a", "benign", "ann")
    people.correct_label("b", "attack", "ann")
    people.correct_label("b", "benign", "ben")
    assert people.labels() == {"a": Label.BENIGN, "b": None}
    assert people.labels(["ann"]) == {"a": Label.BENIGN, "b": Label.ATTACK}


def test_a_turn_is_marked_as_the_one_where_it_turned_or_none_is(chats: Store) -> None:
    assert chats.people.mark_turn("a", 2, "ann").turn == 2
    assert chats.people.mark_turn("b", 0, "ann").turn == 0
    with pytest.raises(UsageError, match="sequence 'a' has turns 1 to 2, not 3; 0 says that it never turned"):
        chats.people.mark_turn("a", 3, "ann")


def test_a_judgement_holds_for_the_very_text_that_was_read(chats: Store) -> None:
    given = {"reciprocity": MILD, "third_party_harm": GRAVE}
    made = chats.people.judge("a", 2, given, "ann", versions=VERSIONS, note="the second step")
    digest = SeenDigest()
    for turn in chats.sequence("a").conversation:
        digest = digest.after(turn)
    assert [(one.principle, one.score, one.principle_version) for one in made] == [
        ("reciprocity", MILD, "1+abc"),
        ("third_party_harm", GRAVE, "1+def"),
    ]
    assert {(one.seen, one.digest) for one in made} == {(Seen.PROMPTS, digest.of(Seen.PROMPTS))}
    assert chats.people.scores() == made


def test_a_turn_may_be_scored_again(chats: Store) -> None:
    for score in (MILD, GRAVE):
        chats.people.judge("a", 1, {"reciprocity": score}, "ann", versions=VERSIONS)
    chats.people.judge("a", 1, {"reciprocity": MILD}, "ben", versions=VERSIONS)
    chats.people.judge("a", 1, {"reciprocity": MILD}, "ann", versions=VERSIONS, side=Side.RESPONSE, seen=Seen.BOTH)
    latest = [(one.author, one.side, one.score) for one in chats.people.scores()]
    assert latest == [("ann", "prompt", GRAVE), ("ben", "prompt", MILD), ("ann", "response", MILD)]
    assert len(chats.people.scores(history=True)) == 4
    assert [one.score for one in chats.people.scores(ids=["a"], author="ben")] == [MILD]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"author": "  "}, "say who you are"),
        ({"author": "a\u202eb"}, "at most 100 characters, all of which can be seen"),
        ({"author": "a" * 101}, "at most 100 characters"),
        ({"note": "x" * 10_001}, "a note has at most 10,000 characters, not 10,001"),
        ({"label": "evil"}, "a label must be one of attack, benign, unlabelled, not 'evil'"),
    ],
)
def test_what_can_not_be_kept_is_refused(chats: Store, wrong: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        chats.people.correct_label(**{"sequence_id": "a", "label": "benign", "author": "ann", **wrong})
    assert chats.people.corrections(history=True) == ()


def test_only_turns_that_are_there_can_be_scored(chats: Store) -> None:
    judge = chats.people.judge
    with pytest.raises(UnknownNameError, match="unknown sequence 'c'"):
        judge("c", 1, {"reciprocity": MILD}, "ann", versions=VERSIONS)
    with pytest.raises(UsageError, match="has turns 1 to 2, not 3"):
        judge("a", 3, {"reciprocity": MILD}, "ann", versions=VERSIONS)
    with pytest.raises(UsageError, match="turn 2 has no response to score"):
        judge("a", 2, {"reciprocity": MILD}, "ann", versions=VERSIONS, side=Side.RESPONSE)
    with pytest.raises(UsageError, match="a score against at least one principle"):
        judge("a", 1, {}, "ann", versions=VERSIONS)


def test_stores_of_two_people_become_one(chats: Store, tmp_path: Path, make_sequence: Make, location: str) -> None:
    chats.people.correct_label("a", "benign", "ann")
    chats.people.judge("a", 1, {"reciprocity": MILD}, "ann", versions=VERSIONS)
    with Store(tmp_path / "ben.db", create=True, clock=lambda: NOW) as other:
        other.add_sequences([make_sequence("z"), make_sequence("a")])
        other.people.correct_label("a", "attack", "ben")
        other.people.judge("a", 1, {"reciprocity": GRAVE}, "ben", versions=VERSIONS)
    for times in (1, 0):
        merged = chats.import_from(tmp_path / "ben.db")
        assert (merged.added["corrections"], merged.added["human_scores"]) == (times, times)
    assert chats.people.labels() == {"a": None}
    assert [(one.author, one.score) for one in chats.people.scores()] == [("ann", MILD), ("ben", GRAVE)]


def test_an_older_store_takes_corrections_once_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(Path(__file__).with_name("version_1.sql").read_text(encoding="utf-8"))
    with Store(path) as store:
        assert store.people.corrections() == ()
        store.people.correct_label("old", "benign", "ann")
    with Store(path) as store:
        assert isinstance(store.people.corrections()[0].created_at, datetime)


def test_a_damaged_row_is_named(chats: Store, raw: Raw) -> None:
    from turnwise.errors import StoreCorruptError

    chats.people.correct_label("a", "benign", "ann")
    raw("UPDATE corrections SET label = 'evil'")
    with pytest.raises(
        StoreCorruptError, match=r"corrections\.label where sequence_id is 'a' and id is 1: 'evil' is not one of"
    ):
        chats.people.corrections()
