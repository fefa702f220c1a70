from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.conversation import Conversation, from_messages, from_sharegpt
from turnwise.errors import ConversationError

Message = dict[str, Any]


def system(text: str) -> Message:
    return {"role": "system", "content": text}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


CALL: Message = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
}
TOOL: Message = {"role": "tool", "tool_call_id": "c1", "content": "12 degrees"}
PICTURE: Message = {
    "role": "user",
    "content": [
        {"type": "text", "text": "What is"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "text", "text": "in this?"},
    ],
}


def pairs(chat: Conversation) -> list[tuple[str, str | None]]:
    return [(turn.prompt, turn.response) for turn in chat]


CASES: dict[str, tuple[list[Message], list[tuple[str, str | None]]]] = {
    "plain": ([user("a"), assistant("b"), user("c"), assistant("d")], [("a", "b"), ("c", "d")]),
    "system first": ([system("s"), user("a"), assistant("b")], [("a", "b")]),
    "developer first": ([{"role": "developer", "content": "s"}, user("a")], [("a", None)]),
    "system alone": ([system("s")], []),
    "system in between": ([user("a"), assistant("b"), system("s"), user("c")], [("a", "b"), ("c", None)]),
    "two user messages in a row": ([user("a"), user("b"), assistant("c")], [("a", None), ("b", "c")]),
    "missing last reply": ([user("a"), assistant("b"), user("c")], [("a", "b"), ("c", None)]),
    "assistant first": ([assistant("hi"), user("a"), assistant("b")], [("", "hi"), ("a", "b")]),
    "assistant after system": ([system("s"), assistant("hi")], [("", "hi")]),
    "two assistant messages": ([user("a"), assistant("b"), assistant("c")], [("a", "b\nc")]),
    "tool loop": ([user("a"), CALL, TOOL, assistant("12")], [("a", "12")]),
    "tool loop with words": (
        [user("a"), {**CALL, "content": "Let me look."}, TOOL, assistant("12")],
        [("a", "Let me look.\n12")],
    ),
    "tool call without reply": ([user("a"), CALL], [("a", None)]),
    "legacy function": (
        [
            user("a"),
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "1"},
            assistant("b"),
        ],
        [("a", "b")],
    ),
    "assistant without content": ([user("a"), {"role": "assistant", "tool_calls": []}], [("a", None)]),
    "content in parts": ([PICTURE, assistant("A cat.")], [("What is\nin this?", "A cat.")]),
    "picture alone": ([{"role": "user", "content": [PICTURE["content"][1]]}], [("", None)]),
    "no parts": ([{"role": "user", "content": []}], [("", None)]),
    "user with null": ([{"role": "user", "content": None}, assistant("b")], [("", "b")]),
    "empty texts": ([user(""), assistant("")], [("", "")]),
    "extra keys": ([{**user("a"), "name": "ann"}, {**assistant("b"), "logprobs": None}], [("a", "b")]),
    "refusal": ([user("a"), {"role": "assistant", "content": None, "refusal": "No."}], [("a", "No.")]),
    "refusal part": (
        [user("a"), {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}],
        [("a", "No.")],
    ),
    "responses API parts": (
        [
            {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
            {"role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
        ],
        [("a", "b")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_messages_become_turns_and_come_back(name: str) -> None:
    messages, turns = CASES[name]
    before = copy.deepcopy(messages)
    chat = from_messages(messages)
    assert pairs(chat) == turns
    assert chat.to_messages() == before
    assert messages == before
    assert all(turn.timestamp is None and turn.response_timestamp is None for turn in chat)
    assert Conversation.from_dict(json.loads(json.dumps(chat.to_dict()))).to_messages() == messages


parts = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, st.text(max_size=5)),
    st.builds(lambda text: {"type": "refusal", "refusal": text}, st.text(max_size=5)),
    st.just({"type": "image_url", "image_url": {"url": "data:,"}}),
)
contents = st.none() | st.text(max_size=5) | st.lists(parts, max_size=3)
extras = st.dictionaries(
    st.sampled_from(["name", "tool_calls", "tool_call_id", "refusal", "extra"]),
    st.none() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    max_size=2,
)
messages_lists = st.lists(
    st.builds(
        lambda role, content, extra: {"role": role, "content": content, **extra},
        st.sampled_from(["system", "developer", "user", "assistant", "assistant", "user", "tool", "function"]),
        contents,
        extras | st.just({}),
    ),
    min_size=1,
    max_size=10,
)


@settings(deadline=None)
@given(messages_lists)
def test_no_valid_list_loses_anything(messages: list[Message]) -> None:
    chat = from_messages(messages)
    assert chat.to_messages() == messages
    again = Conversation.from_dict(json.loads(json.dumps(chat.to_dict())))
    assert again.to_messages() == messages
    assert sum(message["role"] == "user" for message in messages) <= chat.get_turn_count()


@settings(deadline=None)
@given(messages_lists, st.text(max_size=5))
def test_a_later_response_is_added_and_nothing_else_changes(messages: list[Message], reply: str) -> None:
    chat = from_messages([*messages, user("one more question")])
    number = chat.get_turn_count()
    chat.add_response(reply, turn_number=number)
    assert chat.to_messages() == [*messages, user("one more question"), assistant(reply)]


def test_a_response_to_a_kept_slice_follows_it() -> None:
    chat = from_messages([user("a"), CALL, TOOL, user("b"), assistant("c")])
    chat.add_response("12")
    assert chat.to_messages() == [user("a"), CALL, TOOL, assistant("12"), user("b"), assistant("c")]
    chat.add_exchange("d", "e")
    assert chat.to_messages()[-2:] == [user("d"), assistant("e")]


def test_plain_turns_need_no_metadata() -> None:
    chat = from_messages([user("a"), assistant("b"), user("c")])
    assert [turn.metadata for turn in chat] == [{}, {}]
    assert chat.metadata == {}


def test_arguments_reach_the_conversation() -> None:
    chat = from_messages(
        [system("s"), user("a")],
        conversation_id="c",
        initiator_type="human",
        metadata={"topic": "weather"},
    )
    assert (chat.conversation_id, chat.initiator_type.value) == ("c", "human")
    assert chat.metadata == {"topic": "weather", "messages": {"before": [system("s")]}}


def test_what_comes_out_is_a_copy() -> None:
    chat = from_messages([system("s"), PICTURE])
    chat.to_messages()[1]["content"].clear()
    chat.to_messages()[0]["content"] = "changed"
    assert chat.to_messages() == [system("s"), PICTURE]


@pytest.mark.parametrize(
    "metadata",
    [
        {"messages": "mine"},
        {"messages": []},
        {"messages": [user("another text")]},
        {"messages": [user("a"), assistant("another answer")]},
        {"messages": [{**user("a"), "name": "ann"}, user("a")]},
        {"messages": [system("s"), {**user("a"), "name": "ann"}]},
        {"messages": [{"role": "user", "content": 5}]},
    ],
)
def test_metadata_of_the_user_is_not_taken_for_messages(metadata: dict[str, Any]) -> None:
    chat = Conversation("u", metadata=metadata)
    chat.add_turn("a", "b", metadata)
    assert chat.to_messages() == [user("a"), assistant("b")]
    lead = Conversation("u", metadata={"messages": {"before": metadata["messages"]}})
    assert lead.to_messages() == []


def test_a_taken_metadata_key_is_refused() -> None:
    with pytest.raises(ConversationError, match="metadata key 'messages' is reserved"):
        from_messages([system("s"), user("a")], metadata={"messages": 1})
    assert from_messages([user("a")], metadata={"messages": 1}).metadata == {"messages": 1}


def test_sharegpt_entries_become_messages() -> None:
    chat = from_sharegpt(
        {
            "conversations": [
                {"from": "system", "value": "s"},
                {"from": "human", "value": "a"},
                {"from": "function_call", "value": "f()"},
                {"from": "observation", "value": "1"},
                {"from": "gpt", "value": "b"},
            ]
        }
    )
    call = {"id": "call_1", "type": "function", "function": {"name": "unknown", "arguments": "f()"}}
    called = {"role": "assistant", "content": None, "tool_calls": [call]}
    tool = {"role": "tool", "tool_call_id": "call_1", "content": "1"}
    assert chat.to_messages() == [system("s"), user("a"), called, tool, assistant("b")]


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "the conversation is empty: it needs at least one message"),
        ({"role": "user"}, "expected a list of message objects, not dict"),
        ("hello", "expected a list of message objects, not str"),
        (None, "not NoneType"),
        ([user("a"), "b"], "message 2: a message must be an object with role and content, not str"),
        (
            [user("a"), user("b"), {"role": "narrator", "content": "c"}],
            "message 3: unknown role 'narrator'; known",
        ),
        ([{"content": "a"}], "message 1: unknown role None"),
        ([{"role": ["user"], "content": "a"}], r"message 1: unknown role \['user'\]"),
        ([{"role": "user"}], "message 1: a user message needs content"),
        ([{"role": "user", "content": 5}], "message 1: content is int; use text, a list of parts, or null"),
        ([{"role": "user", "content": {"text": "a"}}], "message 1: content is dict"),
        ([user("a"), {"role": "user", "content": ["b"]}], "message 2: content part 1 is not an object"),
        ([{"role": "user", "content": [{"text": "b"}]}], "message 1: content part 1 is not an object with a type"),
        (
            [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": None}]}],
            "message 1: content part 2: text is NoneType, not text",
        ),
        ([{**user("a"), "score": float("inf")}], "message 1: the message holds inf"),
    ],
)
def test_what_is_no_list_of_messages(messages: object, message: str) -> None:
    with pytest.raises(ConversationError, match=message):
        from_messages(messages)
