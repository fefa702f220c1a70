"""An export is read back as what it was."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.conversation import Conversation, Label, Sequence, from_messages
from turnwise.datasets import BadRecord, open_dataset, to_line

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
MESSAGE = st.one_of(
    st.builds(lambda text: {"role": "user", "content": text}, TEXT),
    st.builds(lambda text: {"role": "assistant", "content": text}, TEXT),
    st.builds(lambda text: {"role": "system", "content": text}, TEXT),
    st.builds(lambda text: {"role": "tool", "content": text, "tool_call_id": "t"}, TEXT),
    st.just({"role": "assistant", "content": None, "tool_calls": [{"id": "t"}]}),
    st.builds(lambda text: {"role": "user", "content": [{"type": "text", "text": text}]}, TEXT),
)


def same(one, other):
    def told(sequence):
        conversation = sequence.conversation
        return (
            sequence.sequence_id,
            sequence.label,
            sequence.source,
            dict(sequence.metadata),
            conversation.conversation_id,
            [(turn.prompt, turn.response, turn.metadata) for turn in conversation],
            conversation.to_messages(),
        )

    return told(one) == told(other)


def back(path, *sequences):
    path.write_text("".join(json.dumps(to_line(sequence)) + "\n" for sequence in sequences), encoding="utf-8")
    items = list(open_dataset(path, format="turnwise"))
    assert not [item for item in items if isinstance(item, BadRecord)]
    return items


@given(
    name=TEXT.filter(bool),
    label=st.sampled_from(Label),
    source=TEXT,
    metadata=st.dictionaries(TEXT, JSON, max_size=4).filter(lambda found: "goal" not in found),
    messages=st.lists(MESSAGE, max_size=8).map(lambda rest: [*rest, {"role": "user", "content": "last"}]),
)
def test_any_sequence_comes_back(tmp_path_factory, name, label, source, metadata, messages):
    conversation = from_messages(messages, conversation_id=name)
    sequence = Sequence(name, label, source, conversation, metadata)
    path = tmp_path_factory.getbasetemp() / "round_trip.jsonl"
    assert same(back(path, sequence)[0], sequence)


@pytest.mark.parametrize("pairs", [[("a", None), ("b", None)], [("", "Welcome."), ("a", "b")], [("a", "")]])
def test_turns_that_were_never_messages_come_back(tmp_path, pairs):
    conversation = Conversation.from_turns(pairs, conversation_id="x")
    again = back(tmp_path / "x.jsonl", Sequence("x", Label.ATTACK, "s", conversation))[0]
    assert [(turn.prompt, turn.response) for turn in again.conversation] == pairs


def test_what_other_loaders_read_comes_back(tmp_path, array, read):
    calls = [
        {"from": "system", "value": "Be kind."},
        {"from": "human", "value": "Hi"},
        {"from": "function_call", "value": "look()"},
        {"from": "observation", "value": "sun"},
        {"from": "gpt", "value": "Sunny."},
    ]
    good, _ = read(array([{"id": "a", "conversations": calls, "goal": "g"}]), format="sharegpt")
    assert same(back(tmp_path / "again.jsonl", *good)[0], good[0])
