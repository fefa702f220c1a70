from __future__ import annotations

import json

import pytest

from turnwise.conversation import Conversation, Label, Sequence
from turnwise.errors import UnknownNameError
from turnwise.principles import builtin_principles
from turnwise.runs import evaluate
from turnwise.store import Store
from turnwise.study import load_examples

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
