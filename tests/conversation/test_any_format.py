from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.conversation import Conversation, from_any
from turnwise.errors import ConversationError

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
