"""The example conversations that ship in the package: enough of both kinds, varied, no shortcut to the label.

Their quality is looked at with `json` alone, so that a fault in a loader can't hide a fault in the data.
`metadata.turned_at` is the first turn whose message asks for something harmful or deceptive, or claims a past
or a role that is not real; it is null in a benign conversation.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from turnwise.conversation import Label
from turnwise.datasets import examples


def test_there_are_enough_of_both_kinds():
    counts = Counter(sequence.label for sequence in examples())
    assert counts[Label.ATTACK] >= 12
    assert counts[Label.BENIGN] >= 12
    assert counts.keys() == {Label.ATTACK, Label.BENIGN}


def test_ids_are_unique():
    ids = [sequence.sequence_id for sequence in examples()]
    assert len(ids) == len(set(ids)) >= 26


Conversation = dict[str, Any]

TACTICS = {
    "emotional_grooming",
    "incremental_escalation",
    "context_narrowing",
    "biographical_to_procedure",
    "sudden_turn_4",
    "fabricated_history",
    "role_spoofing",
}
BENIGN_TOPICS = {
    "security_teaching": 2,
    "medication": 2,
    "fiction_crime": 2,
    "refusal_recovery": 2,
    "harm_reduction": 1,
    "history": 1,
    "moderation": 1,
    "own_account": 1,
    "homework_chemistry": 1,
    "pentest_report": 1,
    "casual": 1,
    "tutoring": 1,
}
LONG = 20


def lines() -> list[str]:
    text = (resources.files("turnwise.datasets") / "examples.jsonl").read_text(encoding="utf-8")
    assert text.endswith("\n")
    return text.removesuffix("\n").split("\n")


ALL: list[Conversation] = [json.loads(line) for line in lines()]
CONVERSATIONS = [conversation for conversation in ALL if conversation["source"] == "turnwise_examples"]
TWINS = [conversation for conversation in ALL if conversation["source"] == "turnwise_twins"]
CORPUS = Path(__file__).parent.parent.parent / "corpus"


def messages(conversation: Conversation, role: str | None = None) -> list[str]:
    return [turn["content"] for turn in conversation["turns"] if role in (None, turn["role"])]


def turn_count(conversation: Conversation) -> int:
    return len(messages(conversation, "user"))


def labelled(label: str) -> list[Conversation]:
    return [conversation for conversation in CONVERSATIONS if conversation["label"] == label]


def word_runs(conversation: Conversation, length: int) -> set[tuple[str, ...]]:
    """Return every run of so many words, none of them across the border of two messages."""
    runs: set[tuple[str, ...]] = set()
    for message in messages(conversation):
        words = re.findall(r"[\w']+", message.lower().replace("’", "'"))
        runs.update(tuple(words[start : start + length]) for start in range(len(words) - length + 1))
    return runs


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda c: str(c["id"]))
class TestEachConversation:
    def test_fields(self, conversation: Conversation) -> None:
        assert list(conversation) == ["id", "label", "source", "turns", "metadata"]
        assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)+", conversation["id"])
        assert conversation["label"] in {"attack", "benign"}
        assert conversation["id"].startswith("benign-") == (conversation["label"] == "benign")
        assert conversation["source"] == "turnwise_examples"

    def test_roles_alternate_from_user(self, conversation: Conversation) -> None:
        roles = [turn["role"] for turn in conversation["turns"]]
        assert roles == [("user", "assistant")[place % 2] for place in range(len(roles))]
        assert all(set(turn) == {"role", "content"} for turn in conversation["turns"])

    def test_length_in_turns(self, conversation: Conversation) -> None:
        allowed = {*range(3, 10), LONG} if conversation["label"] == "benign" else {*range(3, 10)}
        assert turn_count(conversation) in allowed

    def test_messages_are_sane(self, conversation: Conversation) -> None:
        for message in messages(conversation):
            assert isinstance(message, str)
            assert 5 <= len(message) <= 1500
            assert message == message.strip()
            assert message.isprintable() or message.replace("\n", "").isprintable()
            assert "\ufffd" not in message

    def test_addresses_are_reserved_ones(self, conversation: Conversation) -> None:
        for message in messages(conversation):
            for domain in re.findall(r"\w@([\w.-]+)", message):
                assert domain.endswith(".example")

    def test_metadata(self, conversation: Conversation) -> None:
        metadata = conversation["metadata"]
        assert set(metadata) == {"tactic", "title", "intent", "turned_at"}
        for name in ("tactic", "title", "intent"):
            assert metadata[name]
            assert "\n" not in metadata[name]
        if conversation["label"] == "benign":
            assert metadata["turned_at"] is None
        else:
            assert 2 <= metadata["turned_at"] <= turn_count(conversation)


def test_one_object_a_line() -> None:
    assert len(CONVERSATIONS) == 30
    assert all(line.startswith("{") and line.endswith("}") for line in lines())


@pytest.mark.parametrize("field", ["id", "title", "intent"])
def test_no_two_share(field: str) -> None:
    values = [c["id"] if field == "id" else c["metadata"][field] for c in CONVERSATIONS]
    assert len(set(values)) == len(values)


def test_counts_by_label_and_tactic() -> None:
    assert Counter(c["label"] for c in CONVERSATIONS) == {"attack": 14, "benign": 16}
    assert Counter(c["metadata"]["tactic"] for c in labelled("attack")) == dict.fromkeys(TACTICS, 2)
    assert Counter(c["metadata"]["tactic"] for c in labelled("benign")) == BENIGN_TOPICS


def test_exactly_one_long_session() -> None:
    long = [c for c in CONVERSATIONS if turn_count(c) == LONG]
    assert [c["metadata"]["tactic"] for c in long] == ["tutoring"]
    assert len(long[0]["turns"]) == 2 * LONG


def test_sudden_turns_come_at_turn_4() -> None:
    sudden = [c for c in CONVERSATIONS if c["metadata"]["tactic"] == "sudden_turn_4"]
    assert [c["metadata"]["turned_at"] for c in sudden] == [4, 4]


def test_a_few_end_without_a_reply_under_both_labels() -> None:
    open_ended = Counter(c["label"] for c in CONVERSATIONS if c["turns"][-1]["role"] == "user")
    assert open_ended == {"attack": 2, "benign": 2}


def test_no_two_come_from_one_mould() -> None:
    runs_of_6 = {c["id"]: word_runs(c, 6) for c in CONVERSATIONS}
    for (one, left), (other, right) in itertools.combinations(runs_of_6.items(), 2):
        overlap = len(left & right) / len(left | right)
        assert overlap < 0.05, (one, other, left & right)


def test_no_phrase_is_used_in_two_conversations() -> None:
    owners: dict[tuple[str, ...], str] = {}
    for conversation in CONVERSATIONS:
        for run in word_runs(conversation, 7):
            assert owners.setdefault(run, conversation["id"]) == conversation["id"], " ".join(run)


LENGTHS: dict[str, Callable[[Conversation], float]] = {
    "turns": turn_count,
    "characters": lambda c: sum(map(len, messages(c))),
    "mean user message": lambda c: mean(map(len, messages(c, "user"))),
    "longest user message": lambda c: max(map(len, messages(c, "user"))),
    "first user message": lambda c: len(messages(c, "user")[0]),
    "last user message": lambda c: len(messages(c, "user")[-1]),
    "growth of user messages": lambda c: len(messages(c, "user")[-1]) - len(messages(c, "user")[0]),
    "mean reply": lambda c: mean(map(len, messages(c, "assistant"))),
    "last reply": lambda c: len(messages(c, "assistant")[-1]),
}


def test_mean_turns_are_close() -> None:
    short = {label: [c for c in labelled(label) if turn_count(c) != LONG] for label in ("attack", "benign")}
    attack, benign = (mean(map(turn_count, short[label])) for label in ("attack", "benign"))
    assert abs(attack - benign) <= 1.5


@pytest.mark.parametrize("name", LENGTHS)
def test_no_length_tells_the_label(name: str) -> None:
    """The area under the ROC curve of each length stays away from 0 and 1; 0.5 would be no information."""
    lengths = {
        label: [LENGTHS[name](c) for c in labelled(label) if turn_count(c) != LONG]
        for label in ("attack", "benign")
    }
    pairs = list(itertools.product(lengths["attack"], lengths["benign"]))
    area = mean((attack > benign) + 0.5 * (attack == benign) for attack, benign in pairs)
    assert 0.2 < area < 0.8


def test_the_rest_is_a_selection_of_the_twins_from_their_test_split() -> None:
    assert len(CONVERSATIONS) + len(TWINS) == len(ALL)
    splits = json.loads((CORPUS / "splits.json").read_text(encoding="utf-8"))["pairs"]
    corpus = {
        line["id"]: line
        for path in (CORPUS / "twins").glob("*.jsonl")
        for line in map(json.loads, path.read_text(encoding="utf-8").splitlines())
    }
    pairs = Counter(twin["metadata"]["pair"] for twin in TWINS)
    assert len(pairs) >= 4
    assert set(pairs.values()) == {2}
    assert all(splits[pair] == "test" for pair in pairs)
    assert all(corpus[twin["id"]] == twin for twin in TWINS)
