from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.conversation import Conversation, Turn
from turnwise.errors import ConversationError

NOON = datetime(2025, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)

texts = st.text(st.characters(), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, values, max_size=3)
zones = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-8))])
stamps = st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1), timezones=zones)  # noqa: DTZ001
kinds = st.sampled_from(["human", "bot", "agent", "ai_model", "unknown"])
limits = st.none() | st.dictionaries(
    st.sampled_from(["turns_per_minute", "turns_per_hour", "turns_per_day"]), st.integers(1, 50), min_size=1
)


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    chat = Conversation(
        draw(st.none() | texts.filter(bool)),
        initiator_type=draw(kinds),
        responder_type=draw(kinds),
        model_info=draw(objects),
        metadata=draw(objects),
        rate_limit=draw(limits),
        clock=lambda: draw(stamps),
    )
    for _ in range(draw(st.integers(0, 5))):
        chat.add_turn(draw(texts), draw(st.none() | texts), draw(objects))
        if draw(st.booleans()) and chat.get_incomplete_turns():
            chat.add_response(draw(texts), draw(objects), timestamp=draw(stamps))
        if draw(st.booleans()):
            chat.limits.reset()
    return chat


@pytest.mark.shows("PLAN-3")
@settings(deadline=None)
@given(conversations())
def test_a_conversation_survives_json(chat: Conversation) -> None:
    data = chat.to_dict()
    again = Conversation.from_dict(json.loads(json.dumps(data, allow_nan=False)))
    assert again.to_dict() == data
    assert again.turns == chat.turns
    assert again.get_complete_turn_count() == chat.get_complete_turn_count()
    assert again.get_duration() == chat.get_duration()
    assert again.limits.to_dict() == chat.limits.to_dict()


def test_the_shape() -> None:
    chat = Conversation.human_ai("u", "m", conversation_id="c", clock=lambda: NOON, metadata={"tags": ("a",)})
    chat.add_prompt("hello")
    assert chat.to_dict() == {
        "conversation_id": "c",
        "participants": {
            "initiator": "u",
            "responder": "m",
            "initiator_type": "human",
            "responder_type": "ai_model",
        },
        "model_info": {"model_id": "m"},
        "metadata": {"tags": ["a"]},
        "rate_limit": None,
        "rate_limit_counts_after": 0,
        "created_at": "2025-01-31T12:00:00.123456+00:00",
        "turns": [
            {
                "turn": 1,
                "prompt": "hello",
                "response": None,
                "timestamp": "2025-01-31T12:00:00.123456+00:00",
                "response_timestamp": None,
                "metadata": {},
            }
        ],
    }


def test_what_to_dict_gives_is_a_copy() -> None:
    chat = Conversation("u", metadata={"tags": []})
    chat.add_prompt("a", {"tags": []})
    data = chat.to_dict()
    data["metadata"]["tags"].append("x")
    data["turns"][0]["metadata"]["tags"].append("x")
    assert chat.metadata == {"tags": []}
    assert chat.turn(1).metadata == {"tags": []}


def test_metadata_that_was_spoilt_later_is_refused() -> None:
    chat = Conversation("u")
    chat.add_prompt("a").metadata["when"] = NOON
    with pytest.raises(ConversationError, match="turn 1: metadata holds a datetime"):
        chat.to_dict()


def test_turns_alone_are_enough() -> None:
    chat = Conversation.from_dict(
        {"turns": [{"turn": 1, "prompt": "a", "timestamp": "2025-01-31T13:00:00+01:00"}]}
    )
    assert chat.turn(1) == Turn(1, "a", timestamp=datetime(2025, 1, 31, 12, tzinfo=UTC))
    assert chat.initiator == "unknown"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"turns": None}, "turns is NoneType, not a list"),
        ({"turns": ["a"]}, "a turn must be an object with keys, not str"),
        ({"turns": [{"turn": 1}]}, "a turn needs the key 'prompt'; here are turn"),
        ({"turns": [{"prompt": "a"}]}, "a turn needs the key 'turn'"),
        ({"turns": [{"turn": 1, "prompt": "a", "answer": "b"}]}, "a turn has no key 'answer'; known: turn"),
        ({"turns": [{"turn": 1, "prompt": 5}]}, "turn 1: prompt is int"),
        ({"turns": [{"turn": "1", "prompt": "a"}]}, "numbered from 1, not '1'"),
        ({"turns": [{"turn": True, "prompt": "a"}]}, "numbered from 1, not True"),
        ({"turns": [{"turn": 2, "prompt": "a"}]}, "expected turn 1, not turn 2"),
        ({"turns": [{"turn": 1, "prompt": "a", "metadata": []}]}, "turn 1: metadata is list"),
        ({"turns": [{"turn": 1, "prompt": "a", "timestamp": "noon"}]}, "turn 1: timestamp is 'noon'; use ISO"),
        ({"turns": [{"turn": 1, "prompt": "a", "timestamp": 5}]}, "turn 1: timestamp is 5; use ISO"),
        ({"turns": [{"turn": 1, "prompt": "a", "timestamp": ""}]}, "turn 1: timestamp is ''; use ISO"),
        ({"turns": [{"turn": 1, "prompt": "a", "timestamp": "2025-01-31T12:00:00"}]}, "has no time zone"),
        (
            {"turns": [{"turn": 1, "prompt": "a", "timestamp": "0001-01-01T00:00:00+05:00"}]},
            "out of range in UTC",
        ),
        (
            {"turns": [{"turn": 1, "prompt": "a", "response_timestamp": "2025-01-31T12:00:00+00:00"}]},
            "turn 1 has a response_timestamp but no response",
        ),
        ({"participants": {"initiator_type": "x"}}, "initiator_type 'x'"),
        ({"rate_limit": {"turns_per_week": 1}}, "unknown window 'turns_per_week'"),
        ({"rate_limit_counts_after": 2}, "rate_limit_counts_after is 2"),
        ({"rate_limit_counts_after": "1"}, "rate_limit_counts_after is '1'"),
        ({"color": "red"}, "a conversation has no key 'color'; known: conversation_id"),
    ],
)
def test_what_is_no_conversation(change: dict[str, Any], message: str) -> None:
    data = {"conversation_id": "c", "turns": [{"turn": 1, "prompt": "a"}]}
    with pytest.raises(ConversationError, match=message):
        Conversation.from_dict(data | change)


def test_what_is_no_object() -> None:
    with pytest.raises(ConversationError, match="a conversation must be an object with keys, not list"):
        Conversation.from_dict([])  # type: ignore[arg-type]
    with pytest.raises(ConversationError, match="a conversation needs the key 'turns'; here are none"):
        Conversation.from_dict({})


def test_metadata_without_an_end_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["self"] = endless
    with pytest.raises(ConversationError, match="nested too deeply: at most 100 levels"):
        Conversation(metadata=endless)
    deep: Any = "bottom"
    for _ in range(100):
        deep = [deep]
    with pytest.raises(ConversationError, match="nested too deeply: at most 100 levels"):
        Conversation(metadata={"deep": deep})
    assert Conversation(metadata={"deep": deep[0]}).metadata == {"deep": deep[0]}
