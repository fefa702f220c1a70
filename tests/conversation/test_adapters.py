"""ShareGPT items there and back, and a conversation in whichever form it comes."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.conversation import Conversation, from_any, from_messages, from_sharegpt, to_sharegpt
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
                *(entry("user", "a"), entry("chatgpt", "b"), entry("Human", "c"), entry("bard", "d")),
                *(entry("human", "e"), entry("bing", "f"), entry("human", "g"), entry("assistant", "h")),
                *(entry("human", "i"), entry("bot", "j"), entry("human", "k"), entry("model", "l")),
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
                *(entry("human", "a"), entry("function_call", "f()"), entry("observation", "1")),
                *(entry("tool", "2"), entry("function", "3"), entry("gpt", "b")),
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


MESSAGES = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
ENTRIES = [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]


@pytest.mark.parametrize(
    "data",
    [
        MESSAGES,
        {"messages": MESSAGES},
        {"conversations": ENTRIES},
        {"conversations": ["a", "b"]},
        ENTRIES,
        Conversation.from_turns([("a", "b")]).to_dict(),
        {"turns": [{"turn": 1, "prompt": "a", "response": "b"}]},
        {"id": "x", "label": "attack", "source": "s", "turns": MESSAGES},
    ],
)
def test_every_known_form_is_told_by_its_shape(data: object) -> None:
    chat = from_any(data)
    assert [(turn.prompt, turn.response) for turn in chat] == [("a", "b")]


def test_names_and_metadata_are_kept_but_not_the_label() -> None:
    line = {"id": "x", "label": "attack", "source": "s", "turns": MESSAGES, "metadata": {"goal": "g"}}
    chat = from_any(line)
    assert (chat.conversation_id, chat.metadata) == ("x", {"source": "s", "goal": "g"})
    request = from_any({"id": "y", "model": "m", "label": "benign", "messages": MESSAGES})
    assert (request.conversation_id, request.metadata) == ("y", {"id": "y", "model": "m"})
    item = from_any({"id": "z", "label": "attack", "conversations": ["a"]})
    assert (item.conversation_id, item.metadata["sharegpt"]["item"]) == ("z", {"id": "z"})
    saved = Conversation.human_ai("u", "m", rate_limit={"turns_per_day": 2}).to_dict()
    assert from_any(saved).to_dict() == saved


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "not a conversation: NoneType; use a list of OpenAI messages"),
        ("hello", "not a conversation: str"),
        (5, "not a conversation: int"),
        ([], "not a conversation: an empty list"),
        ({}, "an object with the keys none; use"),
        ({"text": "a", 5: 6}, "an object with the keys text, 5; use a list of OpenAI messages"),
        (["a", "b"], "a list that begins with 'a'"),
        ([{"text": "a"}], "a list that begins with an object with the keys text"),
        ([MESSAGES[0], {"role": "x", "content": "b"}], "message 2: unknown role 'x'"),
        ({"messages": None}, "expected a list of message objects, not NoneType"),
        ({"conversations": [ENTRIES[0], {"from": "x"}]}, "message 2: unknown speaker 'x'"),
        ({"id": "x", "turns": []}, "the conversation is empty"),
        ({"id": "x", "turns": "a"}, "expected a list of message objects, not str"),
        ({"id": "x", "turns": MESSAGES, "metadata": [1]}, "metadata is list"),
        ({"conversation_id": "x", "turns": MESSAGES}, "a turn has no key 'role'"),
    ],
)
def test_anything_else_is_refused_and_what_is_accepted_is_told(data: object, message: str) -> None:
    with pytest.raises(ConversationError, match=message):
        from_any(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["role", "content", "from", "value", "messages", "conversations", "turns", "turn"])
            | st.sampled_from(["prompt", "metadata", "type", "text", "id", "conversation_id", "timestamp"]),
            inner | st.sampled_from(["user", "assistant", "human", "gpt", "text"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(json_values)
def test_no_json_value_does_worse_than_an_error_of_ours(data: Any) -> None:
    try:
        chat = from_any(data)
    except ConversationError:
        return
    assert Conversation.from_dict(chat.to_dict()).to_dict() == chat.to_dict()
