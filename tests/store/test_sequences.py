"""Sequences go in word for word and come out equal, in the order in which they came."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from turnwise.conversation import Conversation, Label, Sequence, Turn, from_messages
from turnwise.datasets import open_dataset
from turnwise.errors import OtherLabelError, UnknownNameError, UsageError
from turnwise.store import Added, SequenceHead, Store, import_sequences

MakeSequence = Callable[..., Sequence]
Sequences = Iterable[Sequence]
MANY = 1_203
"""More than two pages of the store."""


def added(store: Store, sequences: Sequences, **options: Any) -> list[bool]:
    """Store sequences, and return of each whether it was new."""
    return [one.new for one in store.add_sequences(sequences, **options)]


def same(stored: Sequence, given: Sequence) -> bool:
    return (
        (stored.sequence_id, stored.label, stored.source) == (given.sequence_id, given.label, given.source)
        and dict(stored.metadata) == dict(given.metadata)
        and stored.conversation.to_dict() == given.conversation.to_dict()
    )


def test_a_sequence_comes_back_as_it_was(store: Store) -> None:
    zone = timezone(timedelta(hours=2))
    chat = Conversation(
        "Zoë",
        "helper-1",
        initiator_type="human",
        responder_type="ai_model",
        conversation_id="c1",
        model_info={"model_id": "m", "temperature": 0.5},
        metadata={"nested": {"list": [1, 2.5, None, True, "ü"]}},
        rate_limit={"turns_per_minute": 5},
    )
    at = datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=zone)
    chat.add_turn(
        "Hello 👋🏽\n\ttabs", "שלום", {"k": [1]}, timestamp=at, response_timestamp=at + timedelta(seconds=3)
    )
    chat.add_prompt("nul \x00 and \u2028 line", timestamp=at + timedelta(days=1))
    given = Sequence("id with spaces, Ünïcode", Label.BENIGN, "src/1", chat, {"goal": "a", "n": [1, {"x": None}]})
    assert added(store, [given]) == [True]
    stored = store.sequence(given.sequence_id)
    assert same(stored, given)
    assert next(iter(stored.conversation)).timestamp == at.astimezone(UTC)
    assert stored.conversation.participants == chat.participants


def test_turns_without_times_replies_or_words_stay_so(store: Store) -> None:
    chat = Conversation.from_turns([Turn(1, "", "the responder began"), Turn(2, "and now?"), Turn(3, "", "")])
    store.add_sequences([Sequence("a", Label.UNLABELLED, "s", chat)])
    turns = list(store.sequence("a").conversation)
    assert [(turn.prompt, turn.response) for turn in turns] == [
        ("", "the responder began"),
        ("and now?", None),
        ("", ""),
    ]
    assert all(turn.timestamp is None and turn.response_timestamp is None for turn in turns)


def test_the_same_again_is_left_alone(store: Store, make_sequence: MakeSequence) -> None:
    assert added(store, [make_sequence("a"), make_sequence("b")]) == [True, True]
    assert added(store, [make_sequence("b"), make_sequence("c"), make_sequence("c")]) == [
        False,
        True,
        False,
    ]
    assert store.counts()["sequences"] == 3
    assert store.counts()["turns"] == 6


def test_what_does_not_make_a_sequence_another_one(store: Store, make_sequence: MakeSequence) -> None:
    first = make_sequence("a", ("hi", None))
    # A loader may give a conversation a random id, or a line of the file, each time it reads it.
    again = Conversation.from_turns([("hi", None)], conversation_id="another")
    assert added(store, [first]) == [True]
    assert added(store, [dataclasses.replace(first, conversation=again, line=7)]) == [False]


@pytest.mark.parametrize(
    "change",
    [
        {"label": Label.BENIGN},
        {"source": "elsewhere"},
        {"goal": "another"},
        {"turns": [("first of a", "reply")]},
        {"turns": [("first of a", "reply"), ("second of a", "")]},
    ],
    ids=["label", "source", "metadata", "fewer turns", "a reply"],
)
def test_other_content_under_a_taken_id_stores_nothing_of_the_call(
    store: Store, make_sequence: MakeSequence, change: dict[str, Any]
) -> None:
    store.add_sequences([make_sequence("a")])
    rest = {name: value for name, value in change.items() if name != "turns"}
    other = make_sequence("a", *change.get("turns", ()), **rest)
    with pytest.raises(UsageError, match="duplicate id 'a': the store holds a sequence of that id with other"):
        store.add_sequences([make_sequence("b"), other, make_sequence("c")])
    assert [head.sequence_id for head in store.heads()] == ["a"]
    assert same(store.sequence("a"), make_sequence("a"))


def test_another_system_message_is_other_content(store: Store) -> None:
    def told(system: str) -> Sequence:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": "hi"}]
        return Sequence("a", Label.ATTACK, "s", from_messages(messages, conversation_id="a"))

    assert added(store, [told("be kind")]) == [True]
    assert added(store, [told("be kind")]) == [False]
    with pytest.raises(UsageError, match="duplicate id 'a'"):
        store.add_sequences([told("be cruel")])


def test_a_text_that_is_no_unicode_is_refused_and_named(store: Store, make_sequence: MakeSequence) -> None:
    with pytest.raises(UsageError, match=r"'cut off \\ud83d' has half of a surrogate pair"):
        store.add_sequences([make_sequence("good"), make_sequence("bad", ("cut off \ud83d", None))])
    assert store.counts()["sequences"] == 0
    with pytest.raises(UsageError, match="half of a surrogate pair"):
        store.sequence("\udcff")


def test_unknown_ids_are_named_with_what_is_near(store: Store, make_sequence: MakeSequence) -> None:
    store.add_sequences([make_sequence("attack_01"), make_sequence("attack_02")])
    with pytest.raises(UnknownNameError, match="unknown sequence 'atack_01'; did you mean 'attack_01'"):
        store.sequence("atack_01")
    for read in (store.sequences, store.heads, store.groups):
        with pytest.raises(UnknownNameError, match="unknown sequence 'nobody'"):
            list(read(ids=["attack_01", "nobody"]))


def test_ids_and_label_narrow_what_is_read(store: Store, make_sequence: MakeSequence) -> None:
    labels = [Label.ATTACK, Label.BENIGN, Label.UNLABELLED, Label.BENIGN]
    store.add_sequences(make_sequence(name, label=label) for name, label in zip("dbca", labels, strict=True))

    def names(**chosen: Any) -> list[str]:
        heads = [head.sequence_id for head in store.heads(**chosen)]
        assert [sequence.sequence_id for sequence in store.sequences(**chosen)] == heads
        return heads

    assert names() == ["d", "b", "c", "a"]
    assert names(ids=["a", "b", "a"]) == ["b", "a"]
    assert names(ids=[]) == []
    assert names(label=Label.BENIGN) == ["b", "a"]
    assert names(ids=["a", "c"], label=Label.BENIGN) == ["a"]
    assert names(ids=["c"], label=Label.ATTACK) == []


def test_a_head_is_a_sequence_without_its_texts(store: Store, make_sequence: MakeSequence) -> None:
    store.add_sequences([make_sequence("a", label=Label.BENIGN, source="s")])
    assert list(store.heads()) == [SequenceHead("a", Label.BENIGN, "s", 2)]


def test_groups_are_what_the_metadata_say_sequences_share(store: Store, make_sequence: MakeSequence) -> None:
    store.add_sequences(
        [
            make_sequence("z", goal="open the lock", intent="other"),
            make_sequence("a", group=7, goal="open the lock"),
            make_sequence("b", pair="p", label=Label.BENIGN),
            make_sequence("c", group="", intent="told"),
            make_sequence("d", group=True, goal=None, pair=["no", "name"]),
            make_sequence("e", theme="no key of a group"),
        ]
    )
    groups = store.groups()
    assert groups == {"z": "open the lock", "a": "7", "b": "p", "c": "told", "d": "d", "e": "e"}
    assert list(groups) == ["z", "a", "b", "c", "d", "e"]
    assert store.groups(label=Label.BENIGN) == {"b": "p"}
    assert store.groups(ids=["e", "z"]) == {"z": "open the lock", "e": "e"}
    assert store.groups(ids=[]) == {}


def test_more_sequences_than_a_page_holds(location: str, make_sequence: MakeSequence) -> None:
    names = [f"s{number:04}" for number in range(MANY)]
    with Store(location, create=True) as store:
        given = [make_sequence(name, (name, None), label=Label.ATTACK) for name in names]
        given[700] = make_sequence(names[700], (names[700], None), ("two", None), label=Label.BENIGN)
        assert added(store, given) == [True] * MANY
    with Store(location) as store:
        read = list(store.sequences())
        assert [sequence.sequence_id for sequence in read] == names
        assert [next(iter(sequence.conversation)).prompt for sequence in read] == names
        # Ids in any order come back in that of the import, over the edges of pages as well.
        backwards = names[:0:-1]
        assert [head.sequence_id for head in store.heads(ids=backwards)] == names[1:]
        assert list(store.groups(ids=backwards)) == names[1:]
        assert [sequence.sequence_id for sequence in store.sequences(ids=backwards)] == names[1:]
        assert [head.sequence_id for head in store.heads(label=Label.BENIGN)] == [names[700]]
        assert sum(head.turns for head in store.heads(label=Label.ATTACK)) == MANY - 1


def test_reading_goes_on_while_sequences_are_added(store: Store, make_sequence: MakeSequence) -> None:
    store.add_sequences([make_sequence("a"), make_sequence("b")])
    reading = store.sequences()
    assert next(reading).sequence_id == "a"
    store.add_sequences([make_sequence("c")])
    assert [sequence.sequence_id for sequence in reading] == ["b", "c"]


def test_another_label_needs_a_word_and_changes_nothing_else(
    location: str, store: Store, make_sequence: MakeSequence
) -> None:
    stored = make_sequence("a", label=Label.UNLABELLED, goal="locks", unknown_label="odd")
    given = dataclasses.replace(stored, label=Label.ATTACK, source="another name", metadata={"row": 7})
    store.add_sequences([stored, make_sequence("b")])
    with pytest.raises(OtherLabelError, match="its label is unlabelled, not attack; relabel it") as refused:
        store.add_sequences([make_sequence("c"), given])
    assert (refused.value.sequence_id, refused.value.stored, refused.value.given) == ("a", "unlabelled", "attack")
    assert store.counts()["sequences"] == 2
    assert same(store.sequence("a"), stored)
    outcomes = store.add_sequences([make_sequence("c"), given, make_sequence("b")], relabel=True)
    assert outcomes == [Added(new=True), Added(new=False, label_before=Label.UNLABELLED), Added(new=False)]
    changed = dataclasses.replace(stored, label=Label.ATTACK, metadata={"goal": "locks"})
    with Store(location) as again:
        assert same(again.sequence("a"), changed)
    assert added(store, [changed]) == [False]  # its digest is that of its new content
    assert store.add_sequences([given], relabel=True) == [Added(new=False)]


def test_a_label_that_is_not_known_keeps_its_word(store: Store, make_sequence: MakeSequence) -> None:
    store.add_sequences([make_sequence("a", goal="x")])
    odd = make_sequence("a", label=Label.UNLABELLED, goal="x", unknown_label="odd")
    assert store.add_sequences([odd], relabel=True) == [Added(new=False, label_before=Label.ATTACK)]
    assert same(store.sequence("a"), odd)


def test_other_turns_are_never_relabelled(store: Store, make_sequence: MakeSequence) -> None:
    store.add_sequences([make_sequence("a"), make_sequence("b")])
    other = make_sequence("b", ("first of b", "another reply"), label=Label.BENIGN)
    with pytest.raises(
        UsageError, match="'b': the store holds a sequence of that id with other content, its turns"
    ):
        store.add_sequences([make_sequence("a", label=Label.BENIGN), other], relabel=True)
    assert {str(head.label) for head in store.heads()} == {"attack"}


def test_a_sequence_with_two_labels_in_one_call_is_refused(store: Store, make_sequence: MakeSequence) -> None:
    with pytest.raises(OtherLabelError):
        store.add_sequences([make_sequence("a"), make_sequence("a", label=Label.BENIGN)], relabel=True)
    assert store.counts()["sequences"] == 0


def test_who_reads_while_labels_change_sees_them_as_they_were_or_as_they_are(
    location: str, store: Store, make_sequence: MakeSequence
) -> None:
    names = [f"s{number}" for number in range(40)]
    labelled = {label: [make_sequence(name, label=label) for name in names] for label in Label}
    store.add_sequences(labelled[Label.UNLABELLED])
    ended = threading.Event()

    def change() -> None:
        with Store(location) as writer:
            for _ in range(10):
                for label in (Label.ATTACK, Label.BENIGN):
                    writer.add_sequences(labelled[label], relabel=True)
        ended.set()

    thread = threading.Thread(target=change)
    thread.start()
    while not ended.wait(0.001):
        assert len({head.label for head in store.heads()}) == 1
    thread.join()
    assert {head.label for head in store.heads()} == {Label.BENIGN}


TURNS = 40


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Return how often a turn of each number was built."""
    counts: Counter[int] = Counter()
    build = Turn.__post_init__

    def counted(turn: Turn) -> None:
        counts[turn.number] += 1
        build(turn)

    monkeypatch.setattr(Turn, "__post_init__", counted)
    return counts


def _messages() -> list[dict[str, Any]]:
    roles = [("user", f"prompt {number}") for number in range(TURNS)]
    return [{"role": role, "content": text} for role, text in roles]


def _entries() -> list[dict[str, Any]]:
    return [{"from": "human", "value": f"prompt {number}"} for number in range(TURNS)]


@pytest.mark.parametrize(
    "line",
    [lambda: {"id": "a", "messages": _messages()}, lambda: {"id": "a", "conversations": _entries()}],
    ids=["messages", "sharegpt"],
)
def test_a_turn_is_built_once_each_way(
    tmp_path: Path, built: Counter[int], line: Callable[[], dict[str, Any]]
) -> None:
    file = tmp_path / "chats.jsonl"
    file.write_text(json.dumps(line()) + "\n")
    once = dict.fromkeys(range(1, TURNS + 1), 1)
    with Store(tmp_path / "work.db", create=True) as store:
        assert import_sequences(store, open_dataset(file), where=str(file)).imported == 1
        assert built == once
        built.clear()
        (sequence,) = store.sequences()
        assert built == once
        built.clear()
        assert len(store.turns(sequence.sequence_id, range(1, TURNS + 1))) == TURNS
        assert built == once
