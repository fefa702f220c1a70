"""Formats that anybody writes: read in every layout, and written and read back as what they were."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.conversation import Conversation, Label, Sequence, from_messages, from_sharegpt
from turnwise.datasets import BadRecord, open_dataset, to_line, unknown_label
from turnwise.errors import UsageError

CHAT = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
ENTRIES = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]


def texts(sequence):
    return [(turn.prompt, turn.response) for turn in sequence.conversation]


def test_turnwise_jsonl_keeps_id_label_source_and_metadata(jsonl, read, line):
    metadata = {"group": "g", "scores": [0.5, None], "nested": {"a": 1}}
    good, bad = read(jsonl(line("7", label="attack", metadata=metadata)))
    assert bad == []
    assert good[0].sequence_id == good[0].conversation.conversation_id == "7"
    assert (good[0].label, good[0].source, good[0].metadata) == (Label.ATTACK, "demo", metadata)
    assert texts(good[0]) == [("How do tides work?", "The moon pulls.")]


def test_turnwise_jsonl_needs_no_more_than_id_and_turns(jsonl, read):
    good, bad = read(jsonl({"id": "a", "turns": [{"role": "user", "content": "Hi"}]}, name="my_set.jsonl"))
    assert bad == []
    assert (good[0].label, good[0].source, good[0].metadata) == (Label.UNLABELLED, "my_set", {})


def test_a_label_from_the_user_fills_in_but_does_not_overrule(jsonl, read, line):
    path = jsonl(line("a", label="benign"), line("b", label=None))
    good, _ = read(path, label=Label.ATTACK)
    assert [sequence.label for sequence in good] == [Label.BENIGN, Label.ATTACK]


def test_a_goal_is_the_group_unless_there_is_one(jsonl, read, line):
    path = jsonl(line("a", metadata={"goal": "x"}), line("b", metadata={"goal": "x", "group": "y"}))
    good, _ = read(path)
    assert [sequence.metadata["group"] for sequence in good] == ["x", "y"]


def test_user_messages_in_a_row_are_turns_of_their_own(jsonl, read, line):
    turns = [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]
    good, _ = read(jsonl(line(turns=turns)))
    assert texts(good[0]) == [("one", None), ("two", None)]


def test_an_assistant_that_speaks_first_has_a_turn_without_prompt(jsonl, read, line):
    turns = [{"role": "assistant", "content": "Welcome."}, {"role": "user", "content": "Hi"}]
    good, _ = read(jsonl(line(turns=turns)))
    assert texts(good[0]) == [("", "Welcome."), ("Hi", None)]


def test_system_and_tool_messages_are_no_turns_and_are_kept(jsonl, read, line):
    turns = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "t1"}]},
        {"role": "tool", "content": "sunny", "tool_call_id": "t1"},
        {"role": "assistant", "content": "Sunny."},
    ]
    good, bad = read(jsonl(line(turns=turns)))
    assert bad == []
    assert texts(good[0]) == [("Weather?", "Sunny.")]
    assert good[0].conversation.to_messages() == turns


def test_prompts_are_conversations_of_one_turn(jsonl, read):
    def prompt(name, label, **more):
        return {"id": name, "text": f"text {name}", "label": label, "source": "demo", "metadata": {}, **more}

    labels = ["harmful", "jailbreak", "injection", "benign"]
    good, bad = read(jsonl(*(prompt(str(n), label) for n, label in enumerate(labels))))
    assert bad == []
    assert [str(sequence.label) for sequence in good] == ["attack", "attack", "attack", "benign"]
    assert [sequence.metadata["label"] for sequence in good] == labels
    assert texts(good[0]) == [("text 0", None)]
    assert (good[0].sequence_id, good[0].source) == ("0", "demo")


@pytest.mark.shows("DATA-07", "DATA-11")
@pytest.mark.parametrize("layout", ["lines", "array", "document", "bare", "lists", "parquet"])
def test_messages_come_in_many_layouts(jsonl, array, parquet, tmp_path, read, layout):
    item = {"messages": CHAT}
    select = "SELECT [{'role': 'user', 'content': 'Hi'}, {'role': 'assistant', 'content': 'Hello'}] AS messages"
    whole = tmp_path / "whole.json"
    whole.write_text(json.dumps(item if layout == "document" else CHAT, indent=2))
    path = {
        "lines": lambda: jsonl(item),
        "array": lambda: array([item]),
        "document": lambda: whole,
        "bare": lambda: whole,
        "lists": lambda: array([CHAT]),
        "parquet": lambda: parquet(select),
    }[layout]()
    good, bad = read(path)
    assert bad == []
    assert [texts(sequence) for sequence in good] == [[("Hi", "Hello")]]
    assert (good[0].label, good[0].sequence_id) == (Label.UNLABELLED, f"{good[0].source}-1")


@pytest.mark.shows("DATA-09", "DATA-11")
def test_messages_under_other_names(jsonl, read):
    record = {"uid": 4, "dialog": CHAT, "verdict": "harmful", "model": "m", "metadata": {"tactic": "t"}}
    good, bad = read(
        jsonl(record, name="ProMISe.jsonl"), format="messages", columns="messages=dialog, id=uid, label=verdict"
    )
    assert bad == []
    assert (good[0].sequence_id, good[0].label) == ("promise-4", Label.ATTACK)
    assert good[0].metadata == {"model": "m", "tactic": "t"}


def test_a_column_that_the_user_names_must_be_there_and_fit(jsonl, read):
    path = jsonl({"messages": CHAT, "verdict": "rude"}, {"messages": CHAT})
    good, bad = read(path, format="messages", columns="label=verdict")
    assert [unknown_label(sequence) for sequence in good] == ["rude"]
    assert [record.reason for record in bad] == ["column 'verdict' is missing; the file has: messages"]


@pytest.mark.parametrize("default", [None, "attack"])
def test_an_unknown_label_is_kept_and_the_conversation_comes_without_one(jsonl, read, line, default):
    records = [{"messages": CHAT, "label": label} for label in ("5 stars", ["a"], "benign", None)]
    good, bad = read(jsonl(*records), label=default)
    assert bad == []
    assert [sequence.label for sequence in good[:3]] == [Label.UNLABELLED, Label.UNLABELLED, Label.BENIGN]
    assert good[3].label is (Label.ATTACK if default else Label.UNLABELLED)
    assert [unknown_label(sequence) for sequence in good] == ["5 stars", '["a"]', None, None]
    good, bad = read(jsonl(line("x", label="evil"), line("y", label={"a": 1})), label=default)
    assert [(sequence.label, sequence.metadata) for sequence in good] == [
        (Label.UNLABELLED, {"unknown_label": "evil"}),
        (Label.UNLABELLED, {"unknown_label": {"a": 1}}),
    ]
    assert bad == []


LABELS = {
    Label.ATTACK: [1, True, 1.0, "1", "True", "malicious", "Jailbreak", "prompt_injection", "UNSAFE", "harmful"],
    Label.BENIGN: [0, False, "0", "0.0", "false", "safe", "Benign ", "harmless"],
    Label.UNLABELLED: ["unlabelled", "unknown", "", None, "n/a", "NaN"],
}


@pytest.mark.parametrize(("meant", "theirs"), [(meant, word) for meant in LABELS for word in LABELS[meant]])
def test_usual_labels_of_others_are_understood(jsonl, read, line, meant, theirs):
    prompt = {"id": "p", "text": "Hi", "label": theirs}
    for record in (
        {"messages": CHAT, "label": theirs},
        line(label=theirs),
        prompt,
        {"messages": CHAT, "is_attack": theirs},
    ):
        good, bad = read(jsonl(record))
        assert ([sequence.label for sequence in good], bad) == ([meant], [])
        assert unknown_label(good[0]) is None


@pytest.mark.parametrize(
    "label_map",
    ["rude=attack, 1=benign,*=unlabelled", {"Rude": "attack", 1: "benign", "*": "unlabelled"}, "yaml", "json"],
)
def test_a_label_map_goes_before_the_usual_words(jsonl, read, tmp_path, label_map):
    if label_map in ("yaml", "json"):
        text = "rude: attack\n1: benign\n'*': unlabelled\n"
        file = tmp_path / f"map.{label_map}"
        file.write_text('{"rude": "attack", "1": "benign", "*": "unlabelled"}' if label_map == "json" else text)
        label_map = str(file)
    records = [{"messages": CHAT, "label": label} for label in ("RUDE", 1, "malicious", 4)]
    good, bad = read(jsonl(*records), label_map=label_map)
    assert bad == []
    assert [str(sequence.label) for sequence in good] == ["attack", "benign", "unlabelled", "unlabelled"]


@pytest.mark.parametrize(
    "label_map", ["rude=evil", "=attack", "rude=attack,rude=benign", {"rude": 3}, "none.yaml", "\0"]
)
def test_a_label_map_that_is_none_is_refused(jsonl, label_map):
    with pytest.raises(UsageError, match="label map: "):
        open_dataset(jsonl({"messages": CHAT}), label_map=label_map)


def test_metadata_that_is_no_object_is_kept(jsonl, read):
    good, _ = read(jsonl({"messages": CHAT, "metadata": "a note"}))
    assert good[0].metadata == {"metadata": "a note"}


@pytest.mark.shows("DATA-04", "DATA-07", "DATA-12")
@pytest.mark.parametrize(
    ("conversations", "expected"),
    [
        (ENTRIES, [("Hi", "Hello")]),
        (["Hi", "Hello", "Bye"], [("Hi", "Hello"), ("Bye", None)]),
        (CHAT, [("Hi", "Hello")]),
        ([{"from": "system", "value": "Be kind."}, *ENTRIES], [("Hi", "Hello")]),
        ([ENTRIES[0], {"from": "function_call", "value": "look()"}, ENTRIES[1]], [("Hi", "Hello")]),
    ],
)
def test_sharegpt_reads_entries_and_plain_texts(jsonl, array, read, conversations, expected):
    item = {"id": "identity_0", "conversations": conversations, "source": "stack"}
    for path in (jsonl(item), array([item])):
        good, bad = read(path, format="sharegpt")
        assert bad == []
        assert texts(good[0]) == expected
        assert (good[0].sequence_id, good[0].metadata) == ("identity_0", {"source": "stack"})


def test_sharegpt_reads_bare_lists_and_other_columns(array, read):
    good, _ = read(array([ENTRIES]), format="sharegpt")
    assert texts(good[0]) == [("Hi", "Hello")]
    good, _ = read(array([{"talk": ENTRIES}]), format="sharegpt", columns="conversations=talk")
    assert texts(good[0]) == [("Hi", "Hello")]


@pytest.mark.parametrize(
    ("conversations", "reason"),
    [
        ([], "the conversation is empty: it needs at least one message"),
        (["a", 3], "message 2: int among plain texts"),
        ([ENTRIES[0], 3], "message 2: a message must be an object with from and value, not int"),
        ([{"from": "narrator", "value": "x"}], "message 1: unknown speaker 'narrator'; known: human"),
        ([{"from": "human", "value": None}], "message 1: value is NoneType, not text"),
        ([{"from": "system", "value": "only"}], "sequence 'items-1' has no turns: it needs at least one"),
        ("text", "field 'conversations' is text, not a list"),
    ],
)
def test_sharegpt_names_what_is_wrong(array, read, conversations, reason):
    good, bad = read(array([{"conversations": conversations}]), format="sharegpt")
    assert good == []
    assert bad[0].reason.startswith(reason)


def test_columns_of_a_fixed_format_are_refused(jsonl, read, line):
    with pytest.raises(UsageError, match="the format turnwise has no column 'messages'; its columns are fixed"):
        read(jsonl(line()), columns="messages=x")
    with pytest.raises(UsageError, match="known: messages, id, label"):
        read(jsonl({"messages": CHAT}), columns="prompt=x")


@pytest.mark.parametrize("text", ["messages", "messages=", "=x", "a=b,", "", "a=b,a=c"])
def test_columns_that_are_no_pairs_are_refused(jsonl, text):
    with pytest.raises(UsageError, match="columns: "):
        open_dataset(jsonl({"messages": CHAT}), columns=text)


def test_sharegpt_gives_the_same_sequence_as_ever(array, read):
    # The hash tells a sequence that is stored already from another: it must never change.
    entries = [
        {"from": "system", "value": "Be brief."},
        {"from": "human", "value": "Hi"},
        {"from": "function_call", "value": "{}"},
        {"from": "gpt", "value": "Hello"},
        {"role": "user", "content": "Bye"},
    ]
    good, bad = read(array([{"id": "x1", "conversations": entries}]), format="sharegpt")
    assert bad == []
    assert (
        dataclasses.replace(good[0], source="s").content_hash()
        == "f1fcbc9896c18ebdcc4a7bc24f89839d74c2bffedb6a6a97689a33d93985ba6d"
    )
    assert [turn.prompt for turn in from_sharegpt({"conversations": entries})] == ["Hi", "Bye"]


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
