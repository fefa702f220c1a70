from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.conversation import Conversation
from turnwise.errors import ConversationError

NOON = datetime(2025, 1, 31, 12, tzinfo=UTC)


class Clock:
    """Stands still until it is told to move on."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, **delta: float) -> None:
        self.now += timedelta(**delta)


@pytest.mark.shows("PLAN-3")
def test_three_prompts_pass_and_the_fourth_does_not() -> None:
    chat = Conversation("u", rate_limit={"turns_per_minute": 3}, clock=Clock())
    seen = []
    for _ in range(4):
        seen.append(chat.limits.exceeded())
        chat.add_prompt("a")
    assert seen == [False, False, False, True]


def test_asking_does_not_count() -> None:
    chat = Conversation("u", rate_limit={"turns_per_minute": 1}, clock=Clock())
    assert [chat.limits.exceeded() for _ in range(5)] == [False] * 5


@pytest.mark.shows("PLAN-10")
def test_responses_never_count() -> None:
    chat = Conversation("u", rate_limit={"turns_per_minute": 2}, clock=Clock())
    chat.add_prompt("a")
    chat.add_response("b")
    assert not chat.limits.exceeded()
    chat.add_exchange("c", "d")
    assert chat.limits.exceeded()


def test_without_a_limit_nothing_is_exceeded() -> None:
    chat = Conversation("u", clock=Clock())
    for _ in range(100):
        chat.add_prompt("a")
    assert not chat.limits.exceeded()
    assert chat.limits.try_add_prompt("a") is not None


def test_the_window_slides() -> None:
    clock = Clock()
    chat = Conversation("u", rate_limit={"turns_per_minute": 2}, clock=clock)
    chat.add_prompt("at 0 s")
    clock.pass_by(seconds=40)
    chat.add_prompt("at 40 s")
    clock.pass_by(seconds=19.999)
    assert chat.limits.exceeded()
    clock.pass_by(seconds=0.001)
    assert not chat.limits.exceeded()
    chat.add_prompt("at 60 s")
    assert chat.limits.exceeded()
    clock.pass_by(seconds=40)
    assert not chat.limits.exceeded()


@pytest.mark.parametrize(
    ("key", "window"),
    [
        ("turns_per_minute", timedelta(minutes=1)),
        ("turns_per_hour", timedelta(hours=1)),
        ("turns_per_day", timedelta(days=1)),
    ],
)
def test_length_of_each_window(key: str, window: timedelta) -> None:
    clock = Clock()
    chat = Conversation("u", rate_limit={key: 1}, clock=clock)
    chat.add_prompt("a")
    clock.now = NOON + window - timedelta(microseconds=1)
    assert chat.limits.exceeded()
    clock.now = NOON + window
    assert not chat.limits.exceeded()


def test_any_of_several_limits_is_enough() -> None:
    clock = Clock()
    chat = Conversation("u", rate_limit={"turns_per_minute": 2, "turns_per_hour": 3}, clock=clock)
    chat.add_prompt("a")
    chat.add_prompt("b")
    assert chat.limits.exceeded()
    clock.pass_by(minutes=2)
    assert not chat.limits.exceeded()
    chat.add_prompt("c")
    assert chat.limits.exceeded()
    clock.pass_by(minutes=2)
    assert chat.limits.exceeded()
    clock.pass_by(minutes=57)
    assert not chat.limits.exceeded()


def test_reset_forgets_the_prompts_and_keeps_the_limits() -> None:
    chat = Conversation("u", rate_limit={"turns_per_minute": 1}, clock=Clock())
    chat.add_prompt("a")
    chat.limits.reset()
    assert chat.limits.to_dict() == {"turns_per_minute": 1}
    assert not chat.limits.exceeded()
    chat.limits.set({"turns_per_hour": 1})
    assert not chat.limits.exceeded()
    chat.add_prompt("b")
    assert chat.limits.exceeded()


def test_a_limit_that_is_set_later_counts_what_came_before() -> None:
    clock = Clock()
    chat = Conversation("u", clock=clock)
    chat.limits.reset()
    for _ in range(3):
        chat.add_prompt("a")
    chat.limits.set({"turns_per_minute": 3})
    assert chat.limits.exceeded()
    chat.limits.set({"turns_per_minute": 1})
    chat.limits.set({"turns_per_minute": 4})
    assert not chat.limits.exceeded()
    chat.add_prompt("b")
    assert chat.limits.exceeded()
    chat.limits.set(None)
    assert not chat.limits.exceeded()
    assert chat.limits.to_dict() is None


def test_prompts_of_old_turns_count_by_their_own_time() -> None:
    chat = Conversation("u", rate_limit={"turns_per_hour": 2}, clock=Clock())
    chat.add_prompt("a", timestamp=NOON - timedelta(hours=2))
    chat.add_prompt("b", timestamp=NOON - timedelta(minutes=50))
    assert not chat.limits.exceeded()
    chat.add_prompt("c")
    assert chat.limits.exceeded()


def test_turns_without_a_time_do_not_count() -> None:
    limits = {"turns_per_day": 1}
    chat = Conversation.from_turns([("a", "b"), ("c", "d")], rate_limit=limits, clock=Clock())
    assert not chat.limits.exceeded()
    chat.limits.set({"turns_per_day": 1})
    assert not chat.limits.exceeded()
    chat.add_prompt("e")
    assert chat.limits.exceeded()


def test_old_prompts_that_are_added_late_neither_count_nor_hide_others() -> None:
    chat = Conversation("u", rate_limit={"turns_per_minute": 2}, clock=Clock())
    chat.add_prompt("a")
    for _ in range(3):
        chat.add_prompt("old", timestamp=NOON - timedelta(minutes=5))
        assert not chat.limits.exceeded()
    chat.add_prompt("b", timestamp=NOON - timedelta(seconds=30))
    assert chat.limits.exceeded()
    chat.add_prompt("old", timestamp=NOON - timedelta(minutes=5))
    assert chat.limits.exceeded()


def test_a_clock_without_a_zone_is_refused() -> None:
    with pytest.raises(ConversationError, match="has no time zone"):
        Conversation("u", rate_limit={"turns_per_minute": 1}, clock=lambda: NOON.replace(tzinfo=None))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"turns_per_week": 1}, "unknown window 'turns_per_week'; use turns_per_minute, turns_per_hour"),
        ({}, "rate_limit is empty"),
        (5, "rate_limit is int"),
        ({"turns_per_minute": 0}, "turns_per_minute is 0; use a whole number from 1"),
        ({"turns_per_minute": -2}, "turns_per_minute is -2"),
        ({"turns_per_minute": 1.0}, "turns_per_minute is 1.0"),
        ({"turns_per_minute": True}, "turns_per_minute is True"),
        ({"turns_per_minute": None}, "turns_per_minute is None"),
        ({"turns_per_day": 10**30}, "turns_per_day is 1000"),
    ],
)
def test_limits_that_are_refused_leave_the_old_ones(limits: object, message: str) -> None:
    chat = Conversation("u", rate_limit={"turns_per_minute": 7})
    with pytest.raises(ConversationError, match=message):
        chat.limits.set(limits)  # type: ignore[arg-type]
    assert chat.limits.to_dict() == {"turns_per_minute": 7}
    with pytest.raises(ConversationError, match=message):
        Conversation("u", rate_limit=limits)  # type: ignore[arg-type]


def test_try_add_prompt_adds_or_refuses() -> None:
    clock = Clock()
    chat = Conversation("u", rate_limit={"turns_per_minute": 1}, clock=clock)
    turn = chat.limits.try_add_prompt("a", {"k": 1})
    assert turn is not None
    assert (turn.number, turn.timestamp, turn.metadata) == (1, NOON, {"k": 1})
    assert chat.limits.try_add_prompt("b") is None
    assert chat.get_turn_count() == 1
    assert chat.limits.try_add_prompt("b", timestamp=NOON + timedelta(minutes=1)) is not None


def test_the_limit_lives_on_after_json() -> None:
    clock = Clock()
    chat = Conversation("u", rate_limit={"turns_per_minute": 3, "turns_per_day": 4}, clock=clock)
    chat.add_prompt("before the reset")
    chat.limits.reset()
    for seconds in (0, 10, 20):
        chat.add_prompt("a", timestamp=NOON + timedelta(seconds=seconds))
    clock.pass_by(seconds=30)
    again = Conversation.from_dict(json.loads(json.dumps(chat.to_dict())), clock=clock)
    for both in (chat, again):
        assert both.limits.exceeded()
    clock.pass_by(seconds=30)
    for both in (chat, again):
        assert not both.limits.exceeded()
        both.add_prompt("b")
        assert both.limits.exceeded()
    clock.pass_by(hours=1)
    assert chat.limits.exceeded()
    assert again.limits.exceeded()
    again.limits.reset()
    assert not again.limits.exceeded()


def test_a_clock_that_is_set_back_lifts_no_limit() -> None:
    clock = Clock()
    chat = Conversation("u", rate_limit={"turns_per_minute": 2}, clock=clock)
    chat.add_prompt("a")
    clock.pass_by(hours=-1)
    assert sum(chat.limits.try_add_prompt("b") is not None for _ in range(1_000)) == 1
    clock.pass_by(seconds=59)
    assert chat.limits.exceeded()
    clock.pass_by(seconds=1)
    assert not chat.limits.exceeded()


def test_a_clock_that_was_ahead_refuses_for_a_window_at_most() -> None:
    clock = Clock()
    clock.pass_by(days=30)
    chat = Conversation("u", rate_limit={"turns_per_minute": 1}, clock=lambda: clock.now)
    chat.add_prompt("a")
    clock.pass_by(days=-30)
    again = Conversation.from_dict(chat.to_dict(), clock=clock)
    copied = copy.deepcopy(chat)
    for one in (chat, again, copied):
        assert one.limits.exceeded()
    clock.pass_by(minutes=1)
    for one in (chat, again, copied):
        assert one.limits.try_add_prompt("b") is not None


def test_the_clock_of_the_system_may_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = Conversation("u", rate_limit={"turns_per_day": 1})
    chat.add_prompt("a")
    at = [NOON]

    class Set(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return at[0]

    monkeypatch.setattr("turnwise.clock.datetime", Set)
    for years in (-30, 30):
        at[0] = NOON + timedelta(days=365 * years)
        assert chat.limits.try_add_prompt("b") is None


def test_time_stamps_at_the_ends_of_time_count_like_others() -> None:
    chat = Conversation("u", rate_limit={"turns_per_day": 2})
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    for stamp in (first, last, last):
        chat.add_prompt("a", timestamp=stamp)
    assert chat.limits.exceeded()
    assert Conversation.from_dict(chat.to_dict()).limits.exceeded()


def test_memory_is_bounded_by_the_largest_limit_and_by_time() -> None:
    now = NOON
    chat = Conversation(rate_limit={"turns_per_minute": 5, "turns_per_hour": 20}, clock=lambda: now)
    for _ in range(1_000):
        chat.add_prompt("a")
    assert len(chat.limits.arrivals) == 20
    now += timedelta(hours=1)
    chat.add_prompt("b")
    assert chat.limits.arrivals == [now]


@settings(deadline=None)
@given(
    minute=st.integers(1, 4),
    hour=st.integers(1, 8),
    steps=st.lists(st.tuples(st.integers(0, 1500), st.just(0) | st.integers(0, 5000)), max_size=40),
)
def test_agrees_with_counting_the_prompts_in_each_window(
    minute: int, hour: int, steps: list[tuple[int, int]]
) -> None:
    now = NOON
    chat = Conversation(rate_limit={"turns_per_minute": minute, "turns_per_hour": hour}, clock=lambda: now)
    arrivals: list[datetime] = []
    for gap, late in steps:
        now += timedelta(seconds=gap)
        in_minute = sum(now - arrival < timedelta(minutes=1) for arrival in arrivals)
        in_hour = sum(now - arrival < timedelta(hours=1) for arrival in arrivals)
        assert chat.limits.exceeded() == (in_minute >= minute or in_hour >= hour)
        arrivals.append(now - timedelta(seconds=late))
        chat.add_prompt("a", timestamp=arrivals[-1])
        assert len(chat.limits.arrivals) <= max(minute, hour)
