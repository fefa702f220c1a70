"""OpenAssistant in the three forms of its export: trees, threads and single messages."""

import gzip
import json

import pytest

from turnwise.conversation import Label


def texts(sequence):
    return [(turn.prompt, turn.response) for turn in sequence.conversation]


def message(name, text, role="prompter", **more):
    return {"message_id": name, "text": text, "role": role, "lang": "en", **more}


def tree():
    leaves = [message("c1", "Waves.", "assistant", replies=[]), message("c2", "Wind.", "assistant")]
    branch = message("b1", "The moon.", "assistant", replies=[message("d", "What else?", replies=leaves)])
    root = message("a", "Why tides?", replies=[branch, message("b2", "Gravity.", "assistant", replies=None)])
    return {"message_tree_id": "a", "tree_state": "ready_for_export", "prompt": root}


def flat():
    return [
        message("a", "Why tides?", parent_id=None),
        message("b1", "The moon.", "assistant", parent_id="a"),
        message("b2", "Gravity.", "assistant", parent_id="a"),
        message("d", "What else?", parent_id="b1"),
        message("c1", "Waves.", "assistant", parent_id="d"),
        message("c2", "Wind.", "assistant", parent_id="d"),
    ]


PATHS = {
    "c1": [("Why tides?", "The moon."), ("What else?", "Waves.")],
    "c2": [("Why tides?", "The moon."), ("What else?", "Wind.")],
    "b2": [("Why tides?", "Gravity.")],
}


@pytest.mark.shows("DATA-05")
def test_every_path_of_a_tree_is_a_conversation(tmp_path, read):
    path = tmp_path / "2023-04-12_oasst_ready.trees.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(tree()).encode()))
    good, bad = read(path)
    assert bad == []
    assert {sequence.sequence_id: texts(sequence) for sequence in good} == PATHS
    assert {sequence.metadata["group"] for sequence in good} == {"a"}
    assert good[0].metadata["lang"] == "en"
    assert {sequence.label for sequence in good} == {Label.UNLABELLED}
    assert good[0].source == "openassistant"


def test_single_messages_make_the_same_paths_in_any_order(jsonl, read):
    in_order, _ = read(jsonl(*flat(), name="oasst_ready.messages.jsonl"))
    backwards, bad = read(jsonl(*reversed(flat()), name="backwards.messages.jsonl"))
    assert bad == []
    assert {sequence.sequence_id: texts(sequence) for sequence in in_order} == PATHS
    assert {sequence.sequence_id: texts(sequence) for sequence in backwards} == PATHS


def test_a_thread_is_one_conversation(jsonl, read):
    thread = [message("a", "Why tides?"), message("b", "The moon.", "assistant")]
    good, bad = read(jsonl({"thread_id": "b", "thread": thread}, {"thread_id": "e", "thread": []}))
    assert [texts(sequence) for sequence in good] == [[("Why tides?", "The moon.")]]
    assert [(record.line, record.reason) for record in bad] == [
        (2, "field 'thread' is empty: a conversation without turns")
    ]


def test_messages_that_no_root_leads_to_are_named(jsonl, read):
    orphan = message("x", "Lost.", parent_id="gone")
    below = message("y", "Lost too.", "assistant", parent_id="x")
    good, bad = read(jsonl(*flat(), orphan, below))
    assert len(good) == 3
    assert [(record.line, record.reason) for record in bad] == [
        (7, "no root leads to message 'x', whose parent is 'gone'"),
        (8, "no root leads to message 'y', whose parent is 'x'"),
    ]


@pytest.mark.parametrize(
    ("bad_line", "reason"),
    [
        (message("z", "Hm.", "narrator", parent_id=None), "unknown role 'narrator'; known: prompter, assistant"),
        (message("z", None, parent_id=None), "field 'text' is missing"),
        (message("a", "Again.", parent_id=None), "the id 'a' is already that of line 1"),
        (message("z", "Hm.", parent_id=4), "field 'parent_id' is a number, not text"),
        (
            {"message_tree_id": "t", "prompt": message("t", "Hm.", replies="none")},
            "field 'replies' is text, not a list",
        ),
        ({"message_tree_id": "t", "prompt": message("t", "Hm.", "narrator")}, "unknown role 'narrator'"),
        ({"message_tree_id": "t"}, "field 'prompt' is missing"),
        ([1], "the record is a list, not an object with fields"),
        ("{", "not JSON"),
    ],
)
def test_a_bad_line_is_named_and_the_rest_is_read(jsonl, read, bad_line, reason):
    good, bad = read(jsonl(*flat(), bad_line))
    assert len(good) == 3
    assert [record.line for record in bad] == [7]
    assert bad[0].reason.startswith(reason)


def test_a_tree_deeper_than_the_stack_of_python_is_read(jsonl, read):
    chain = [message("m0", "Start.", parent_id=None)]
    for n in range(1, 3000):
        chain.append(message(f"m{n}", f"Text {n}.", "assistant" if n % 2 else "prompter", parent_id=f"m{n - 1}"))
    good, bad = read(jsonl(*chain))
    assert bad == []
    assert [sequence.conversation.get_turn_count() for sequence in good] == [1500]
