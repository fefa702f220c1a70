"""Turns are scored one after the other, and what comes later is hidden until then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from turnwise.conversation import Conversation, Label, Sequence
from turnwise.errors import UnknownNameError, UsageError
from turnwise.explorer import Judging, given_by, judging, next_conversation, score_again
from turnwise.principles import principle_names
from turnwise.scoring import Score
from turnwise.store import Store

MILD = dict.fromkeys(principle_names(), Score(0.9, 0.1, 0.1))
GRAVE = dict.fromkeys(principle_names(), Score(0.1, 0.1, 0.9))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return a store of two conversations."""
    with Store(tmp_path / "work.db", create=True) as opened:
        for name, turns in (("a", [("a1", "r1"), ("a2", None), ("a3", "r3")]), ("b", [("b1", "r1")])):
            chat = Conversation.from_turns(turns, conversation_id=name)
            opened.add_sequences([Sequence(name, Label.ATTACK, "made", chat)])
        yield opened


def give_scores(state: Judging, store: Store, scores: dict[str, Score], note: str = "") -> Judging:
    """Score the turn that is due."""
    assert state.now is not None
    return score_again(state, store, state.now, scores, note)


def test_later_turns_are_hidden_until_the_earlier_are_scored(store: Store) -> None:
    state = judging(store, "a", "ann")
    assert (state.now, [one.text for one in state.texts]) == (1, ["a1"])
    state = give_scores(state, store, MILD, "nothing here")
    assert (state.now, [(one.text, one.judged) for one in state.texts]) == (2, [("a1", False), ("a2", True)])
    state = give_scores(give_scores(state, store, MILD), store, GRAVE)
    assert state.done
    assert sorted(state.scored) == [1, 2, 3]
    assert state.scored[1]["reciprocity"].note == "nothing here"
    with pytest.raises(UsageError, match="turn 4 is not due"):
        score_again(state, store, 4, MILD)


def test_each_way_of_reading_shows_what_it_says(store: Store) -> None:
    alone = give_scores(judging(store, "a", "ann", "turn"), store, MILD)
    assert [one.text for one in alone.texts] == ["a2"]
    replies = judging(store, "a", "ann", "replies")
    assert (replies.turns, [one.text for one in replies.texts]) == ((1, 3), ["a1", "r1"])
    replies = give_scores(replies, store, MILD)
    assert (replies.now, [one.text for one in replies.texts]) == (3, ["a1", "r1", "a2", "a3", "r3"])
    with pytest.raises(UnknownNameError, match="unknown way of reading 'all'"):
        judging(store, "a", "ann", "all")


def test_people_judge_apart_from_each_other(store: Store) -> None:
    give_scores(judging(store, "a", "ann"), store, MILD)
    assert judging(store, "a", "ben").now == 1
    assert judging(store, "a", "ann").now == 2


def test_a_score_can_be_mended_but_no_turn_skipped(store: Store) -> None:
    state = give_scores(judging(store, "a", "ann"), store, MILD)
    state = score_again(state, store, 1, GRAVE, "on second thoughts")
    assert state.scored[1]["reciprocity"].score.F == 0.9
    with pytest.raises(UsageError, match="turn 3 is not due: score turn 2 first"):
        score_again(state, store, 3, MILD)
    with pytest.raises(UsageError, match="turn 2 has no score for context_integrity, third_party_harm"):
        give_scores(state, store, {"reciprocity": Score(0.5, 0.5, 0.5)})


def test_the_next_conversation_is_one_that_is_not_finished(store: Store) -> None:
    assert next_conversation(store, "ann", "history") == "a"
    assert next_conversation(store, "ann", "history", after="a") == "b"
    give_scores(judging(store, "b", "ann"), store, MILD)
    assert next_conversation(store, "ann", "history", after="a") == "a"
    for _ in range(3):
        give_scores(judging(store, "a", "ann"), store, MILD)
    assert next_conversation(store, "ann", "history") is None
    assert next_conversation(store, "ann", "replies") == "a"
    assert given_by(store.people.scores()) == {"ann": 4}
