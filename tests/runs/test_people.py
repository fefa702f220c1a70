"""What people said of conversations becomes files that `replay` reads, and runs that studies take for truth."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnwise.conversation import Conversation, Label, Seen, Sequence, Side
from turnwise.datasets import read_judgements
from turnwise.errors import UnknownNameError, UsageError
from turnwise.observers import build_observer
from turnwise.principles import load_principle
from turnwise.runs import export_people, record_people
from turnwise.scoring import Score
from turnwise.store import Store
from turnwise.study.compare import read_reader

MILD, GRAVE = Score(0.9, 0.1, 0.1), Score(0.1, 0.2, 0.9)
VERSIONS = {"reciprocity": load_principle("reciprocity").revision}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return a store of two conversations of three turns, on which Ann and Ben have worked."""
    with Store(tmp_path / "work.db", create=True) as opened:
        for name in ("locks", "levers"):
            turns = [(f"{name} {turn}", f"reply {turn}") for turn in (1, 2, 3)]
            chat = Conversation.from_turns(turns, conversation_id=name)
            opened.add_sequences([Sequence(name, Label.ATTACK, "made", chat)])
        for turn, score in enumerate((MILD, MILD, GRAVE), start=1):
            opened.people.judge(
                "locks", turn, {"reciprocity": score}, "ann", versions=VERSIONS, note=f"turn {turn}"
            )
        opened.people.mark_turn("locks", 2, "ben", "already here")
        opened.people.mark_turn("levers", 0, "ben")
        opened.people.correct_label("levers", "benign", "ben")
        yield opened


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_each_author_has_a_folder_of_files(store: Store, tmp_path: Path) -> None:
    assert export_people(store, tmp_path / "people") == {
        "ann/history.jsonl": 3,
        "ben/turned.jsonl": 6,
        "ben/corrections.jsonl": 3,
    }
    assert [line["reasoning"] for line in lines(tmp_path / "people/ann/history.jsonl")] == [
        "turn 1",
        "turn 2",
        "turn 3",
    ]
    turned = lines(tmp_path / "people/ben/turned.jsonl")
    assert [(line["sequence_id"], line["turn"], line["F"]) for line in turned] == [
        ("locks", 1, 0.0), ("locks", 2, 1.0), ("locks", 3, 1.0),
        ("levers", 1, 0.0), ("levers", 2, 0.0), ("levers", 3, 0.0),
    ]  # fmt: skip
    kept = lines(tmp_path / "people/ben/corrections.jsonl")
    assert [(line["kind"], line.get("label"), line.get("turn"), line["note"]) for line in kept] == [
        ("turn", None, 2, "already here"),
        ("turn", None, 0, ""),
        ("label", "benign", None, ""),
    ]


def test_the_replay_observer_reads_what_was_written(store: Store, tmp_path: Path) -> None:
    export_people(store, tmp_path / "people")
    for path in sorted((tmp_path / "people").glob("*/[!c]*.jsonl")):
        assert build_observer(f"replay:{path}").info.name == "replay"
    judged = list(read_judgements(tmp_path / "people/ann/history.jsonl"))
    assert [(one.turn, one.scores, one.reading) for one in judged][2] == (3, {"reciprocity": GRAVE}, "ann")


def test_what_was_said_becomes_runs_that_are_truth_for_studies(store: Store, tmp_path: Path) -> None:
    export_people(store, tmp_path / "people")
    assert [one.run for one in record_people(store, tmp_path / "people")] == ["judged-by-ann", "turned-by-ben"]
    assert read_reader(store, "judged-by-ann").turns == {"locks": (3,)}
    assert read_reader(store, "turned-by-ben").turns == {"locks": (2, 3), "levers": ()}
    again = record_people(store, tmp_path / "people")
    assert [one.evaluations for one in again] == [0, 0]


def test_a_run_never_changes_under_its_name(store: Store, tmp_path: Path) -> None:
    export_people(store, tmp_path / "people", ["ben"])
    record_people(store, tmp_path / "people", ["ben"])
    store.people.mark_turn("locks", 3, "ben", "one later, after all")
    export_people(store, tmp_path / "people", ["ben"])
    with pytest.raises(UsageError, match="turned-by-ben"):
        record_people(store, tmp_path / "people", ["ben"])
    store.rename_run("turned-by-ben", "ben-at-first")
    record_people(store, tmp_path / "people", ["ben"])
    assert read_reader(store, "turned-by-ben").first("locks") == 3
    assert read_reader(store, "ben-at-first").first("locks") == 2


def test_replies_are_judged_apart(store: Store, tmp_path: Path) -> None:
    store.people.judge(
        "locks", 1, {"reciprocity": MILD}, "ann", versions=VERSIONS, side=Side.RESPONSE, seen=Seen.BOTH
    )
    assert export_people(store, tmp_path / "people", ["ann"]) == {"ann/history.jsonl": 3, "ann/replies.jsonl": 1}
    names = [one.run for one in record_people(store, tmp_path / "people", ["ann"])]
    assert names == ["judged-by-ann", "judged-by-ann-replies"]


def test_a_file_of_what_was_taken_back_goes(store: Store, tmp_path: Path) -> None:
    export_people(store, tmp_path / "people")
    for name in ("locks", "levers"):
        store.people.mark_turn(name, None, "ben")
    assert export_people(store, tmp_path / "people", ["ben"]) == {"ben/corrections.jsonl": 1}
    assert not (tmp_path / "people/ben/turned.jsonl").exists()


def test_no_name_leads_out_of_the_folder(store: Store, tmp_path: Path) -> None:
    store.people.correct_label("locks", "benign", "../../Änn")
    assert list(export_people(store, tmp_path / "people", ["../../Änn"])) == [
        "%2E%2E%2F%2E%2E%2F%C3%84nn/corrections.jsonl"
    ]


def test_who_said_nothing_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown author 'anne'"):
        export_people(store, tmp_path / "people", ["anne"])
    with (
        Store(tmp_path / "empty.db", create=True) as empty,
        pytest.raises(UsageError, match="no corrections or judgements"),
    ):
        export_people(empty, tmp_path / "people")
