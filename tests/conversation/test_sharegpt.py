from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.conversation import Conversation, from_messages, from_sharegpt, to_sharegpt
from turnwise.errors import ConversationError


def entry(speaker: str, value: str) -> dict[str, str]:
    return {"from": speaker, "value": value}


def pairs(chat: Conversation) -> list[tuple[str, str | None]]:
    return [(turn.prompt, turn.response) for turn in chat]


CASES: dict[str, tuple[dict[str, Any], list[tuple[str, str | None]]]] = {
    "plain": ({"conversations": [entry("human", "a"), entry("gpt", "b")]}, [("a", "b")]),
    "other keys": (
        {"id": "i-1", "conversations": [entry("human", "a")], "tags": ["x"], "system": "s"},
        [("a", None)],
    ),
    "id is a number": ({"id": 7, "conversations": [entry("human", "a")]}, [("a", None)]),
    "aliases": (
        {
            "conversations": [
                entry("user", "a"),
                entry("chatgpt", "b"),
                entry("Human", "c"),
                entry("bard", "d"),
                entry("human", "e"),
                entry("bing", "f"),
                entry("human", "g"),
                entry("assistant", "h"),
                entry("human", "i"),
                entry("bot", "j"),
                entry("human", "k"),
                entry("model", "l"),
            ]
        },
        [("a", "b"), ("c", "d"), ("e", "f"), ("g", "h"), ("i", "j"), ("k", "l")],
    ),
    "system first": (
        {"conversations": [entry("system", "s"), entry("human", "a"), entry("gpt", "b")]},
        [("a", "b")],
    ),
    "tools": (
        {
            "conversations": [
                entry("human", "a"),
                entry("function_call", "f()"),
                entry("observation", "1"),
                entry("tool", "2"),
                entry("function", "3"),
                entry("gpt", "b"),
            ]
        },
        [("a", "b")],
    ),
    "assistant first": ({"conversations": [entry("gpt", "hi"), entry("human", "a")]}, [("", "hi"), ("a", None)]),
    "two in a row": (
        {"conversations": [entry("human", "a"), entry("human", "b"), entry("gpt", "c"), entry("gpt", "d")]},
        [("a", None), ("b", "c\nd")],
    ),
    "extra keys in entries": (
        {"conversations": [{**entry("human", "a"), "weight": 0}, {**entry("gpt", "b"), "markdown": None}]},
        [("a", "b")],
    ),
    "plain texts": ({"conversations": ["a", "b", "c"], "source": "s"}, [("a", "b"), ("c", None)]),
}


@pytest.mark.parametrize("name", CASES)
def test_items_become_turns_and_come_back(name: str) -> None:
    item, turns = CASES[name]
    before = copy.deepcopy(item)
    chat = from_sharegpt(item)
    assert pairs(chat) == turns
    assert to_sharegpt(chat) == before
    again = Conversation.from_dict(json.loads(json.dumps(chat.to_dict())))
    assert to_sharegpt(again) == before
    assert item == before


speakers = st.sampled_from(
    ["human", "user", "gpt", "GPT", "assistant", "system", "tool", "observation", "function_call"]
)
entries = st.builds(
    lambda speaker, value, extra: {"from": speaker, "value": value, **extra},
    speakers,
    st.text(max_size=5),
    st.just({}) | st.dictionaries(st.sampled_from(["weight", "loss"]), st.integers(), max_size=1),
)
items = st.builds(
    lambda conversations, rest: {**rest, "conversations": conversations},
    st.lists(entries, min_size=1, max_size=8) | st.lists(st.text(max_size=5), min_size=1, max_size=8),
    st.dictionaries(st.sampled_from(["id", "tags", "lang"]), st.none() | st.text(max_size=3), max_size=3),
)


@settings(deadline=None)
@given(items)
def test_no_valid_item_loses_anything(item: dict[str, Any]) -> None:
    assert to_sharegpt(from_sharegpt(item)) == item


def test_the_id_of_the_item_names_the_conversation() -> None:
    item = {"id": "i-1", "conversations": ["a"]}
    assert from_sharegpt(item).conversation_id == "i-1"
    other = from_sharegpt(item, conversation_id="c-1", metadata={"k": 1}, initiator_type="human")
    assert (other.conversation_id, other.metadata["k"], other.initiator_type.value) == ("c-1", 1, "human")
    assert to_sharegpt(other) == item


def test_a_conversation_of_another_origin_has_its_id_in_the_item() -> None:
    chat = Conversation.from_turns([("a", "b"), ("c", None)], conversation_id="c-1")
    item = {"id": "c-1", "conversations": [entry("human", "a"), entry("gpt", "b"), entry("human", "c")]}
    assert to_sharegpt(chat) == item
    assert pairs(from_sharegpt(item)) == pairs(chat)


def test_turns_that_are_added_later() -> None:
    chat = from_sharegpt({"conversations": ["a"]})
    chat.add_response("b")
    assert to_sharegpt(chat) == {"conversations": ["a", "b"]}
    chat.add_prompt("c")
    chat.add_prompt("d")
    # Two prompts in a row can't be told by texts that alternate.
    assert to_sharegpt(chat) == {
        "conversations": [entry("human", "a"), entry("gpt", "b"), entry("human", "c"), entry("human", "d")]
    }


def test_openai_messages_become_entries() -> None:
    chat = from_messages(
        [
            {"role": "developer", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "c1"}]},
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
            {"role": "assistant", "content": "b"},
        ],
        conversation_id="c",
    )
    assert to_sharegpt(chat) == {
        "id": "c",
        "conversations": [entry("system", "s"), entry("human", "a"), entry("tool", "1"), entry("gpt", "b")],
    }


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ([entry("human", "a")], "a ShareGPT item must be an object with a list under the key 'conversations'"),
        ({"messages": []}, "a ShareGPT item must be an object"),
        ({"conversations": []}, "the conversation is empty: it needs at least one message"),
        ({"conversations": "a"}, "expected a list of message objects, not str"),
        (
            {"conversations": [entry("human", "a"), 5]},
            "message 2: a message must be an object with from and value, not int",
        ),
        (
            {"conversations": [entry("human", "a"), entry("narrator", "b")]},
            "message 2: unknown speaker 'narrator'",
        ),
        ({"conversations": [{"value": "b"}]}, "message 1: unknown speaker None; known: human, user, gpt"),
        ({"conversations": [{"from": "human"}]}, "message 1: value is NoneType, not text"),
        ({"conversations": ["a", entry("gpt", "b")]}, "message 2: dict among plain texts; use one form"),
        ({"conversations": ["a"], "x": float("nan")}, "the item holds nan"),
    ],
)
def test_what_is_no_item(item: object, message: str) -> None:
    with pytest.raises(ConversationError, match=message):
        from_sharegpt(item)


def test_a_taken_metadata_key_is_refused() -> None:
    with pytest.raises(ConversationError, match="metadata key 'sharegpt' is reserved"):
        from_sharegpt({"conversations": ["a"]}, metadata={"sharegpt": 1})
