"""``turnwise show``: of a long conversation a part, and nothing of the rest is read for it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from turnwise.conversation import Conversation, Label, Sequence
from turnwise.evaluation import evaluate
from turnwise.observers import build_observer
from turnwise.principles import builtin_principles
from turnwise.store import Store

Cli = Callable[..., Any]
TURNS = 120


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of one long scored conversation of which no turn after the 60th can be read."""
    path = tmp_path_factory.mktemp("long") / "long.db"
    chat = Conversation.from_turns([(f"prompt {n}", None) for n in range(1, TURNS + 1)], conversation_id="a")
    with Store(path, create=True) as store:
        store.add_sequences([Sequence("a", Label.BENIGN, "made", chat)])
        principles = [next(iter(builtin_principles()))]
        evaluate(
            store,
            "first",
            build_observer("scripted:" + ",".join(["0.1", "0.9"] * 60)),
            principles=principles,
            context="turn",
        )
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE turns SET metadata = 'no JSON' WHERE turn > 60")
        connection.execute("UPDATE evaluations SET created_at = 'never' WHERE turn > 60")
    return path


def test_the_first_turns_are_shown_and_how_to_see_more(cli: Cli, long: Path) -> None:
    done = cli("show", "a", "--store", long)
    assert done.code == 0, done.err
    assert "prompt 50 " in done.out
    assert "prompt 51 " not in done.out
    assert done.err.strip() == "turns 1 to 50 of 120; --from 51 shows the next, --limit more of them"


def test_any_part_can_be_asked_for(cli: Cli, long: Path) -> None:
    done = cli("show", "a", "--store", long, "--from", 11, "--limit", 3, "--json")
    assert done.code == 0, done.err
    assert [turn["prompt"] for turn in done.json["turns"]] == ["prompt 11", "prompt 12", "prompt 13"]
    assert [turn["turn"] for turn in done.json["turns"]] == [11, 12, 13]
    assert [next(iter(turn["scores"].values()))["F"] for turn in done.json["turns"]] == [0.1, 0.9, 0.1]


def test_json_has_all_turns_unless_it_is_told_how_many(cli: Cli, long: Path) -> None:
    done = cli("show", "a", "--store", long, "--json")
    assert done.code == 1
    assert "turns.metadata where sequence is 1 and turn is 61: 'no JSON' is not JSON" in done.err


def test_a_part_after_the_last_turn_is_wrong_use(cli: Cli, long: Path) -> None:
    done = cli("show", "a", "--store", long, "--from", 121)
    assert done.code == 2
    assert "--from 121: a has 120 turns" in done.err


def test_a_short_conversation_is_shown_whole(cli: Cli, evaluated: Path) -> None:
    done = cli("show", "attack_01", "--store", evaluated)
    assert done.code == 0, done.err
    assert "turns" not in done.err
