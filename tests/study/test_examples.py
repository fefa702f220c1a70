"""Labelled conversations of a store, and splits that keep groups whole."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.conversation import Conversation, Label, Sequence
from turnwise.errors import UnknownNameError, UsageError
from turnwise.principles import builtin_principles
from turnwise.runs import evaluate
from turnwise.store import Store
from turnwise.study import Example, load_examples, split_by_group

METADATA = {
    "a-1": {"group": "shared", "goal": "other"},
    "a-2": {"goal": "open the lock"},
    "b-1": {"pair": 7},
    "b-2": {"group": "", "kind": "test"},
    "b-3": {"group": True},
    "b-gap": {},
    "u-1": {"group": "shared"},
    "u-gap": {},
}
LABELS = {"a": Label.ATTACK, "b": Label.BENIGN, "u": Label.UNLABELLED}


@pytest.fixture
def store(tmp_path):
    """Return a store in which the sequences called gap were not scored."""
    scores = [
        {"sequence_id": name, "turn": turn, "principle": "reciprocity", "T": 0.5, "I": 0.25, "F": turn / 10}
        for name in METADATA
        if "gap" not in name
        for turn in ((1, 3) if name == "b-1" else (1, 2, 3))
    ]
    (tmp_path / "scores.jsonl").write_text("\n".join(map(json.dumps, scores)), encoding="utf-8")
    with Store(tmp_path / "work.db", create=True) as opened:
        for name, metadata in METADATA.items():
            chat = Conversation.from_turns([("ask", "reply")] * 3, conversation_id=name)
            opened.add_sequences([Sequence(name, LABELS[name[0]], "made", chat, metadata)])
        reciprocity = [principle for principle in builtin_principles() if principle.name == "reciprocity"]
        evaluate(opened, "first", f"replay:{tmp_path / 'scores.jsonl'}", principles=reciprocity)
        yield opened


def test_labelled_conversations_come_with_label_group_and_gaps(store):
    loaded = load_examples(store, "first")
    assert [(example.sequence_id, example.attack, example.group) for example in loaded.examples] == [
        ("a-1", True, "shared"),
        ("a-2", True, "open the lock"),
        ("b-1", False, "7"),
        ("b-2", False, "b-2"),
        ("b-3", False, "b-3"),
    ]
    falsities = [
        [scores.scores["reciprocity"].F if scores.scores else None for scores in example.turns]
        for example in loaded.examples
    ]
    assert falsities[0] == [0.1, 0.2, 0.3]
    assert falsities[2] == [0.1, None, 0.3]


def test_what_is_left_out_is_counted(store):
    loaded = load_examples(store, "first")
    assert (loaded.unlabelled, loaded.not_evaluated) == (1, 1)


def test_an_unknown_run_is_refused(store):
    with pytest.raises(UnknownNameError, match="unknown run 'frist'; did you mean 'first'"):
        load_examples(store, "frist")


examples = st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=60).map(
    lambda rows: [Example(f"s{n}", f"g{group}", attack, ()) for n, (group, attack) in enumerate(rows)]
)

SHARES = {"train": 0.5, "calibrate": 0.25, "test": 0.25}


@given(given_examples=examples, seed=st.integers(0, 5))
def test_no_group_crosses_and_nothing_is_lost(given_examples, seed):
    parts = split_by_group(given_examples, SHARES, seed)
    assert list(parts) == list(SHARES)
    groups = [{example.group for example in part} for part in parts.values()]
    assert sum(map(len, groups)) == len(set().union(*groups))
    assert sorted(e.sequence_id for part in parts.values() for e in part) == sorted(
        e.sequence_id for e in given_examples
    )


@given(given_examples=examples)
def test_the_order_of_the_examples_does_not_matter(given_examples):
    def names(parts):
        return {name: {e.sequence_id for e in part} for name, part in parts.items()}

    assert names(split_by_group(given_examples, SHARES)) == names(split_by_group(given_examples[::-1], SHARES))


def test_both_labels_are_divided_in_the_shares():
    rows = [Example(f"{label}{n}", f"{label}{n}", label == "a", ()) for label in "ab" for n in range(100)]
    parts = split_by_group(rows, SHARES, seed=3)
    assert [sum(e.attack for e in part) for part in parts.values()] == [50, 25, 25]
    assert [len(part) for part in parts.values()] == [100, 50, 50]
    assert {e.group for e in split_by_group(rows, SHARES, 4)["train"]} != {e.group for e in parts["train"]}


@pytest.mark.parametrize("shares", [{"a": 0.5}, {"a": 1.5, "b": -0.5}, {}])
def test_shares_are_positive_and_add_up(shares):
    with pytest.raises(UsageError, match="add up to 1"):
        split_by_group([], shares)
