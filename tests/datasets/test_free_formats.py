"""Formats that are anybody's: turnwise JSONL, single prompts, messages and ShareGPT, with columns by any name."""

import dataclasses
import json

import pytest

from turnwise.conversation import Label, from_sharegpt
from turnwise.datasets import LoadOptions
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
    good, _ = read(path, options=LoadOptions(label=Label.ATTACK))
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
    path = jsonl(*(prompt(str(n), label) for n, label in enumerate(labels)), prompt("x", "rude"), prompt("y", 4))
    good, bad = read(path)
    assert [str(sequence.label) for sequence in good] == ["attack", "attack", "attack", "benign"]
    assert [sequence.metadata["label"] for sequence in good] == labels
    assert texts(good[0]) == [("text 0", None)]
    assert (good[0].sequence_id, good[0].source) == ("0", "demo")
    assert [(record.line, record.reason) for record in bad] == [
        (
            5,
            "unknown label 'rude'; known: attack, benign, harmful, injection, jailbreak, unlabeled, unlabelled",
        ),
        (6, "the label is a number, not text"),
    ]


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


def test_messages_under_other_names(jsonl, read):
    record = {"uid": 4, "dialog": CHAT, "verdict": "harmful", "model": "m", "metadata": {"tactic": "t"}}
    options = LoadOptions.parse("messages=dialog, id=uid, label=verdict")
    good, bad = read(jsonl(record, name="ProMISe.jsonl"), format="messages", options=options)
    assert bad == []
    assert (good[0].sequence_id, good[0].label) == ("promise-4", Label.ATTACK)
    assert good[0].metadata == {"model": "m", "tactic": "t"}


def test_a_column_that_the_user_names_must_be_there_and_fit(jsonl, read):
    path = jsonl({"messages": CHAT, "verdict": "rude"}, {"messages": CHAT})
    _, bad = read(path, format="messages", options=LoadOptions.parse("label=verdict"))
    assert bad[0].reason.startswith("unknown label 'rude'")
    assert bad[1].reason == "column 'verdict' is missing; columns there: messages"


def test_a_label_of_another_kind_stays_metadata_where_nobody_named_it(jsonl, read):
    good, bad = read(jsonl({"messages": CHAT, "label": "5 stars"}, {"messages": CHAT, "label": "benign"}))
    assert bad == []
    assert [sequence.label for sequence in good] == [Label.UNLABELLED, Label.BENIGN]
    assert [dict(sequence.metadata) for sequence in good] == [{"label": "5 stars"}, {}]


def test_metadata_that_is_no_object_is_kept(jsonl, read):
    good, _ = read(jsonl({"messages": CHAT, "metadata": "a note"}))
    assert good[0].metadata == {"metadata": "a note"}


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
    good, _ = read(array([{"talk": ENTRIES}]), format="sharegpt", options=LoadOptions.parse("conversations=talk"))
    assert texts(good[0]) == [("Hi", "Hello")]


@pytest.mark.parametrize(
    ("conversations", "reason"),
    [
        ([], "the conversation is empty: a list without messages"),
        (["a", 3], "message 2: int among plain texts"),
        ([ENTRIES[0], 3], "message 2: an object with from and value is needed, not int"),
        ([{"from": "narrator", "value": "x"}], "message 1: unknown speaker 'narrator'; known: human"),
        ([{"from": "human", "value": None}], "message 1: value is NoneType, not text"),
        ([{"from": "system", "value": "only"}], "sequence 'items-1' has no turns"),
        ("text", "field 'conversations' is text, not a list"),
    ],
)
def test_sharegpt_names_what_is_wrong(array, read, conversations, reason):
    good, bad = read(array([{"conversations": conversations}]), format="sharegpt")
    assert good == []
    assert bad[0].reason.startswith(reason)


def test_columns_of_a_fixed_format_are_refused(jsonl, read, line):
    with pytest.raises(UsageError, match="the format turnwise has no 'messages'; its columns are fixed"):
        read(jsonl(line()), options=LoadOptions.parse("messages=x"))
    with pytest.raises(UsageError, match="it takes messages, id, label"):
        read(jsonl({"messages": CHAT}), options=LoadOptions.parse("prompt=x"))


@pytest.mark.parametrize("text", ["messages", "messages=", "=x", "a=b,", "", "a=b,a=c"])
def test_columns_that_are_no_pairs_are_refused(text):
    with pytest.raises(UsageError, match="columns: "):
        LoadOptions.parse(text)


def test_no_columns_is_no_error():
    assert LoadOptions.parse(None) == LoadOptions()


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
