from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Barrier
from types import FrameType
from typing import Any

from turnwise.conversation import Conversation

THREADS = 8
NOON = datetime(2025, 1, 31, 12, tzinfo=UTC)


def give_way(frame: FrameType, event: str, argument: object) -> Any:
    """Let another thread run before every line of the package, so that a missing lock shows."""
    if not frame.f_globals["__name__"].startswith("turnwise."):
        return None
    time.sleep(0)
    return give_way


def together(work: Callable[[int], Any]) -> list[Any]:
    """Run the work in all threads at once; the argument is the number of the thread."""
    barrier = Barrier(THREADS)

    def start(thread: int) -> Any:
        before = sys.gettrace()
        barrier.wait()
        sys.settrace(give_way)
        try:
            return work(thread)
        finally:
            sys.settrace(before)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(start, range(THREADS)))


def test_no_turn_is_lost_and_no_number_given_twice() -> None:
    chat = Conversation("u")

    def work(thread: int) -> None:
        for place in range(20):
            chat.add_prompt(f"{thread}-{place}")

    together(work)
    assert [turn.number for turn in chat] == list(range(1, 161))
    assert {turn.prompt for turn in chat} == {f"{t}-{p}" for t in range(THREADS) for p in range(20)}


def test_each_response_completes_a_turn_of_its_own() -> None:
    chat = Conversation("u")

    def work(thread: int) -> None:
        for place in range(20):
            chat.add_prompt("a")
            chat.add_response(f"{thread}-{place}")

    together(work)
    assert chat.get_complete_turn_count() == chat.get_turn_count() == 160
    assert chat.get_incomplete_turns() == []
    assert {turn.response for turn in chat} == {f"{t}-{p}" for t in range(THREADS) for p in range(20)}


def test_a_limit_of_twenty_admits_twenty() -> None:
    chat = Conversation("u", rate_limit={"turns_per_minute": 20}, clock=lambda: NOON)

    def work(thread: int) -> int:
        return sum(chat.limits.try_add_prompt(f"{thread}-{place}") is not None for place in range(10))

    admitted = together(work)
    assert sum(admitted) == 20
    assert chat.get_turn_count() == 20


def test_what_is_read_while_others_write_is_consistent() -> None:
    chat = Conversation("u", rate_limit={"turns_per_day": 100})

    def work(thread: int) -> None:
        for _ in range(4):
            if thread % 2:
                chat.add_prompt("a")
                chat.add_response("b")
                continue
            data = chat.to_dict()
            assert [turn["turn"] for turn in data["turns"]] == list(range(1, len(data["turns"]) + 1))
            for turn in data["turns"]:
                assert (turn["response"] is None) == (turn["response_timestamp"] is None)
            assert Conversation.from_dict(data).to_dict() == data
            assert all(turn.response_timestamp is not None for turn in chat.get_complete_turns())
            chat.get_duration()
            chat.limits.exceeded()

    together(work)
    assert chat.get_turn_count() == 16


def test_a_response_never_shows_without_its_time() -> None:
    chat = Conversation("u")
    turn = chat.add_prompt("a")
    seen = []

    def look(frame: FrameType, event: str, argument: object) -> Any:
        seen.append((turn.response, turn.response_timestamp is not None))
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        chat.add_response("b")
    finally:
        sys.settrace(before)
    assert (None, False) in seen
    assert ("b", True) in seen
    assert ("b", False) not in seen
