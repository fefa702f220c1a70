"""A turn by itself, and a conversation with its ground truth."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import pytest

from turnwise.conversation import Conversation, Label, Sequence, Side, Turn
from turnwise.errors import ConversationError

NOON = datetime(2025, 1, 31, 12, tzinfo=UTC)


def test_text_of_each_side() -> None:
    turn = Turn(1, "question", "answer")
    assert (turn.text(Side.PROMPT), turn.text(Side.RESPONSE)) == ("question", "answer")
    assert turn.complete
    waiting = Turn(1, "question")
    assert waiting.text(Side.RESPONSE) is None
    assert not waiting.complete


@pytest.mark.shows("PLAN-1")
def test_completing_a_turn() -> None:
    turn = Turn(3, "question", timestamp=NOON)
    turn.complete_with("answer", None)
    assert turn == Turn(3, "question", "answer", timestamp=NOON)
    with pytest.raises(ConversationError, match="turn 3: response is int"):
        turn.complete_with(5, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [0, -1, "1", 1.0, True])
def test_turns_are_numbered_from_one(number: object) -> None:
    with pytest.raises(ConversationError, match="turns are numbered from 1"):
        Turn(number, "a")  # type: ignore[arg-type]


def test_texts_are_text() -> None:
    with pytest.raises(ConversationError, match="turn 2: prompt is NoneType, not text"):
        Turn(2, None)  # type: ignore[arg-type]
    with pytest.raises(ConversationError, match="turn 2: response is list, not text"):
        Turn(2, "a", ["b"])  # type: ignore[arg-type]


def test_times_have_a_zone() -> None:
    with pytest.raises(ConversationError, match="turn 1: timestamp 2025-01-31 12:00:00 has no time zone"):
        Turn(1, "a", timestamp=NOON.replace(tzinfo=None))
    with pytest.raises(ConversationError, match="turn 1: response_timestamp is str, not a datetime"):
        Turn(1, "a", "b", response_timestamp="now")  # type: ignore[arg-type]


@pytest.mark.shows("PLAN-1")
def test_a_turn_survives_its_dict() -> None:
    turn = Turn(1, "a", "b", NOON, NOON, {"k": {"l": [1]}})
    assert Turn.from_dict(turn.to_dict()) == turn


def test_a_sequence_holds_its_ground_truth() -> None:
    chat = Conversation.from_turns([("a", "b")])
    sequence = Sequence("s-1", Label("attack"), "my_set", chat)
    assert (sequence.label, sequence.metadata) == (Label.ATTACK, {})
    with pytest.raises(dataclasses.FrozenInstanceError):
        sequence.label = Label.BENIGN  # type: ignore[misc]


def test_a_sequence_needs_an_id_and_turns() -> None:
    with pytest.raises(ConversationError, match="a sequence needs an id"):
        Sequence("", Label.BENIGN, "my_set", Conversation.from_turns([("a", None)]))
    with pytest.raises(ConversationError, match="sequence 's-1' has no turns"):
        Sequence("s-1", Label.UNLABELLED, "my_set", Conversation("u"))


def test_where_it_stood_in_its_file_is_no_part_of_a_sequence() -> None:
    chat = Conversation.from_turns([("a", "b")])
    assert Sequence("s-1", Label.ATTACK, "my_set", chat, line=3) == Sequence("s-1", Label.ATTACK, "my_set", chat)
