from __future__ import annotations

import functools
import sys
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import Any

import pytest

from turnwise.conversation import Conversation
from turnwise.errors import ConversationError

NOON = datetime(2025, 1, 31, 12, tzinfo=UTC)


def chat_of(count: int) -> Conversation:
    """`count` turns, of which every third is open."""
    pairs = [(f"p{number}", None if number % 3 == 0 else f"r{number}") for number in range(1, count + 1)]
    return Conversation.from_turns(pairs)


def numbers(turns: Any) -> list[int]:
    return [turn.number for turn in turns]


@pytest.mark.shows("FR-006", "PLAN-3")
def test_history_gives_the_last_turns_in_order() -> None:
    chat = chat_of(5)
    assert numbers(chat.get_history()) == [1, 2, 3, 4, 5]
    assert numbers(chat.get_history(2)) == [4, 5]
    assert numbers(chat.get_history(5)) == [1, 2, 3, 4, 5]
    assert numbers(chat.get_history(99)) == [1, 2, 3, 4, 5]
    assert chat.get_history(0) == []
    assert Conversation("u").get_history() == []


@pytest.mark.shows("PLAN-8")
@pytest.mark.parametrize("limit", [-1, 1.5, "2", True])
def test_history_refuses_a_limit_that_is_no_count(limit: object) -> None:
    with pytest.raises(ConversationError, match=r"limit is .*; use a whole number from 0"):
        chat_of(1).get_history(limit)  # type: ignore[arg-type]


def test_history_is_a_list_of_its_own() -> None:
    chat = chat_of(2)
    chat.get_history().clear()
    chat.get_incomplete_turns().clear()
    assert chat.get_turn_count() == 2


@pytest.mark.shows("PLAN-3")
def test_complete_and_incomplete_turns() -> None:
    chat = chat_of(7)
    assert numbers(chat.get_complete_turns()) == [1, 2, 4, 5, 7]
    assert numbers(chat.get_incomplete_turns()) == [3, 6]
    assert (chat.get_turn_count(), chat.get_complete_turn_count()) == (7, 5)


def test_an_empty_response_is_a_response() -> None:
    chat = Conversation("u")
    chat.add_turn("a", "")
    assert chat.get_complete_turn_count() == 1


def test_turns_by_number_and_the_last_one() -> None:
    chat = chat_of(3)
    assert chat.turn(3).prompt == "p3"
    assert chat.history.last is chat.turn(3)
    assert Conversation("u").history.last is None
    for number in (0, -1, 4):
        with pytest.raises(ConversationError, match=f"there is no turn {number}: number must be 1 to 3"):
            chat.turn(number)


def test_turns_is_a_snapshot_that_reads_like_a_tuple() -> None:
    chat = chat_of(4)
    turns = chat.turns
    chat.add_prompt("later")
    assert len(turns) == 4
    assert numbers(turns) == [1, 2, 3, 4]
    assert numbers(turns[1:3]) == [2, 3]
    assert numbers(turns[::-1]) == [4, 3, 2, 1]
    assert turns[-1].number == 4
    assert turns[0] in turns
    assert chat.turn(5) not in turns
    with pytest.raises(IndexError):
        turns[4]
    with pytest.raises(IndexError):
        turns[-5]


def test_snapshots_compare_by_their_turns() -> None:
    assert chat_of(3).turns == chat_of(3).turns
    assert chat_of(3).turns == tuple(chat_of(3))
    assert chat_of(3).turns == list(chat_of(3))
    assert chat_of(3).turns != chat_of(4).turns
    assert chat_of(1).turns != "p"
    assert repr(chat_of(1).turns).startswith("Turns([Turn(number=1, prompt='p1'")
    with pytest.raises(TypeError):
        hash(chat_of(1).turns)


def test_adding_while_iterating_ends() -> None:
    chat = chat_of(2)
    for _ in chat:
        chat.add_prompt("more")
    assert chat.get_turn_count() == 4


@pytest.mark.shows("PLAN-3")
def test_duration_runs_from_the_earliest_stamp_to_the_latest() -> None:
    chat = Conversation("u", clock=lambda: NOON)
    assert chat.get_duration() == 0.0
    chat.add_prompt("a")
    assert chat.get_duration() == 0.0
    chat.add_response("b", timestamp=NOON + timedelta(seconds=90))
    assert chat.get_duration() == 90.0
    chat.add_prompt("c", timestamp=NOON + timedelta(seconds=60))
    assert chat.get_duration() == 90.0
    chat.add_prompt("d", timestamp=NOON - timedelta(milliseconds=500))
    assert chat.get_duration() == 90.5


# The same cost at turn 10,000 as at turn 10: counted, not timed.


def lines_of(call: Callable[[], object]) -> int:
    """How many lines of the package run in a call."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        if not frame.f_globals["__name__"].startswith("turnwise."):
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def bytes_of(call: Callable[[], object]) -> int:
    """How much memory a call holds at its peak."""
    tracemalloc.start()
    try:
        kept = call()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    del kept
    return peak


READS: dict[str, Callable[[Conversation], object]] = {
    "the first turn of an iteration": lambda chat: next(iter(chat)),
    "turns": lambda chat: chat.turns,
    "turn": lambda chat: chat.turn(7),
    "history.last": lambda chat: chat.history.last,
    "get_history": lambda chat: chat.get_history(5),
    "get_history(0)": lambda chat: chat.get_history(0),
    "get_incomplete_turns": lambda chat: chat.get_incomplete_turns(),
    "get_turn_count": lambda chat: chat.get_turn_count(),
    "get_complete_turn_count": lambda chat: chat.get_complete_turn_count(),
    "get_duration": lambda chat: chat.get_duration(),
    "limits.exceeded": lambda chat: chat.limits.exceeded(),
    "limits.reset": lambda chat: chat.limits.reset(),
}
WRITES: dict[str, Callable[[Conversation], object]] = {
    "add_turn": lambda chat: chat.add_turn("a", "b"),
    "add_exchange": lambda chat: chat.add_exchange("a", "b"),
    "add_prompt": lambda chat: chat.add_prompt("a"),
    "limits.try_add_prompt": lambda chat: chat.limits.try_add_prompt("a"),
    "add_response": lambda chat: chat.add_response("b"),
    "add_response to a turn": lambda chat: chat.add_response("b", turn_number=8),
}


def long_chat(count: int) -> Conversation:
    """Turns 6 to 10 wait for a response; the limit is far off and all prompts are in its window."""
    chat = Conversation("u", rate_limit={"turns_per_day": 50_000, "turns_per_minute": 5}, clock=lambda: NOON)
    for number in range(1, count + 1):
        stamp = NOON - timedelta(seconds=3600 - number / 10)
        chat.add_turn("p", None if 6 <= number <= 10 else "r", timestamp=stamp)
    return chat


chat_to_read = functools.cache(long_chat)
"""A conversation that tests share to read: making a long one takes longer than all that is asked of it."""


@pytest.mark.shows("EDGE-2")
@pytest.mark.parametrize("name", READS | WRITES)
def test_the_same_steps_at_turn_ten_thousand(name: str) -> None:
    operation = (READS | WRITES)[name]
    short, long = map(chat_to_read if name in READS else long_chat, (10, 10_000))
    assert 0 < lines_of(lambda: operation(short)) == lines_of(lambda: operation(long))


@pytest.mark.parametrize("name", READS)
def test_no_hidden_copy_at_turn_ten_thousand(name: str) -> None:
    # A copy of 10,000 references would take 80,000 bytes.
    long = chat_to_read(10_000)
    assert bytes_of(lambda: READS[name](long)) < 4_000
